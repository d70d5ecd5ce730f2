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
begins behind it: rows of it that come later are left out as duplicates.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from antecede.audit.vectorised.columns import Ints
from antecede.core import Gate, LimitError, Verdict
from antecede.core.gate import READY, WAITING, Need, Settled, Stream
from antecede.spark.causal.headers import Headers, no_columns, read_columns
from antecede.spark.causal.ids import Horizon
from antecede.spark.causal.naming import Naming
from antecede.spark.causal.passing import pass_rows
from antecede.spark.causal.steps import CAUSAL, INCOMPLETE, LATE, Held, Late, Rows, Step, read_state

_VERSION: Final = 2
_EXAMPLES: Final = 3
_GIVEN_UP_MAX: Final = 1000


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream is ordered."""

    naming: Naming
    late: Late
    #: The longest wait of a row by the clock; None: no limit.
    patience_ms: int | None
    #: The number of rows of a key that may wait from one batch to the next.
    held_max: int
    #: The column of a row's own time, if that is the clock.
    time: str | None = None
    #: Where rows have ids: how far back they are remembered.
    horizon: Horizon = Horizon()
    #: Rows were filtered out before: numbers have holes.
    holes: bool = False

    @property
    def given_up_max(self) -> int:
        """The number of given-up positions that are remembered."""
        return max(_GIVEN_UP_MAX, self.held_max)


class _Kept(msgspec.Struct, array_like=True):
    """The state of a key between batches."""

    version: int
    held: Held
    levels: list[tuple[Any, int]]
    beyond: list[tuple[Any, list[int]]]
    given_up: list[tuple[Any, list[int]]]


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(_Kept)


def advance(
    rule: Rule, state: bytes | None, arrived: Sequence[pa.Table], now_ms: int, clock_ms: int | None = None
) -> Step:
    """Order the `arrived` rows of one key, in the order in which they came, on top of `state`.

    `clock_ms`: the time by which patience is measured; None: `now_ms`.
    """
    kept = _Kept(_VERSION, Held(), [], [], []) if state is None else read_state(_decoder, state, _VERSION)
    ordering = Ordering(rule, kept.held, arrived, now_ms, now_ms if clock_ms is None else clock_ms)
    ordering.resume(_settled(kept))
    return ordering.step()


class Ordering(Rows):
    """One step of a key."""

    def __init__(self, rule: Rule, held: Held, arrived: Sequence[pa.Table], now_ms: int, clock_ms: int) -> None:
        super().__init__(held, arrived, now_ms, clock_ms, rule.time)
        self.rule = rule
        #: Holes of this batch that are too wide to be remembered.
        self.passed_over: dict[Stream, range] = {}
        self.any_given_up = False
        columns = read_columns(self.pool, rule.naming) if self.pool.num_columns else no_columns()
        self.headers = Headers(columns)
        #: Waiting rows, oldest first; and, once something is given up, the same by name.
        self.waiting: dict[int, None] = {}
        self.by_name: dict[Need, int] = {}
        self.gate: Gate[int] = Gate(held_max=len(self.since) + 1)

    def resume(self, settled: Settled) -> None:
        """Go on from what was settled in earlier batches."""
        self.any_given_up = bool(settled.given_up)
        self.settled = settled

    def step(self) -> Step:
        rule = self.rule
        self._take_all()
        self.release_circles()
        if rule.patience_ms is not None and self.waiting:
            self._expire(self.clock_ms - rule.patience_ms)
        while len(self.waiting) > rule.held_max:
            self._over_the_bound()
        wake_ms = None
        if rule.patience_ms is not None and self.waiting:
            wake_ms = min(self.since[row] for row in self.waiting) + rule.patience_ms
        kept = self._kept()
        return self.finish(self.state(kept), kept, wake_ms)

    def release_circles(self) -> None:
        """Release rows that wait for each other only. With numbers, a cycle waits until it is given up."""

    def _take_all(self) -> None:
        """Offer all rows to the gate, waiting ones first. Nothing is given up here."""
        streams, source, number, *_ = self.headers.columns
        levels = self.settled.levels
        level = np.array([levels.get(stream, 0) for stream in streams], np.int64)
        if self.settled.beyond or self._any_late(level):
            self._take_each()
            return
        passed = pass_rows(self.headers.columns, level)
        self.out, self.duplicates = passed.out, passed.duplicates
        np.maximum.at(level, source[self.out], number[self.out])
        moved = {stream: n for stream, n in zip(streams, level.tolist(), strict=True) if n}
        self.gate.resume(self.settled._replace(levels=levels | moved))
        for row in passed.waiting:
            self.gate.offer(row, (self.name(row),), self.headers.of(row))
        self.waiting = dict.fromkeys(sorted(passed.waiting))
        suspects = self._may_lack()
        self.words = [self._word(row) if row in suspects else CAUSAL for row in self.out] if suspects else []
        self.words += [CAUSAL] * (len(self.out) - len(self.words))

    def _any_late(self, level: Ints) -> bool:
        """Is there a row whose position was given up?"""
        if not self.any_given_up:
            return False
        _, source, number, *_ = self.headers.columns
        settled = np.flatnonzero(number <= level[source]).tolist()
        return any(number in self.settled.given_up.get(stream, ()) for stream, number in map(self.name, settled))

    def _may_lack(self) -> set[int]:
        """Rows that name a source and a number of given-up positions, if not always of one position."""
        if not self.any_given_up:
            return set()
        streams, source, number, starts, need_source, need_number = self.headers.columns
        lost = self.settled.given_up
        of_lost = np.array([stream in lost for stream in streams], np.bool_)
        numbers = np.array([n for positions in lost.values() for n in positions], np.int64)
        owner = np.repeat(np.arange(len(source)), np.diff(starts))
        named = owner[of_lost[need_source] & np.isin(need_number, numbers)]
        own = np.flatnonzero(of_lost[source] & np.isin(number - 1, numbers))
        return {*named.tolist(), *own.tolist()}

    def _take_each(self) -> None:
        """Offer rows one by one: a position that was given up may be filled in between."""
        gate, out = self.gate, self.out
        gate.resume(self.settled)
        waited: list[int] = []
        for row in range(len(self.headers.columns.source)):
            verdict = gate.offer(row, (self.name(row),), self.headers.of(row))
            if verdict is WAITING:
                waited.append(row)
            elif verdict is READY:
                out += gate.drain()
                self.mark()
            elif verdict is Verdict.LATE:
                self._late(row)
            else:
                self.duplicates += 1
        gone = set(out)
        self.waiting = {row: None for row in waited if row not in gone}

    def _late(self, row: int) -> None:
        self.late += 1
        if self.rule.late == "tag":
            self.gate.mark_settled(*self.name(row))  # rows that depend on it, and its copies, find it settled
            self.mark()
            self.out.append(row)
            self.words.append(LATE)
        else:
            self.dropped += 1

    def _expire(self, before_ms: int) -> None:
        """Release the rows that wait since `before_ms` or earlier, the oldest first."""
        due = [row for row in self.waiting if self.since[row] <= before_ms]
        for row in sorted(due, key=self.since.__getitem__):
            if row in self.waiting:
                self.release(row)

    def _over_the_bound(self) -> None:
        if self.rule.late == "wait":
            text = ", ".join(self.missing()[:_EXAMPLES])
            remedy = f"raise max_held, or let late='tag' or 'drop' give up missing rows (waited for: {text})"
            raise LimitError("rows of one key that wait", len(self.waiting), self.rule.held_max, remedy)
        self.release(next(iter(self.waiting)))

    def missing(self) -> list[str]:
        """What waiting rows wait for, as text."""
        first = self.rule.naming.first
        return [f"{stream!r} up to {n + first - 1}" for stream, n in self.gate.missing().items()]

    def release(self, row: int) -> None:
        """Release `row`: give up what it waits for, directly or through other rows."""
        if not self.by_name:
            self.by_name = {self.name(one): one for one in self.waiting}
        path = {row: None}
        while path:
            here = next(reversed(path))
            if here not in self.waiting:
                del path[here]
                continue
            stream, n = self.unmet(here)[0]
            ahead = self.by_name.get((stream, self.gate.reached(stream) + 1))
            if ahead is None:
                self.give_up(stream, n)
                self.drain()
            elif ahead in path:
                self._force(ahead)
            else:
                path[ahead] = None

    def unmet(self, row: int) -> list[Need]:
        """What a waiting row waits for."""
        stream, number = self.name(row)
        needs = ((stream, number - 1), *self.headers.of(row))
        return [need for need in needs if self.gate.reached(need[0]) < need[1]]

    def give_up(self, stream: Stream, n: int) -> None:
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
        self.gone(row)
        self.gate.mark_settled(*self.name(row))
        self.drain()

    def drain(self) -> None:
        released = self.gate.drain()
        for row in released:
            self.gone(row)
        self.out += released
        self.mark()

    def gone(self, row: int) -> None:
        del self.waiting[row]
        del self.by_name[self.name(row)]

    def mark(self) -> None:
        """Set the words of the rows released since, before anything else is given up or comes late."""
        if self.any_given_up:
            self.words += [self._word(row) for row in self.out[len(self.words) :]]
        else:
            self.words += [CAUSAL] * (len(self.out) - len(self.words))

    def _word(self, row: int) -> int:
        stream, number = self.name(row)
        if any(self._lacking(*need) for need in ((stream, number - 1), *self.headers.of(row))):
            return INCOMPLETE
        return CAUSAL

    def _lacking(self, stream: Stream, n: int) -> bool:
        return self.gate.gave_up(stream, n) or n in self.passed_over.get(stream, ())

    def name(self, row: int) -> Need:
        return self.headers.name(row)

    def _kept(self) -> Held:
        rows, text = list(self.waiting), self.rule.naming.text
        waits_for = [[text(*need) for need in self.unmet(row)] for row in rows]
        return self.kept_rows(rows, [text(*self.name(row)) for row in rows], waits_for)

    def state(self, held: Held) -> bytes:
        levels, beyond, given_up = self.gate.settled()
        kept = _Kept(
            _VERSION,
            held,
            list(levels.items()),
            [(stream, sorted(positions)) for stream, positions in beyond.items()],
            _newest(levels, given_up, self.rule.given_up_max),
        )
        return _encode(kept)


# -- the state as bytes -----------------------------------------------------------------------------------------------


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
