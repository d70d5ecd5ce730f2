"""Appends what a client publishes, in the order of its calls.

A publication waits in a queue until the writer may state its past: a client that changes logs waits for the
acknowledgements of the log it leaves. It is sent again when no acknowledgement comes, under the same name and number.
When its time is over its caller is told, and a tombstone is sent in its place until the log has one of the two: readers
wait for numbers.
"""

import asyncio
import secrets
import time
from collections import deque
from dataclasses import dataclass
from typing import Final

from antecede.core.caches import BoundedCache
from antecede.core.errors import AntecedeError, ConnectionLostError, LimitError, PublishError, StoppedError
from antecede.logs.contract import AppendError, LogAdapter, Outgoing
from antecede.protocols.logs import Header, Writer, encode_header
from antecede.wire.cursors import MessageId
from antecede.wire.waiters import Waiters, cancel_all

#: Publications without an acknowledgement. `publish` waits beyond it, `publish_nowait` refuses.
PENDING_MAX: Final = 8192
#: Pasts of messages that were read or published here, remembered for `after=`.
PASTS_MAX: Final = 65_536
#: An append without an acknowledgement is sent again after so many seconds, then after twice as many, up to the last.
_RETRY_S: Final = (1.0, 8.0)
_TICK_S: Final = 0.25
#: A log that takes not even a tombstone for so long gets a hole.
_TOMBSTONE_S: Final = 60.0
#: Closing waits so long for acknowledgements.
_CLOSING_S: Final = 5.0

Past = tuple[tuple[int, int], ...]


@dataclass(slots=True, eq=False)
class _Publication:
    log: int
    topic: str
    payload: bytes
    headers: dict[str, str] | None
    past: Past | None
    deadline: float
    future: asyncio.Future[MessageId]
    header: Header | None = None
    retry_s: float = _RETRY_S[0]
    retry_at: float = 0.0
    #: How many copies were sent.
    sent: int = 0


