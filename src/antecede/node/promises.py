"""Futures of publications: made when a client publishes, done when the message is as safe as was asked."""

import asyncio
from collections import deque

from antecede.core import Message
from antecede.core.errors import StoppedError
from antecede.core.process import Change


class Promises:
    """The futures of one driver. They pass three stages: unstamped, stamped, taken into a batch.

    A message is *stamped* when the protocol has given it a sequence number. Its future is done when the batch with it
    was committed and sent (`keep`).
    """

    def __init__(self) -> None:
        # Payloads the process has yet to stamp, by topic, each with its future, if there is one.
        self._unstamped: dict[str, deque[tuple[bytes, asyncio.Future[Message] | None, bool]]] = {}
        # Stamped, and not yet taken into a batch; and taken, not yet safe.
        self._stamped: list[tuple[asyncio.Future[Message], Message]] = []
        self._taken: list[tuple[asyncio.Future[Message], Message]] = []
        self._sync = False

    def wait(
        self, topic: str, payload: bytes, message: Message | None, future: "asyncio.Future[Message] | None", sync: bool
    ) -> None:
        """A payload was published: as `message`, or, if that is None, the process reports it later."""
        if message is None:
            self._unstamped.setdefault(topic, deque()).append((payload, future, sync))
            return
        self._sync = self._sync or sync
        if future is not None:
            self._stamped.append((future, message))

    def take(self, changes: list[Change]) -> bool:
        """A batch is made, with the changes the process reported: its messages are being made safe.

        Returns True when a publisher asked for one of them on the disk itself.
        """
        if self._unstamped:
            for change in changes:
                if change.message is not None:
                    self._match(change.message)
        if self._stamped:
            self._taken += self._stamped
            self._stamped = []
        sync, self._sync = self._sync, False
        return sync

    def keep(self) -> None:
        """Every message taken into a batch is safe."""
        if self._taken:
            taken, self._taken = self._taken, []
            for future, message in taken:
                if not future.done():
                    future.set_result(message)

    def break_all(self, why: str) -> None:
        late = [future for waiting in self._unstamped.values() for _, future, _ in waiting if future is not None]
        for future in (*late, *(future for future, _ in (*self._stamped, *self._taken))):
            if not future.done():
                future.set_exception(StoppedError(why))

    def _match(self, message: Message) -> None:
        """Each topic keeps its order: the message is the first that waits, or it was published before a restart."""
        waiting = self._unstamped.get(message.topic)
        if waiting and waiting[0][0] == message.payload:
            _, future, sync = waiting.popleft()
            self._sync = self._sync or sync
            if not waiting:
                del self._unstamped[message.topic]
            if future is not None:
                self._stamped.append((future, message))
