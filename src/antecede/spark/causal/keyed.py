"""Orders the rows of one key: which rows a batch releases, and what is remembered until the next batch.

The ordering rule is `core.gate`; this file decides what to do about rows that do not come. A row is released if it has
waited for `patience_ms`, or if it is the oldest when more than `held_max` rows wait at the end of a batch. Everything
it still waits for, directly or through other waiting rows, is given up first, so those rows go out before it. In a
cycle of rows that wait for each other nothing is missing; the row met first is let through. A row that was given up and
comes after all is late.

The bound is on what is kept between batches. Within one batch the rows of a key come in the order of the shuffle, and
the first half may have to wait for the second.

The state is: a counter for each source, the waiting rows (as Arrow, with their times of arrival), and the newest
positions that were given up (`_GIVEN_UP_MAX`, or `held_max` if that is more). A wider hole counts as a stream that
begins behind it: rows of it that come later are left out as duplicates. The state is no pickle: it outlives the code
that wrote it, and has a version.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from antecede.core import Gate, LimitError, UsageError, Verdict
from antecede.core.gate import READY, WAITING, Need, Settled, Stream
from antecede.spark.causal.headers import Headers, read_headers
from antecede.spark.causal.naming import Naming

Late: TypeAlias = Literal["wait", "tag", "drop"]

#: What the added column says of a row: everything it depends on came before it; a dependency was given up; the row
#: itself was given up, and rows that depend on it went ahead.
CAUSAL, INCOMPLETE, LATE = 0, 1, 2
WORDS: Final = ("causal", "incomplete", "late")

_VERSION: Final = 1
_EXAMPLES: Final = 3
_GIVEN_UP_MAX: Final = 1000


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream is ordered."""

    naming: Naming
    late: Late
    #: The longest wait of a row; None: no limit.
    patience_ms: int | None
    #: The number of rows of a key that may wait from one batch to the next.
    held_max: int

    @property
    def given_up_max(self) -> int:
        """The number of given-up positions that are remembered."""
        return max(_GIVEN_UP_MAX, self.held_max)


class Counts(NamedTuple):
    """What happened to a key in a batch."""

    released: int
    #: Of the released rows.
    incomplete: int
    #: Rows that came after they were given up: shown with policy tag, left out with drop.
    late: int
    #: Rows left out: duplicates, and with policy drop late rows.
    duplicates: int
    dropped: int
    #: Rows that wait now, and how many more than before.
    held: int
    held_change: int
    given_up: int
    hold_ms_max: int


class Step(NamedTuple):
    state: bytes
    #: The released rows in order, as indices into `pool`; for each its word (`WORDS`) and how long it waited.
    pool: pa.Table
    order: "np.ndarray[Any, np.dtype[np.int64]]"
    words: "np.ndarray[Any, np.dtype[np.int8]]"
    held_ms: "np.ndarray[Any, np.dtype[np.int64]]"
    counts: Counts
    #: When the first waiting row will have waited long enough; None if no row waits or nothing is ever given up.
    wake_ms: int | None


class _Kept(msgspec.Struct, array_like=True):
    """The state of a key between batches."""

    version: int
    levels: list[tuple[Any, int]]
    beyond: list[tuple[Any, list[int]]]
    given_up: list[tuple[Any, list[int]]]
    since_ms: list[int]
    #: The waiting rows as an Arrow stream; empty if there are none.
    held: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Kept).decode


def advance(rule: Rule, state: bytes | None, arrived: Sequence[pa.Table], now_ms: int) -> Step:
    """Order the `arrived` rows of one key, in the order in which they came, on top of `state`."""
    return _Ordering(rule, state, arrived, now_ms).step()


