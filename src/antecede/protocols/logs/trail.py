"""Cursors of records that were taken from a reader, made when they are asked for.

A cursor of many writers is long to write, and most are never asked for. A trail is the cursor at some moment and the
records that were taken since then. A new trail begins every `TRAIL_RECORDS` records, and wherever the records alone do
not tell how far the reader is: behind a gap, and behind numbers that were given up.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from antecede.protocols.logs.header import Header
from antecede.protocols.logs.reader import Reader
from antecede.protocols.logs.releases import ChannelCursor, LogCursor, Release

#: Records of a trail. A cursor in the middle of one lists the offsets taken since its beginning.
TRAIL_RECORDS: Final = 256

#: Log, offset, writer, key and number (0: a plain record), whether it was late, and the past.
_Taken = tuple[int, int, int, str, int, bool, tuple[tuple[int, int], ...]]


class LogsCursor(msgspec.Struct, frozen=True, array_like=True):
    """Where a feed goes on: what a reader has taken of each log, and what its client depends on."""

    logs: dict[int, LogCursor]
    #: Logs that were read from their first record.
    whole: frozenset[int] = frozenset()
    #: By log: the highest offset that the client had read, also transitively. What it publishes depends on that.
    frontier: dict[int, int] = {}


class Trail:
    """The records that were taken since some moment."""

    __slots__ = ("_start", "_taken", "_trails")

    def __init__(self, start: LogsCursor, trails: "Trails") -> None:
        self._start = start
        self._trails = trails
        self._taken: list[_Taken] = []

    def cursor(self, index: int) -> LogsCursor:
        """The cursor right behind the record at this index; -1: where the trail begins."""
        if self._trails.is_last(self, index):
            return self._trails.current()
        by_log: dict[int, list[_Taken]] = {}
        frontier = dict(self._start.frontier)
        for taken in self._taken[: index + 1]:
            log, offset, *_, past = taken
            by_log.setdefault(log, []).append(taken)
            for other, reached in ((log, offset), *past):
                frontier[other] = max(reached, frontier.get(other, -1))
        whole = self._start.whole
        logs = {log: _behind(at, by_log.get(log, []), whole=log in whole) for log, at in self._start.logs.items()}
        return LogsCursor(logs, whole, frontier)


class Trails:
    """Follows one reader."""

    def __init__(self, reader: Reader[Any], frontier: Callable[[], dict[int, int]]) -> None:
        """`frontier`: how far the client has read and written."""
        self._reader = reader
        self._frontier = frontier
        self._trail = Trail(self.current(), self)

    def current(self) -> LogsCursor:
        """The cursor behind everything that was taken."""
        return LogsCursor(self._reader.cursor(), self._reader.whole, self._frontier())

    def add(self, release: Release[Any], header: Header | None, key: str = "") -> tuple[Trail, int]:
        """`release` was taken, and the client's frontier covers it. Returns the trail it is in, and its index there."""
        trail = self._trail
        if len(trail._taken) >= TRAIL_RECORDS or release.behind_hole:
            return self.begin(), -1
        writer, number = (0, 0) if header is None else (header.writer, header.number)
        trail._taken.append((release.log, release.offset, writer, key, number, release.late, release.past))
        return trail, len(trail._taken) - 1

    def begin(self) -> Trail:
        """Begin a trail here: a gap was taken."""
        self._trail = Trail(self.current(), self)
        return self._trail

    def is_last(self, trail: Trail, index: int) -> bool:
        return trail is self._trail and index == len(trail._taken) - 1


def _behind(cursor: LogCursor, taken: list[_Taken], *, whole: bool) -> LogCursor:
    """The cursor after more records of its log were taken."""
    channels = {(one.writer, one.key): one for one in cursor.channels}
    for _, _, writer, key, number, late, _ in taken:
        if number:
            channel = channels.pop((writer, key), ChannelCursor(writer, key, 0, 1 if whole else number))
            if late:
                channel = channel._replace(late=(*channel.late, number))
            else:
                channel = channel._replace(taken=max(channel.taken, number))
            channels[writer, key] = channel  # the last heard is the last
    beyond = sorted({*cursor.beyond, *(offset for _, offset, *_ in taken)})
    return cursor._replace(beyond=tuple(beyond), channels=tuple(channels.values()))
