"""Each rule of causal order over logs, left out: the search must find every one of these."""

from collections.abc import Callable, Mapping
from typing import Any

from antecede.core.gate import Stream
from antecede.protocols.logs import Cursor, Gap, Header, LogCursor, Reader, Release, Trail, Trails, Writer
from antecede.search.logs import Client, Run, Stored


class _OwnLogLeftOut(Reader[Stored]):
    def _needs(self, held: Any) -> list[tuple[Stream, int]]:
        return [need for need in super()._needs(held) if need[0] != held.log]


class OwnLogLeftOut(Run):
    """Offsets are thought to be enough within a log."""

    def make_reader(self, cursor: dict[int, LogCursor], whole: frozenset[int]) -> Reader[Stored]:
        return _OwnLogLeftOut(cursor, whole=whole)


class WithoutNumbers(Run):
    """FIFO by offset alone: a retry reorders."""

    def make_reader(self, cursor: dict[int, LogCursor], whole: frozenset[int]) -> Reader[Stored]:
        return _WithoutNumbers(cursor, whole=whole)


class _WithoutNumbers(Reader[Stored]):
    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._seen: set[tuple[int, int, str, int]] = set()

    def _arrived(self, held: Any) -> None:
        name = (held.log, held.header.writer, held.key, held.header.number)
        if name in self._seen:
            self._finish(held)
            return
        self._seen.add(name)
        self._gate.offer(held, (((held.log, held.offset, "alone"), 1),), self._needs(held))


class _Forgetful(Writer):
    def observe(self, log: int, offset: int, past: Any = ()) -> None:
        super().observe(log, offset)


class PastNotTransitive(Run):
    """A record names only what its writer read directly."""

    def make_writer(self, identity: int, frontier: dict[int, int]) -> Writer:
        return _Forgetful(identity, frontier)


class _Hasty(Writer):
    def publish(self, log: int, key: str = "") -> Header | None:
        elsewhere = {channel: self._pending.pop(channel) for channel in list(self._pending) if channel != (log, key)}
        header = super().publish(log, key)
        self._pending.update(elsewhere)
        return header


class NoWaitForAcknowledgements(Run):
    """A writer changes logs while appends on another are unacknowledged."""

    def make_writer(self, identity: int, frontier: dict[int, int]) -> Writer:
        return _Hasty(identity, frontier)


class GivenUpWithoutTombstone(Run):
    """A writer that gives a record up leaves a hole in its numbers."""

    def given_up(self, client: Client, log: int, record: Stored) -> Stored | None:
        client.writer._forget((log, record.key), record.header.number)
        return None


class _SettlesUnseen(Reader[Stored]):
    def _needs(self, held: Any) -> list[tuple[Stream, int]]:
        read = {log: state.settled.position for log, state in self._logs.items()}
        return [need for need in super()._needs(held) if need[1] <= read[need[0]] + 1]  # type: ignore[index]


class SettledWithoutProof(Run):
    """A filtered reader takes it that what it has not seen is not for it."""

    def make_reader(self, cursor: dict[int, LogCursor], whole: frozenset[int]) -> Reader[Stored]:
        return _SettlesUnseen(cursor, whole=whole)


class _CursorAhead(Reader[Stored]):
    def cursor(self) -> Cursor:
        return {
            log: at._replace(low=self._logs[log].settled.low, beyond=self._logs[log].settled.beyond())
            for log, at in super().cursor().items()
        }


class CursorBetweenReleases(Run):
    """A cursor counts what was released, not what the application has taken."""

    def make_reader(self, cursor: Mapping[int, LogCursor], whole: frozenset[int]) -> Reader[Stored]:
        return _CursorAhead(cursor, whole=whole)


class _CursorBehindGaps(Reader[Stored]):
    def cursor(self) -> Cursor:
        found = super().cursor()
        for gap in self._ready:
            if isinstance(gap, Gap) and found[gap.log].low == gap.first - 1:
                found[gap.log] = found[gap.log]._replace(low=gap.last)
        return found


class CursorBehindGaps(Run):
    """A cursor lies behind a gap that the application has not been told of yet."""

    def make_reader(self, cursor: Mapping[int, LogCursor], whole: frozenset[int]) -> Reader[Stored]:
        return _CursorBehindGaps(cursor, whole=whole)


class _RetriesAreLate(Trails):
    def add(self, release: Release[Any], header: Header | None, key: str = "") -> tuple[Trail, int]:
        return super().add(release._replace(late=release.out_of_order), header, key)


class CursorOfARetry(Run):
    """The cursor of a record takes a retry, tagged because it may be a copy, for one that was overtaken."""

    def make_trails(self, reader: Reader[Stored], frontier: Callable[[], dict[int, int]]) -> Trails:
        return _RetriesAreLate(reader, frontier)