class _Ordering:
    def __init__(self, rule: Rule, state: bytes | None, arrived: Sequence[pa.Table], now_ms: int) -> None:
        self.rule, self.now_ms = rule, now_ms
        since: list[int] = []
        self.any_given_up = False
        #: Holes of this batch that are too wide to be remembered.
        self.passed_over: dict[Stream, range] = {}
        pool = list(arrived)
        settled = None
        if state is not None:
            kept = _read(state)
            settled = _settled(kept)
            self.any_given_up = bool(settled.given_up)
            since = kept.since_ms
            if since:
                pool.insert(0, same_columns(open_rows(kept.held), pool))
        self.held_before = len(since)
        self.pool: pa.Table = pa.concat_tables(pool) if pool else pa.table({})
        self.since = since + [now_ms] * (self.pool.num_rows - len(since))
        self.headers: Headers = read_headers(self.pool, rule.naming) if pool else Headers([], [], [0], [])
        #: Waiting rows, oldest first; and, once something is given up, the same by name.
        self.waiting: dict[int, None] = {}
        self.by_name: dict[Need, int] = {}
        #: Released rows, and the word of each.
        self.out: list[int] = []
        self.words: list[int] = []
        self.gate: Gate[int] = Gate(held_max=len(self.since) + 1)
        if settled is not None:
            self.gate.resume(settled)
        self.late = self.dropped = self.duplicates = self.given_up = 0

    def step(self) -> Step:
        rule = self.rule
        self._take_all()
        if rule.patience_ms is not None and self.waiting:
            self._expire(self.now_ms - rule.patience_ms)
        while len(self.waiting) > rule.held_max:
            self._over_the_bound()
        wake_ms = None
        if rule.patience_ms is not None and self.waiting:
            wake_ms = self.since[next(iter(self.waiting))] + rule.patience_ms
        return self._done(wake_ms)

    def _take_all(self) -> None:
        """Offer all rows to the gate, waiting ones first. Nothing is given up here: the common case, and fast."""
        streams, numbers, starts, needs = self.headers
        gate, out, marking = self.gate, self.out, self.any_given_up
        waited: list[int] = []
        for row, (stream, number) in enumerate(zip(streams, numbers, strict=True)):
            mine = needs[starts[row] : starts[row + 1]]
            if gate.admit(stream, number, mine):
                out.append(row)
            else:
                verdict = gate.offer(row, ((stream, number),), mine)
                if verdict is WAITING:
                    waited.append(row)
                elif verdict is READY:
                    out += gate.drain()
                elif verdict is Verdict.LATE:
                    self._late(row)
                else:
                    self.duplicates += 1
            if marking:
                self._mark()
        self._mark()
        gone = set(out)
        self.waiting = {row: None for row in waited if row not in gone}

    def _late(self, row: int) -> None:
        self.late += 1
        if self.rule.late == "tag":
            self.gate.mark_settled(*self._name(row))  # rows that depend on it, and its copies, find it settled
            self._mark()
            self.out.append(row)
            self.words.append(LATE)
        else:
            self.dropped += 1

    def _expire(self, before_ms: int) -> None:
        """Release the rows that came at `before_ms` or earlier."""
        for row in list(self.waiting):
            if self.since[row] > before_ms:
                return
            self._release(row)

    def _over_the_bound(self) -> None:
        if self.rule.late == "wait":
            missing = list(self.gate.missing().items())[:_EXAMPLES]
            text = ", ".join(f"{stream!r} up to {n + self.rule.naming.first - 1}" for stream, n in missing)
            remedy = f"raise max_held, or let late='tag' or 'drop' give up missing rows (waited for: {text})"
            raise LimitError("rows of one key that wait", len(self.waiting), self.rule.held_max, remedy)
        self._release(next(iter(self.waiting)))

    def _release(self, row: int) -> None:
        """Release `row`: give up what it waits for, directly or through other rows."""
        if not self.by_name:
            self.by_name = {self._name(one): one for one in self.waiting}
        path = {row: None}
        while path:
            here = next(reversed(path))
            if here not in self.waiting:
                del path[here]
                continue
            stream, n = self._unmet(here)
            ahead = self.by_name.get((stream, self.gate.reached(stream) + 1))
            if ahead is None:
                self._give_up(stream, n)
                self._drain()
            elif ahead in path:
                self._force(ahead)
            else:
                path[ahead] = None

    def _unmet(self, row: int) -> Need:
        stream, number = self._name(row)
        for need in ((stream, number - 1), *self.headers.of(row)):
            if self.gate.reached(need[0]) < need[1]:
                return need
        raise AssertionError("a row that waits for nothing would have been released")

    def _give_up(self, stream: Stream, n: int) -> None:
        """Give up the next missing numbers of `stream`, up to `n` at most."""
        reached = self.gate.reached(stream)
        if n - reached <= self.rule.given_up_max:
            self.given_up += self.gate.skip(stream, n)
        else:
            # Too many to remember each: the stream counts as beginning behind them. Waiting rows of it keep their turn.
            ahead = [number for other, number in self.by_name if other == stream and number <= n]
            n = min(ahead, default=n + 1) - 1
            self.given_up += n - reached
            self.gate.floor(stream, n)
            self.passed_over[stream] = range(reached + 1, n + 1)
        self.any_given_up = True

    def _force(self, row: int) -> None:
        """Let a row of a cycle through."""
        self.out.append(row)
        self.words.append(INCOMPLETE)
        self._gone(row)
        self.gate.mark_settled(*self._name(row))
        self._drain()

    def _drain(self) -> None:
        released = self.gate.drain()
        for row in released:
            self._gone(row)
        self.out += released
        self._mark()

    def _gone(self, row: int) -> None:
        del self.waiting[row]
        del self.by_name[self._name(row)]

    def _mark(self) -> None:
        """Set the words of the rows released since, before anything else is given up or comes late."""
        if self.any_given_up:
            self.words += [self._word(row) for row in self.out[len(self.words) :]]
        else:
            self.words += [CAUSAL] * (len(self.out) - len(self.words))

    def _word(self, row: int) -> int:
        stream, number = self._name(row)
        if any(self._lacking(*need) for need in ((stream, number - 1), *self.headers.of(row))):
            return INCOMPLETE
        return CAUSAL

    def _lacking(self, stream: Stream, n: int) -> bool:
        return self.gate.gave_up(stream, n) or n in self.passed_over.get(stream, ())

    def _name(self, row: int) -> Need:
        return self.headers.streams[row], self.headers.numbers[row]

    def _done(self, wake_ms: int | None) -> Step:
        order = np.array(self.out, np.int64)
        words = np.array(self.words, np.int8)
        held_ms = self.now_ms - np.array(self.since, np.int64)[order]
        held = list(self.waiting)
        counts = Counts(
            released=len(order),
            incomplete=int((words == INCOMPLETE).sum()),
            late=self.late,
            duplicates=self.duplicates,
            dropped=self.duplicates + self.dropped,
            held=len(held),
            held_change=len(held) - self.held_before,
            given_up=self.given_up,
            hold_ms_max=int(held_ms.max(initial=0)),
        )
        return Step(self._state(held), self.pool, order, words, held_ms, counts, wake_ms)

    def _state(self, held: list[int]) -> bytes:
        levels, beyond, given_up = self.gate.settled()
        kept = _Kept(
            _VERSION,
            list(levels.items()),
            [(stream, sorted(positions)) for stream, positions in beyond.items()],
            _newest(levels, given_up, self.rule.given_up_max),
            [self.since[row] for row in held],
            seal_rows(self.pool.take(held)) if held else b"",
        )
        return _encode(kept)


