"""Publications that wait until the protocol would number them at once.

A message may wait inside the protocol where there is one partition only: the protocol keeps the order of its partition.
With several, a client's later message in another partition would get its number first, and would not follow it. So the
publications of a client wait here, outside, in the client's order.
"""

from collections.abc import Callable

from antecede.core.partitions import Partitions
from antecede.node.taking import Taking


class Numbering:
    """The publications of one node that wait for a number."""

    def __init__(self, partitions: Partitions, taking: Taking, stamps_now: Callable[[str], bool]) -> None:
        self._partitions = partitions
        self._taking = taking
        self._stamps_now = stamps_now
        #: The partition, and what to call when it may go on.
        self._waiting: list[tuple[str, Callable[[], None]]] = []

    def wait(self, topic: str, do: Callable[[], None]) -> bool:
        """If a message on `topic` would have to wait: call `do` once it need not, and return True."""
        if self._partitions.count == 1:
            return False
        partition = self._partitions.of(topic)
        if not self._taking.publishes(partition):
            self._taking.wait(partition, do)
            return True
        name = self._partitions.names[partition]
        if self._stamps_now(name):
            return False
        self._waiting.append((name, do))
        return True

    def withdraw(self, do: Callable[[], None]) -> None:
        """Take `wait` back: the client is gone, or its publications are over their time."""
        self._waiting = [one for one in self._waiting if one[1] != do]

    def look_again(self) -> None:
        """The protocol has dealt with its inputs: it may number more messages now."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for name, do in waiting:
                if self._stamps_now(name):
                    do()
                else:
                    self._waiting.append((name, do))