class Publisher:
    """The writing side of a bus."""

    def __init__(self, adapter: LogAdapter) -> None:
        self.writer = Writer(secrets.randbits(64))
        self._name = f"{self.writer.writer:016x}"
        self._adapter = adapter
        self._queue: deque[_Publication] = deque()
        self._pending: dict[tuple[int, int], _Publication] = {}
        self._pasts: BoundedCache[MessageId, Past] = BoundedCache(PASTS_MAX)
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._room = Waiters()
        self._tasks: list[asyncio.Task[None]] = []
        self._error: AntecedeError | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._send_all()), loop.create_task(self._tick())]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """No one awaits these tasks: without this, publications would wait for ever after an error in one."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._error = StoppedError(f"{self._adapter.where}: publishing failed ({type(error).__name__}: {error})")
            self._error.__cause__ = error
            for one in (*self._queue, *self._pending.values()):
                _fail(one, self._error)

    async def close(self, error: AntecedeError) -> None:
        """Wait a little for acknowledgements, then end."""
        self._error = self._error or error
        try:
            async with asyncio.timeout(_CLOSING_S):
                await self._idle.wait()
        except TimeoutError:
            pass
        await cancel_all(self._tasks)
        for one in (*self._queue, *self._pending.values()):
            sent = one.header is not None
            _fail(one, PublishError("the bus was closed before the acknowledgement came", may_arrive=sent))
        self._queue.clear()
        self._pending.clear()
        self._room.release()

    # -- what the bus asks ---------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        return len(self._queue) + len(self._pending)

    def submit(
        self, log: int, topic: str, payload: bytes, headers: dict[str, str] | None, past: Past | None, timeout_s: float
    ) -> "asyncio.Future[MessageId]":
        if self._error is not None:
            raise self._error
        if self.waiting >= PENDING_MAX:
            raise LimitError("unacknowledged publications", self.waiting, PENDING_MAX, "await some of them")
        future: asyncio.Future[MessageId] = asyncio.get_running_loop().create_future()
        one = _Publication(log, topic, payload, headers, past, time.monotonic() + timeout_s, future)
        self._queue.append(one)
        self._idle.clear()
        self._wake.set()
        return future

    async def room(self, timeout_s: float) -> None:
        """Return when one more publication may wait."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.waiting >= PENDING_MAX and self._error is None:
                    await self._room.wait()
        except TimeoutError:
            problem = f"{PENDING_MAX} earlier publications were not acknowledged for {timeout_s:g} s"
            raise PublishError(f"{self._adapter.where}: {problem}", may_arrive=False) from None

    def remember(self, message: MessageId, past: Past) -> None:
        self._pasts[message] = past

    def past_of(self, message: MessageId) -> Past | None:
        """What a message depends on that was read or published here lately."""
        return self._pasts.get(message)

    # -- inside --------------------------------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        queue, writer = self._queue, self.writer
        while True:
            while queue:
                one = queue[0]
                if one.future.done():  # its time was over, or its caller was cancelled, before it was sent
                    queue.popleft()
                    continue
                header = writer.publish(one.log, past=one.past)
                if header is None:
                    break
                queue.popleft()
                one.header = header
                self._pending[one.log, header.number] = one
                await self._send(one, header)
            if not queue and not self._pending:
                self._idle.set()
            self._wake.clear()
            await self._wake.wait()

    async def _send(self, one: _Publication, header: Header) -> None:
        one.retry_at = time.monotonic() + one.retry_s
        one.sent += 1
        name = f"{self._name}-{one.log}-{header.number}"
        payload = b"" if header.tombstone else one.payload
        headers = None if header.tombstone else one.headers
        record = Outgoing(one.topic, payload, headers, encode_header(header), name)
        try:
            stored = await self._adapter.append(one.log, record)
        except AppendError as error:
            self._refused(one, header, error)
        except ConnectionLostError:
            pass  # `_tick` sends it again
        else:
            stored.add_done_callback(lambda done: self._done(one, header, done))

    def _done(self, one: _Publication, header: Header, stored: "asyncio.Future[int]") -> None:
        error = None if stored.cancelled() else stored.exception()
        if (one.log, header.number) not in self._pending or stored.cancelled():
            return  # another copy was acknowledged
        if error is None:
            self._stored(one, header, stored.result())
        elif isinstance(error, AppendError):
            self._refused(one, header, error)

    def _stored(self, one: _Publication, header: Header, offset: int) -> None:
        self.writer.acknowledged(one.log, "", header.number, offset)
        del self._pending[one.log, header.number]
        if not one.future.done():
            named = MessageId(one.log, offset)
            self.remember(named, header.past)
            one.future.set_result(named)
        self._moved()

    def _refused(self, one: _Publication, header: Header, error: AppendError) -> None:
        """The log did not take it. A refusal that is not final is tried again by `_tick`."""
        if not error.final:
            return
        # A refusal is about one copy. The log may have another, earlier or later; then the number is taken.
        may_arrive = error.may_arrive or one.sent > 1
        _fail(one, PublishError(f"{self._adapter.where}: {error}", may_arrive=may_arrive))
        if not may_arrive and self.writer.withdraw(one.log, "", header.number):
            del self._pending[one.log, header.number]
            self._moved()

    def _moved(self) -> None:
        if self._queue or not self._pending:
            self._wake.set()
        self._room.release()

    async def _tick(self) -> None:
        """Send again what has no acknowledgement; tell callers whose time is over."""
        while True:
            await asyncio.sleep(_TICK_S)
            now = time.monotonic()
            for one in [one for one in self._queue if one.deadline <= now]:
                problem = "an earlier publication on another log has no acknowledgement yet"
                _fail(one, PublishError(f"{self._adapter.where}: {problem}", may_arrive=False))
                self._wake.set()
            for (log, number), one in list(self._pending.items()):
                if one.deadline <= now and (log, number) in self._pending:
                    _fail(one, PublishError(f"{self._adapter.where} sent no acknowledgement in time", may_arrive=True))
                if one.retry_at <= now and (log, number) in self._pending:  # others were awaited meanwhile
                    await self._again(log, number, one, now)
            if self._queue or not self._pending:
                self._wake.set()

    async def _again(self, log: int, number: int, one: _Publication, now: float) -> None:
        one.retry_s = min(2 * one.retry_s, _RETRY_S[1])
        if one.deadline + _TOMBSTONE_S <= now:
            self.writer.abandon(log, "", number)
            del self._pending[log, number]
            return
        header = self.writer.give_up(log, "", number) if one.future.done() else self.writer.retry(log, "", number)
        if header is not None:
            await self._send(one, header)


def _fail(one: _Publication, error: AntecedeError) -> None:
    if not one.future.done():
        one.future.set_exception(error)
        one.future.exception()  # marked as seen: a caller need not await it
