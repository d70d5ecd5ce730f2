"""Orders rows across logs: the reader of logs (`protocols.logs`) with state that Spark keeps between batches.

A row is a record of a log: its log, its offset, its past, and the writer's number for it. In a batch come all rows of a
log behind those of the batch before, in any order; they are offered to the reader log by log, by offset. Copies and
tombstones are left out.

The state is the reader's cursor, and the rows that wait. If a row has waited for too long, everything that is missing
is given up: numbers of writers, and offsets that no row has. A row that comes after it was given up is late.
"""

from collections.abc import Sequence
from math import inf
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from antecede.core import LimitError
from antecede.protocols.logs import Gap, Header, LogCursor, Reader
from antecede.spark.causal.headers import read_columns
from antecede.spark.causal.naming import Naming
from antecede.spark.causal.steps import CAUSAL, INCOMPLETE, LATE, Held, Late, Rows, Step, read_state

_VERSION: Final = 2
#: Writers whose last number is kept, for each log.
_CHANNELS_MAX: Final = 4096


class LogRule(msgspec.Struct, frozen=True, kw_only=True):
    """How rows are ordered across logs."""

    #: `source` is the log, `seq` the offset, `deps` the past.
    naming: Naming
    #: Columns of the writer's number; None: rows have none.
    writer: str | None
    number: str | None
    retry: str | None
    tombstone: str | None
    late: Late
    patience_ms: int | None
    held_max: int
    time: str | None = None


class _Kept(msgspec.Struct, array_like=True):
    version: int
    held: Held
    #: Names of logs; elsewhere they are indices into this.
    logs: list[str]
    cursor: dict[int, LogCursor]
    #: By log: the last offset that was offered, and the offset up to which missing rows were given up.
    seen: dict[int, int]
    given_up: dict[int, int]


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(_Kept)


def advance_logs(
    rule: LogRule, state: bytes | None, arrived: Sequence[pa.Table], now_ms: int, clock_ms: int | None = None
) -> Step:
    """Order the `arrived` rows on top of `state`. Times: as for `keyed.advance`."""
    return _Across(rule, state, arrived, now_ms, now_ms if clock_ms is None else clock_ms).step()


