"""Futures of publications: made when a client publishes, done when the message is as safe as was asked."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeAlias, Union

from antecede.core import Message
from antecede.core.errors import StoppedError
from antecede.core.process import Change


class Settlement:
    """What a session needs of a future, for publications that no task awaits: it calls back at once.

    A future calls back in another turn of the event loop, and costs more than the publication itself.
    """

    __slots__ = ("_callbacks", "_done", "_error", "_message")

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Settlement], object]] = []
        self._done = False
        self._error: BaseException | None = None
        self._message: Message | None = None

    def done(self) -> bool:
        return self._done

    def cancelled(self) -> bool:
        return False

    def result(self) -> Message:
        assert self._message is not None
        return self._message

    def exception(self) -> BaseException | None:
        return self._error

    def add_done_callback(self, do: "Callable[[Settlement], object]") -> None:
        """Call `do` once it is done, which it is not yet."""
        self._callbacks.append(do)

    def set_result(self, message: Message) -> None:
        self._message = message
        self._settle()

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._settle()

    def _settle(self) -> None:
        self._done = True
        callbacks, self._callbacks = self._callbacks, []
        for do in callbacks:
            do(self)


#: Told when a message is safe.
Promise: TypeAlias = Union["asyncio.Future[Message]", Settlement]


class Promises:
    """The futures of one driver. They pass three stages: unstamped, stamped, taken into a batch.

    A message is *stamped* when the protocol has given it a sequence number. Its future is done when the batch with it
    was committed and sent (`keep`).
    """

    def __init__(self) -> None:
        # Payloads the process has yet to stamp, by topic, each with its future, if there is one.
        self._unstamped: dict[str, deque[tuple[bytes, Promise | None, bool]]] = {}
        # Stamped, and not yet taken into a batch; and taken, not yet safe.
        self._stamped: list[tuple[Promise, Message]] = []
        self._taken: list[tuple[Promise, Message]] = []
        self._sync = False

    def wait(self, topic: str, payload: bytes, message: Message | None, future: Promise | None, sync: bool) -> None:
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
