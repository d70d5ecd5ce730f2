"""Orders the rows of one key that have ids: a row follows the rows whose ids it names.

The rule is that of `keyed`, with each id a source of one message. Two things differ. `keyed` counts the rows that it
released, by source; here every released id is remembered (`ids`). And a cycle is released at once, because its rows
would wait for each other for ever. They stand side by side behind everything the cycle depends on, and are marked
"circle". `causal_sort` treats cycles in the same way.

The state is: the segments of remembered ids by number, the newest ids that were given up, and the rows that wait.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from antecede.core.gate import Settled
from antecede.spark.causal.extension import extend
from antecede.spark.causal.ids import Digests, SeenIds, Segment, Store, digests
from antecede.spark.causal.keyed import Ordering, Rule
from antecede.spark.causal.steps import CAUSAL, CIRCLE, INCOMPLETE, Held, Step, read_state

_VERSION: Final = 3


class _Kept(msgspec.Struct, array_like=True):
    """The state of a key between batches, beside the store."""

    version: int
    held: Held
    segments: list[Segment]
    given_up: list[Any]
    #: With holes, by source: the highest number that was released.
    highest: list[tuple[Any, int]] = []


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(_Kept)


def _stream(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def advance_ids(
    rule: Rule,
    state: bytes | None,
    store: Store,
    arrived: Sequence[pa.Table],
    now_ms: int,
    clock_ms: int | None = None,
    kind: "type[ById] | None" = None,
) -> Step:
    """Order the `arrived` rows of one key on top of `state` and `store`. Times: as for `keyed.advance`."""
    kind = kind or ById
    kept = _Kept(_VERSION, Held(), [], []) if state is None else read_state(_decoder, state, _VERSION)
    ordering = kind(rule, kept.held, arrived, now_ms, now_ms if clock_ms is None else clock_ms)
    ordering.rename()
    ordering.highest = {_stream(source): number for source, number in kept.highest}
    ordering.remember(SeenIds(kept.segments, store), kept.given_up)
    return ordering.step()


class ById(Ordering):
    """One step of a key."""

    #: With holes, by source: the highest number that was released.
    highest: dict[Any, int]

    def rename(self) -> None:
        """Make ids of the names of rows, if they are none."""

    def remember(self, seen: SeenIds, given_up: list[Any]) -> None:
        """Look up all ids of this batch, its rows' and those they name."""
        self.seen = seen
        self.ids = self.headers.columns.streams
        self.digests: Digests = digests(self.ids)
        there = np.flatnonzero(seen.among(self.digests)).tolist()
        levels = {self.ids[index]: 1 for index in there}
        lost = {one: {1} for one in given_up if one not in levels}
        self.resume(Settled(levels | dict.fromkeys(lost, 1), {}, lost))

    def release(self, row: int) -> None:
        """Release `row`: give up every id that it waits for, directly or through other rows, and that did not come."""
        self.name_waiting()
        path, met = [row], {row}
        while path:
            for need in self.unmet(path.pop()):
                ahead = self.by_name.get(need)
                if ahead is None:
                    self.give_up(*need)
                elif ahead not in met:
                    met.add(ahead)
                    path.append(ahead)
        self.drain()
        self.release_circles()

    def missing(self) -> list[str]:
        self.name_waiting()
        unmet = dict.fromkeys(need for row in self.waiting for need in self.unmet(row) if need not in self.by_name)
        return [repr(stream) for stream, _ in unmet]

    def release_circles(self) -> None:
        """Release rows that wait for each other only, and those that wait only for these."""
        if not self.waiting:
            return
        self.name_waiting()
        unmet = {row: [self.by_name.get(need) for need in self.unmet(row)] for row in self.waiting}
        behind: dict[int, list[int]] = {}
        for row, needs in unmet.items():
            for ahead in needs:
                if ahead is not None:
                    behind.setdefault(ahead, []).append(row)
        # Rows that wait for an id that did not come, directly or through others, go on waiting.
        reached = [row for row, needs in unmet.items() if None in needs]
        left = dict.fromkeys(self.waiting)
        while reached:
            row = reached.pop()
            if row in left:
                del left[row]
                reached += behind.get(row, ())
        if left:
            self.release_together(list(left), unmet)

    def release_together(self, rows: list[int], unmet: dict[int, list[int | None]]) -> None:
        index = {row: at for at, row in enumerate(rows)}
        edges = [(index[ahead], index[row]) for row in rows for ahead in unmet[row] if ahead is not None]
        src, dst = np.array(edges, np.int64).reshape(-1, 2).T
        position, circle = extend(len(rows), src, dst)
        self.mark()
        for at in np.argsort(position).tolist():
            row = rows[at]
            lacking = any(self.gate.gave_up(*need) for need in self.headers.of(row))
            self.out.append(row)
            self.words.append(CIRCLE if circle[at] else INCOMPLETE if lacking else CAUSAL)
            self.gone(row)
        for row in rows:
            self.gate.mark_settled(*self.name(row))
        self.gate.drain()  # they are void there

    def name_waiting(self) -> None:
        if not self.by_name:
            self.by_name = {self.name(one): one for one in self.waiting}

    def state(self, held: Held) -> bytes:
        rule = self.rule
        new = np.zeros(len(self.ids), np.bool_)
        new[self.headers.columns.source[self.out]] = True
        self.seen.add(self.digests[new], self.clock_ms, rule.horizon)
        self.remembered = self.seen.count
        given_up = list(self.gate.settled().given_up)
        return _encode(
            _Kept(_VERSION, held, self.seen.segments, given_up[-rule.given_up_max :], list(self.highest.items()))
        )