class _Across(Rows):
    def __init__(
        self, rule: LogRule, state: bytes | None, arrived: Sequence[pa.Table], now_ms: int, clock_ms: int
    ) -> None:
        new = _Kept(_VERSION, Held(), [], {}, {}, {})
        kept = new if state is None else read_state(_decoder, state, _VERSION)
        super().__init__(kept.held, arrived, now_ms, clock_ms, rule.time)
        self.rule = rule
        self.pool = self.pool.combine_chunks()
        self.seen, self.passed = kept.seen, kept.given_up
        self.names = kept.logs
        self._offer(kept.cursor)

    def step(self) -> Step:
        rule = self.rule
        self._take()
        held = sorted(self.reader.waiting())
        if rule.patience_ms is not None and self._oldest_ms(held) <= self.clock_ms - rule.patience_ms:
            held = self._give_up()
        if len(held) > rule.held_max:
            if rule.late == "wait":
                awaited = {self.names[log]: offset for log, offset in self.reader.awaited().items()}
                remedy = f"raise max_held, or let late='tag' or 'drop' give up missing rows (waited for: {awaited})"
                raise LimitError("rows that wait", len(held), rule.held_max, remedy)
            held = self._give_up()
        wake_ms = None if rule.patience_ms is None or not held else int(self._oldest_ms(held)) + rule.patience_ms
        self.duplicates = self.pool.num_rows - len(self.out) - len(held) - self.dropped
        kept = self._waiting(held)
        return self.finish(self._state(kept), kept, wake_ms)

    def _oldest_ms(self, held: list[int]) -> float:
        return min((self.since[row] for row in held), default=inf)

    def _offer(self, cursor: dict[int, LogCursor]) -> None:
        """Offer all rows to the reader, log by log."""
        rule, pool = self.rule, self.pool
        if not pool.num_columns:
            self.reader: Reader[int] = Reader(cursor)
            self.past_of: list[tuple[tuple[int, int], ...]] = []
            self._progress()
            return
        columns = read_columns(pool, rule.naming)
        codes = {name: code for code, name in enumerate(self.names)}
        for name in columns.streams:
            if codes.setdefault(name, len(codes)) == len(self.names):
                self.names.append(name)
        code_of = np.array([codes[name] for name in columns.streams] or [0], np.int64)
        logs, offsets = code_of[columns.source], columns.number - 1  # numbers of `naming` begin with 1
        needs = list(zip(code_of[columns.need_source].tolist(), (columns.need_number - 1).tolist(), strict=True))
        starts = columns.starts.tolist()
        self.past_of = [tuple(needs[starts[row] : starts[row + 1]]) for row in range(pool.num_rows)]
        headers = self._headers()
        starting = {code: cursor.get(code, LogCursor(-1)) for code in range(len(self.names))}
        self.reader = Reader(starting, held_max=pool.num_rows + 1)
        in_turn = np.lexsort((offsets, logs))
        for row, log, offset in zip(in_turn.tolist(), logs[in_turn].tolist(), offsets[in_turn].tolist(), strict=True):
            if row >= self.held_before:
                if offset <= self.passed.get(log, -1) and offset > self.seen.get(log, -1):
                    self._came_late(row)
                    continue
                self.seen[log] = max(offset, self.seen.get(log, -1))
            self.reader.arrived(log, offset, headers[row], row)
        self._progress()

    def _progress(self) -> None:
        """Rows up to the last one seen have all been offered, now or in an earlier batch."""
        for log in range(len(self.names)):
            self.reader.progress(log, max(self.seen.get(log, -1), self.passed.get(log, -1)))

    def _headers(self) -> list[Header | None]:
        count = self.pool.num_rows
        number, writer = (self._column(name, None) for name in (self.rule.number, self.rule.writer))
        retry, tombstone = (self._column(name, False) for name in (self.rule.retry, self.rule.tombstone))
        found: list[Header | None] = []
        for row in range(count):
            past = self.past_of[row]
            if number[row] is None or writer[row] is None:
                # Without a number it stands in the order of its log; a writer of its own lets it wait for its past.
                found.append(Header(-1 - row, 1, past) if past else None)
            else:
                found.append(Header(writer[row], number[row], past, bool(tombstone[row]), bool(retry[row])))
        return found

    def _column(self, name: str | None, default: Any) -> list[Any]:
        return [default] * self.pool.num_rows if name is None else self.pool.column(name).to_pylist()

    def _take(self) -> None:
        while (taken := self.reader.take()) is not None:
            if isinstance(taken, Gap):
                continue
            lacking = taken.incomplete or any(
                self.seen.get(log, -1) < offset <= self.passed.get(log, -1) for log, offset in taken.past
            )
            if taken.late:
                self._came_late(taken.record)
            else:
                self.out.append(taken.record)
                self.words.append(INCOMPLETE if lacking or self.given_up else CAUSAL)

    def _came_late(self, row: int) -> None:
        self.late += 1
        if self.rule.late == "drop":
            self.dropped += 1
        else:
            self.out.append(row)
            self.words.append(LATE)

    def _give_up(self) -> list[int]:
        """Wait for nothing that is missing. Returns the rows that wait still: there are none."""
        while self.reader.held:
            holes, awaited = self.reader.holes(), self.reader.awaited()
            if not holes and not awaited:
                raise AssertionError("a row that waits for nothing would have been released")
            self.given_up += 1
            for hole in holes:
                self.reader.give_up(hole)
            for log, offset in awaited.items():
                self.passed[log] = max(offset, self.passed.get(log, -1))
                self.reader.progress(log, offset)
            self._take()
        return []

    def _waiting(self, held: list[int]) -> Held:
        naming = self.rule.naming
        rows = self.pool.select(naming.name).take(held).to_pylist() if held else []
        names = [naming.text(row[naming.source[0]], row[naming.seq] + 1) for row in rows]
        # A row without a past that did not come waits for earlier rows of its log, or numbers of its writer.
        unmet = [[(log, at) for log, at in self.past_of[row] if at > self.seen.get(log, -1)] for row in held]
        return self.kept_rows(held, names, [[naming.text(self.names[log], at + 1) for log, at in row] for row in unmet])

    def _state(self, held: Held) -> bytes:
        cursor = self.reader.cursor(_CHANNELS_MAX)
        return _encode(_Kept(_VERSION, held, self.names, cursor, self.seen, self.passed))