# -- the state as bytes -----------------------------------------------------------------------------------------------


def _read(state: bytes) -> _Kept:
    try:
        kept = _decode(state)
    except msgspec.DecodeError as error:
        remedy = "start with a new checkpoint"
        raise UsageError("checkpoint", "causal_order", f"has a state that cannot be read ({error})", remedy) from None
    if kept.version != _VERSION:
        remedy = "start with a new checkpoint, or with the version that wrote it"
        raise UsageError(
            "checkpoint", "causal_order", f"has state of version {kept.version}, this antecede reads {_VERSION}", remedy
        )
    return kept


def _settled(kept: _Kept) -> Settled:
    return Settled(
        {_stream(stream): n for stream, n in kept.levels},
        {_stream(stream): set(positions) for stream, positions in kept.beyond},
        {_stream(stream): set(positions) for stream, positions in kept.given_up},
    )


def _stream(value: Any) -> Stream:
    return tuple(value) if isinstance(value, list) else value


def _newest(
    levels: dict[Stream, int], given_up: dict[Stream, set[int]], at_most: int
) -> list[tuple[Stream, list[int]]]:
    """The given-up positions, without those that lie furthest back."""
    if sum(map(len, given_up.values())) > at_most:
        back = sorted((levels.get(stream, 0) - n, stream, n) for stream, ns in given_up.items() for n in ns)
        given_up = {}
        for _, stream, n in back[:at_most]:
            given_up.setdefault(stream, set()).add(n)
    return [(stream, sorted(positions)) for stream, positions in given_up.items()]


def seal_rows(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def open_rows(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


def same_columns(held: pa.Table, arrived: Sequence[pa.Table]) -> pa.Table:
    if arrived and held.schema != arrived[0].schema:
        was = ", ".join(f"{field.name}: {field.type}" for field in held.schema)
        raise UsageError(
            "checkpoint",
            "causal_order",
            f"has rows with other columns ({was})",
            "start with a new checkpoint, or give the stream these columns",
        )
    return held
