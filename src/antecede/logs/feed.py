"""A subscription to logs being read: each log by a task of its own, in order, into one causal reader.

A message counts as *read* when the iterator yields it; messages that this client publishes from then on follow it.

Reading stops while `queue` messages wait for the application: the logs keep the rest. It also stops for a log that runs
far ahead of the logs its records wait for. A log that other records wait for is always read.

When the connection breaks, a log is read again from where its reader stands; nothing is skipped, nothing comes twice.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from antecede.client.options import Subscription
from antecede.core.errors import AntecedeError, ConnectionLostError, GapError, ProtocolError, StoppedError, UsageError
from antecede.core.limits import HELD_MESSAGES_MAX
from antecede.logs.contract import Batch, LogAdapter, LogRecord
from antecede.logs.cursors import read_cursor, write_cursor
from antecede.logs.message import LogMessage
from antecede.protocols.logs import Gap, Header, Hole, LogCursor, Reader, Release, Trails, decode_header
from antecede.wire.topics import TopicFilter
from antecede.wire.waiters import cancel_all

if TYPE_CHECKING:
    from antecede.logs.bus import LogBus

#: Records of one batch.
_BATCH: Final = 512
#: A log is not read further while so many records are held, unless held records wait for it.
_HELD_PAUSE: Final = HELD_MESSAGES_MAX // 2
#: How often the feed looks for holes and for offsets that a log does not have any more.
_TICK_S: Final = 0.25
_RETRY_S: Final = (0.1, 2.0)
_TOPICS_REMEMBERED_MAX: Final = 4096

#: A record as the reader holds it: the record, its header, and when it came.
_Held = tuple[LogRecord, Header | None, float]


class LogFeed:
    """Made by `LogBus.subscribe`."""

    #: No message is left out: logs keep them.
    dropped = 0

    def __init__(self, bus: "LogBus", wanted: Subscription) -> None:
        #: What retention had removed before it could be read: log, first and last offset.
        self.gaps: list[Gap] = []
        self._bus = bus
        self._adapter: LogAdapter = bus._adapter
        self._filters = wanted.filters
        self._since = None if wanted.since in (None, "0") else read_cursor(str(wanted.since))
        self._from_start = wanted.since == "0"
        self._window = wanted.queue
        self._over_gaps = wanted.over_gaps
        self._matches = _matcher(wanted.filters)
        self._reader: Reader[_Held]
        self._trails: Trails
        self._positions: dict[int, int] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._error: AntecedeError | None = None
        self._state = "new"
        self._waits = False

    async def __aenter__(self) -> "LogFeed":
        if self._state != "new":
            raise UsageError("feed", list(self._filters), "is open already", "subscribe once for each reader")
        adapter = self._bus._opened()
        logs = frozenset[int]().union(*[adapter.logs_for(pattern) for pattern in self._filters])
        if not logs:
            raise UsageError("filters", list(self._filters), "match no log", f"the bus has {self._bus.names()}")
        starts, whole = await self._begin(logs)
        self._reader = Reader(starts, whole=whole)
        self._positions = {log: start.low for log, start in starts.items()}
        self._trails = Trails(self._reader, lambda: self._bus._publisher.writer.frontier)
        self._state = "open"
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._read(log)) for log in sorted(logs)]
        self._tasks.append(loop.create_task(self._watch()))
        for task in self._tasks:
            task.add_done_callback(self._ended)
        self._bus._feeds.add(self)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._close()

    def __aiter__(self) -> "LogFeed":
        return self

    async def __anext__(self) -> LogMessage:
        if self._state == "new":
            raise UsageError("feed", list(self._filters), "is not open", "read it inside `async with`")
        if self._waits:
            raise UsageError("feed", list(self._filters), "has a reader that waits", "subscribe once for each reader")
        while True:
            taken = self._reader.take()
            if taken is None:
                self._room.set()
                if self._error is not None:
                    raise self._error
                if self._state == "closed":
                    raise StopAsyncIteration
                self._news.clear()
                self._waits = True
                try:
                    await self._news.wait()
                finally:
                    self._waits = False
            elif isinstance(taken, Gap):
                self._gap(taken)
            else:
                return self._message(taken)

    @property
    def waiting(self) -> int:
        """Messages here that the iterator has not yielded yet."""
        return self._reader.ready

    @property
    def held(self) -> int:
        """Messages here that wait for others."""
        return self._reader.held

    @property
    def cursor(self) -> str:
        """The cursor behind the last message that was yielded, or where the feed began."""
        return write_cursor(self._trails.current())

    # -- inside: what the application takes ----------------------------------------------------------------------------

    def _message(self, release: Release[_Held]) -> LogMessage:
        log, offset, (record, header, came), past, *_ = release
        self._bus._read(log, offset, past)
        if self._reader.ready < self._window:
            self._room.set()
        trail, index = self._trails.add(release, header)
        held_ms = (time.monotonic() - came) * 1000
        return LogMessage(log, offset, record, past, held_ms, release.out_of_order, release.incomplete, trail, index)

    def _gap(self, gap: Gap) -> None:
        self.gaps.append(gap)
        self._trails.begin()
        if not self._over_gaps:
            name = self._bus.names().get(gap.log, str(gap.log))
            text = (
                f"{name}: retention removed offsets {gap.first} to {gap.last} before they were read; "
                "read on with since=feed.cursor and over_gaps=True"
            )
            self._fail(GapError(gap.first - 1, gap.last + 1, text=text))

    # -- inside: what the logs bring -----------------------------------------------------------------------------------

    async def _begin(self, logs: frozenset[int]) -> tuple[dict[int, LogCursor], frozenset[int]]:
        """Where each log is read from, and which are read whole."""
        patiently, ask = self._bus._patiently, self._adapter.bounds
        bounds = {log: await patiently(partial(ask, log)) for log in sorted(logs)}
        if self._since is None:
            if self._from_start:
                starts = {log: LogCursor(at.first - 1) for log, at in bounds.items()}
                return starts, frozenset(log for log, at in bounds.items() if at.whole)
            return {log: LogCursor(at.last) for log, at in bounds.items()}, frozenset(
                log for log, at in bounds.items() if at.whole and at.last < at.first
            )
        missing = [self._bus.names()[log] for log in sorted(logs - self._since.logs.keys())]
        if missing:
            remedy = "read these by a feed of their own, or start again from the beginning"
            raise UsageError("since", f"a cursor without {', '.join(missing)}", "does not say where to begin", remedy)
        self._bus._depends_on(self._since.frontier)
        starts = {log: self._since.logs[log] for log in logs}
        return starts, frozenset(log for log in logs & self._since.whole if bounds[log].whole)

    async def _read(self, log: int) -> None:
        """Read one log for as long as the feed is open."""
        pause_s, lost_at = _RETRY_S[0], 0.0
        while True:
            try:
                async for batch in self._adapter.read(log, self._positions[log], _BATCH):
                    self._take(log, batch)
                    pause_s, lost_at = _RETRY_S[0], 0.0
                    while not self._may_read(log):
                        self._room.clear()
                        await self._room.wait()
            except (ConnectionLostError, StoppedError) as error:
                now = time.monotonic()
                lost_at = lost_at or now
                if now - lost_at > self._bus.patience_s:
                    self._fail(error)
                    return
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _RETRY_S[1])
            except AntecedeError as error:
                self._fail(error)
                return

    def _may_read(self, log: int) -> bool:
        reader = self._reader
        if reader.held >= _HELD_PAUSE:
            return log in reader.awaited() or any(hole.log == log for hole in reader.holes())
        return reader.ready < self._window

    def _take(self, log: int, batch: Batch) -> None:
        reader, matches = self._reader, self._matches
        if batch.first:
            reader.removed(log, batch.first)
        now = time.monotonic()
        for record in batch.records:
            header = None
            if record.header is not None:
                try:
                    header = decode_header(record.header)
                except ProtocolError:
                    self._bus.malformed += 1  # as if it had none: it is read in the order of its log
            reader.arrived(log, record.offset, header, (record, header, now), matches=matches(record.topic))
        reader.progress(log, batch.upto)
        self._positions[log] = max(self._positions[log], batch.upto)
        if reader.ready:
            self._news.set()

    async def _watch(self) -> None:
        """Ask for progress where records wait for an offset that reading does not bring; give up old holes."""
        reader, before = self._reader, dict[int, int]()
        holes: dict[tuple[int, int, str, int], tuple[Hole, float]] = {}
        while True:
            await asyncio.sleep(_TICK_S)
            if not reader.held:
                holes.clear()
                before.clear()
                continue
            self._room.set()  # a log may be awaited now that was not before
            awaited = reader.awaited()
            for log, upto in awaited.items():
                if before.get(log) == upto:
                    with contextlib.suppress(ConnectionLostError):
                        await self._look_for(log, upto)
            before = awaited
            now = time.monotonic()
            seen = {(hole.log, hole.writer, hole.key, hole.first): hole for hole in reader.holes()}
            holes = {name: (hole, holes[name][1] if name in holes else now) for name, hole in seen.items()}
            for hole, since in holes.values():
                if now - since > self._bus.patience_s:
                    reader.give_up(hole)
            if reader.ready:
                self._news.set()

    async def _look_for(self, log: int, upto: int) -> None:
        """Records wait for `upto`, and reading does not bring it. Was it removed or deleted?"""
        position = self._positions[log]
        proved = await self._adapter.progress(log, position, upto)
        bounds = await self._adapter.bounds(log)  # after the proof: retention may have removed more meanwhile
        if not bounds.whole and bounds.first > position + 1:
            self._reader.removed(log, max(bounds.first, proved + 1))
        self._reader.progress(log, proved)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """No one awaits these tasks: without this, the reader would wait for ever after an error in one."""
        if not task.cancelled() and (error := task.exception()) is not None:
            failed = StoppedError(f"{self._adapter.where}: reading failed ({type(error).__name__}: {error})")
            failed.__cause__ = error
            self._fail(failed)

    def _fail(self, error: AntecedeError) -> None:
        """Messages that are ready are still read; then the reader gets the error."""
        self._error = self._error or error
        self._news.set()

    async def _close(self) -> None:
        if self._state == "open":
            self._state = "closed"
            self._bus._feeds.discard(self)
            await cancel_all(self._tasks)
            self._news.set()


def _matcher(filters: tuple[str, ...]) -> Callable[[str], bool]:
    if "#" in filters:
        return lambda topic: True
    compiled = [TopicFilter(pattern).matches for pattern in filters]

    @lru_cache(maxsize=_TOPICS_REMEMBERED_MAX)
    def matches(topic: str) -> bool:
        return any(matches(topic) for matches in compiled)

    return matches
