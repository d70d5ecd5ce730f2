"""One step of an ordered stream: the rows it has, what it makes of them, and its state between batches.

The state is no pickle: it outlives the code that wrote it, and has a version. The waiting rows are in it as Arrow, with
their times of arrival.

There are two times. Patience is measured by the operator's clock (`clock_ms`): the time the query ran, or event time.
What a reader is told is Spark's processing time (`now_ms`).
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.core import UsageError

Late: TypeAlias = Literal["wait", "tag", "drop"]

#: What the added column says of a row: everything it depends on came before it; a dependency was given up; the row
#: itself was given up, and rows that depend on it went ahead; it is one of rows that depend on each other in a cycle.
CAUSAL, INCOMPLETE, LATE, CIRCLE = 0, 1, 2, 3
WORDS: Final = ("causal", "incomplete", "late", "circle")


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
    #: Of the rows that wait now: how long the first has waited, and how many names they wait for that did not come.
    waited_ms_max: int
    awaited: int
    #: Released rows that depend on each other in cycles.
    circles: int
    #: Ids that are remembered, where rows have ids.
    remembered: int


class Step(NamedTuple):
    state: bytes
    #: The released rows in order, as indices into `pool`; for each its word (`WORDS`) and how long it waited.
    pool: pa.Table
    order: "np.ndarray[Any, np.dtype[np.int64]]"
    words: "np.ndarray[Any, np.dtype[np.int8]]"
    held_ms: "np.ndarray[Any, np.dtype[np.int64]]"
    #: The position of the first released row within its key, from 1 on; the others follow without holes.
    first_position: int
    counts: Counts
    #: When, by the clock, the first waiting row will have waited long enough; None if no row waits or nothing is ever
    #: given up.
    wake_ms: int | None


class Held(msgspec.Struct, array_like=True):
    """The rows that wait between two batches, and how many were released before."""

    #: By row: since when it waits, by the clock; and when it came, by processing time.
    since_ms: list[int] = []
    came_ms: list[int] = []
    #: By row, as text: its name, and the names it waits for.
    names: list[str] = []
    waits_for: list[list[str]] = []
    #: The rows as an Arrow stream; empty if there are none.
    rows: bytes = b""
    released: int = 0


class _State(Protocol):
    version: int


S = TypeVar("S", bound=_State)


def read_state(decoder: "msgspec.msgpack.Decoder[S]", state: bytes, version: int) -> S:
    """Read what an earlier step kept."""
    try:
        kept = decoder.decode(state)
    except msgspec.DecodeError as error:
        remedy = "start with a new checkpoint"
        raise UsageError("checkpoint", "causal_order", f"has a state that cannot be read ({error})", remedy) from None
    if kept.version != version:
        remedy = "start with a new checkpoint, or with the version that wrote it"
        problem = f"has state of version {kept.version}, this antecede reads {version}"
        raise UsageError("checkpoint", "causal_order", problem, remedy)
    return kept


class Rows:
    """Base of a step: its rows, those that waited before those that arrived, and what became of them so far."""

    def __init__(
        self, held: Held, arrived: Sequence[pa.Table], now_ms: int, clock_ms: int, time: str | None = None
    ) -> None:
        """`time`: the column with a row's own time, by which it waits; None: it waits since it came."""
        self.now_ms, self.clock_ms = now_ms, clock_ms
        tables = list(arrived)
        self.held_before = len(held.since_ms)
        if self.held_before:
            tables.insert(0, _same_columns(pa.ipc.open_stream(held.rows).read_all(), tables))
        self.pool: pa.Table = pa.concat_tables(tables) if tables else pa.table({})
        more = self.pool.num_rows - self.held_before
        self.came = held.came_ms + [now_ms] * more
        self.since = held.since_ms + [clock_ms] * more
        if time is not None and more:
            times = pc.cast(self.pool.column(time).slice(self.held_before), pa.timestamp("ms"), safe=False)
            self.since[self.held_before :] = times.cast(pa.int64()).fill_null(clock_ms).to_pylist()
        self.released_before = held.released
        #: Released rows, and the word of each.
        self.out: list[int] = []
        self.words: list[int] = []
        self.late = self.dropped = self.duplicates = self.given_up = self.remembered = 0

    def kept_rows(self, held: list[int], names: list[str], waits_for: list[list[str]]) -> Held:
        """The rows that wait, for the state."""
        rows = _seal(self.pool.take(held)) if held else b""
        since, came = [self.since[row] for row in held], [self.came[row] for row in held]
        return Held(since, came, names, waits_for, rows, self.released_before + len(self.out))

    def finish(self, state: bytes, kept: Held, wake_ms: int | None) -> Step:
        held = len(kept.names)
        order, words = np.array(self.out, np.int64), np.array(self.words, np.int8)
        held_ms = self.now_ms - np.array(self.came, np.int64)[order]
        counts = Counts(
            released=len(order),
            incomplete=int((words == INCOMPLETE).sum()),
            late=self.late,
            duplicates=self.duplicates,
            dropped=self.duplicates + self.dropped,
            held=held,
            held_change=held - self.held_before,
            given_up=self.given_up,
            hold_ms_max=int(held_ms.max(initial=0)),
            waited_ms_max=self.now_ms - min(kept.came_ms, default=self.now_ms),
            awaited=len({name for names in kept.waits_for for name in names}.difference(kept.names)),
            circles=int((words == CIRCLE).sum()),
            remembered=self.remembered,
        )
        return Step(state, self.pool, order, words, held_ms, self.released_before + 1, counts, wake_ms)


def _seal(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _same_columns(held: pa.Table, arrived: Sequence[pa.Table]) -> pa.Table:
    if arrived and held.schema != arrived[0].schema:
        was = ", ".join(f"{field.name}: {field.type}" for field in held.schema)
        raise UsageError(
            "checkpoint",
            "causal_order",
            f"has rows with other columns ({was})",
            "start with a new checkpoint, or give the stream these columns",
        )
    return held
