"""Publications that wait until the protocol would number them at once.

A message may wait inside the protocol where there is one partition only: the protocol keeps the order of its partition.
With several, a client's later message in another partition would get its number first, and would not follow it. So the
publications of a client wait here, outside, in the client's order.

A node may publish in a partition that it does not take. The first message then waits inside the protocol, which asks
other nodes who takes the partition. The client's later ones wait until that message has its number (`queued`).
"""

import asyncio
from collections.abc import Callable

from antecede.core import Message, Process
from antecede.core.partitions import Partitions


class Numbering:
    """The publications of one node that wait for a number."""

    def __init__(self, partitions: Partitions, process: Process) -> None:
        self._partitions = partitions
        self._process = process
        #: Of the last message that the protocol took and did not number: done when that is safe.
        self.queued: asyncio.Future[Message] | None = None
        #: The partition, and what to call when it may go on.
        self._waiting: list[tuple[str, Callable[[], None]]] = []

    def wait(self, topic: str, do: Callable[[], None]) -> bool:
        """If a message on `topic` would have to wait: call `do` once it need not, and return True."""
        if self._partitions.count == 1:
            return False
        name = self._partitions.names[self._partitions.of(topic)]
        if self._goes(name):
            return False
        self._waiting.append((name, do))
        return True

    def wait_for(self, queued: "asyncio.Future[Message] | None", do: Callable[[], None]) -> bool:
        """If there are partitions, and the message of `queued` has no number: call `do` once it has; return True."""
        if self._partitions.count == 1 or queued is None or queued.done():
            return False
        queued.add_done_callback(lambda _: do())
        return True

    def clear_queued(self) -> None:
        """A message is about to be published: `queued` says afterwards whether it waits for its number."""
        self.queued = None

    def _goes(self, name: str) -> bool:
        return self._process.stamps_now(name) or not self._process.takes(name)

    def withdraw(self, do: Callable[[], None]) -> None:
        """Take `wait` back: the client is gone, or its publications are over their time."""
        self._waiting = [one for one in self._waiting if one[1] != do]

    def look_again(self) -> None:
        """The protocol has dealt with its inputs: it may number more messages now."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for name, do in waiting:
                if self._goes(name):
                    do()
                else:
                    self._waiting.append((name, do))
