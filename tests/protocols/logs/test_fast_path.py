"""Records that are next in turn take a short way through the reader; it gives the same as the long way."""

from typing import Any

import pytest

from antecede.protocols.logs import Cursor, Gap, Header, Hole, LogCursor, Reader, Release
from antecede.search.logs import Run, Stored, draw


class _LongWay(Reader[Stored]):
    def _next_in_turn(self, *_: Any) -> bool:
        return False


class _Both(Reader[Stored]):
    """A reader beside one that always takes the long way; both are given the same."""

    #: Records that took the short way.
    short = 0

    def __init__(self, starts: dict[int, LogCursor], *, whole: frozenset[int]) -> None:
        super().__init__(starts, whole=whole)
        self._slow = _LongWay(starts, whole=whole)

    def _next_in_turn(self, *arguments: Any) -> bool:
        short = super()._next_in_turn(*arguments)
        _Both.short += short
        return short

    def arrived(self, log: int, offset: int, header: Header | None, record: Stored, **more: Any) -> None:
        super().arrived(log, offset, header, record, **more)
        self._slow.arrived(log, offset, header, record, **more)

    def progress(self, log: int, upto: int) -> None:
        super().progress(log, upto)
        self._slow.progress(log, upto)

    def removed(self, log: int, first: int) -> None:
        super().removed(log, first)
        self._slow.removed(log, first)

    def give_up(self, hole: Hole) -> None:
        super().give_up(hole)
        self._slow.give_up(hole)

    def take(self) -> Release[Stored] | Gap | None:
        taken = super().take()
        assert taken == self._slow.take()
        assert (self.held, self.holes(), self.awaited()) == (
            self._slow.held,
            self._slow.holes(),
            self._slow.awaited(),
        )
        return taken

    def cursor(self) -> Cursor:
        cursor = super().cursor()
        assert cursor == self._slow.cursor()
        return cursor


class _Beside(Run):
    def make_reader(self, cursor: dict[int, LogCursor], whole: frozenset[int]) -> Reader[Stored]:
        return _Both(cursor, whole=whole)


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(10, 40, 10))])
def test_both_ways_give_the_same(first: int) -> None:
    _Both.short = 0
    for seed in range(first, first + 10):
        _Beside(seed, draw(seed)).play()
    assert _Both.short > 100
