"""Cursors of messages that were read, made when they are asked for.

A cursor of many writers is long to write, and most are never asked for. A trail is the cursor at some moment and the
records that were taken since then. The feed begins a new one every `TRAIL_RECORDS` records.
"""

from collections.abc import Callable
from typing import Final

from antecede.logs.cursors import LogsCursor, behind, write_cursor

#: Records of a trail. A cursor in the middle of one lists the offsets taken since its beginning.
TRAIL_RECORDS: Final = 256


class Trail:
    """The records that a feed has taken since some moment."""

    __slots__ = ("_current", "_start", "_taken")

    def __init__(self, start: LogsCursor, current: Callable[["Trail", int], LogsCursor | None]) -> None:
        """`current`: the feed's own cursor, if the record at this index of this trail is the last that it gave out."""
        self._start = start
        self._current = current
        #: Log, offset, writer and number, whether it was late, and the past.
        self._taken: list[tuple[int, int, int, int, bool, tuple[tuple[int, int], ...]]] = []

    def __len__(self) -> int:
        return len(self._taken)

    def add(
        self, log: int, offset: int, writer: int, number: int, late: bool, past: tuple[tuple[int, int], ...]
    ) -> int:
        """Returns the index of the record in this trail."""
        self._taken.append((log, offset, writer, number, late, past))
        return len(self._taken) - 1

    def cursor(self, index: int) -> str:
        current = self._current(self, index)
        if current is not None:
            return write_cursor(current)
        by_log: dict[int, list[tuple[int, int, int, bool]]] = {}
        frontier = dict(self._start.frontier)
        for log, offset, writer, number, late, past in self._taken[: index + 1]:
            by_log.setdefault(log, []).append((offset, writer, number, late))
            for other, reached in ((log, offset), *past):
                frontier[other] = max(reached, frontier.get(other, -1))
        whole = self._start.whole
        logs = {log: behind(at, by_log.get(log, []), whole=log in whole) for log, at in self._start.logs.items()}
        return write_cursor(LogsCursor(logs, whole, frontier))
