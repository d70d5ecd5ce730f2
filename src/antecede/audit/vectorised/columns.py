"""Reads parts of a trace as arrays, one entry per row; −1 means "does not apply", as in `antecede.trace.Row`."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from antecede.audit.rules import INCOMPLETE, TAGS
from antecede.audit.wording import Moment
from antecede.trace import Event
from antecede.trace.tables import unknown_event

#: Arrays of integers, of any width, and of truth values.
Ints: TypeAlias = npt.NDArray[Any]
Bools: TypeAlias = npt.NDArray[Any]

#: The columns that the judge reads of each part. Reading few columns is most of its speed.
READ: Final[dict[str, list[str]]] = {
    "events": ["row", "time_us", "node", "event", "topic", "source", "seq", "deps", "digest"],
    "deliveries": ["row", "time_us", "node", "topic", "source", "seq", "note", "digest"],
    "packets": ["row", "time_us", "node", "event", "peer", "topic", "source", "seq"],
}

#: Those that a part need not have. Reading a column of nothing but nulls takes as long as any other.
OPTIONAL: Final = frozenset({"note", "digest"})

#: Up to so many comparisons of a column are faster than a look-up of its values.
_FEW: Final = 32

_CODES = {event.name.lower(): int(event) for event in Event}


class Topics:
    """Numbers the topics of a run as they are met. −1 stands for no topic."""

    def __init__(self, names: list[str] | None = None) -> None:
        self.names: list[str] = list(names or [])
        self._codes = {name: code for code, name in enumerate(self.names)}

    def code(self, name: str | None) -> int:
        if not name:
            return -1
        code = self._codes.setdefault(name, len(self.names))
        if code == len(self.names):
            self.names.append(name)
        return code


class Columns(NamedTuple):
    """Rows of one part."""

    row: Ints
    time: Ints
    node: Ints
    event: Ints
    peer: Ints
    topic: Ints
    source: Ints
    seq: Ints
    tagged: Bools
    #: Tagged as delivered without messages that it depends on.
    incomplete: Bools
    digest: Ints

    @property
    def size(self) -> int:
        """The number of rows; `len` is the number of columns."""
        return len(self.row)

    def take(self, which: Ints | Bools | slice) -> "Columns":
        return Columns(*[column[which] for column in self])

    def moment(self, index: int) -> Moment:
        return Moment(int(self.row[index]), int(self.time[index]))


def columns(table: pa.Table, topics: Topics) -> Columns:
    """Read the columns of `table`. A column that its part does not have gets the value it would have there."""
    count = len(table)

    def integers(name: str) -> Ints:
        if name not in table.column_names:
            return _constant(-1, count, np.int64)
        return integers_of(table[name].chunks, table.schema.field(name).type)

    if "event" in table.column_names:
        event = _codes(table["event"], _event)
    else:
        event = _constant(int(Event.DELIVER), count, np.int64)
    if "note" in table.column_names:
        tag = _codes(table["note"], lambda name: (name in TAGS) + (name == INCOMPLETE), null=0)
    else:
        tag = _constant(0, count, np.int64)
    return Columns(
        row=integers("row"),
        time=integers("time_us"),
        node=integers("node"),
        event=event,
        peer=integers("peer"),
        topic=_codes(table["topic"], topics.code),
        source=integers("source"),
        seq=integers("seq"),
        tagged=_exceeds(tag, 0),
        incomplete=_exceeds(tag, 1),
        digest=integers("digest"),
    )


def _event(name: str | None) -> int:
    if name not in _CODES:
        raise unknown_event(name, "a trace directory")
    return _CODES[name]


def integers_of(chunks: Sequence[Any], kind: Any, null: int = -1) -> Ints:
    """The values of a column of integers, with `null` for nulls.

    It reads Arrow's buffers itself. `to_numpy` of PyArrow imports pandas first, which takes a process that judges 0.3 s
    or more, and nothing here needs it.
    """
    parts = [_buffer_of(chunk, np.dtype(str(kind)), null) for chunk in chunks if len(chunk)]
    if not parts:
        return np.zeros(0, str(kind))
    return _joined(parts)


def _buffer_of(chunk: Any, kind: "np.dtype[Any]", null: int) -> Ints:
    begin, end = chunk.offset, chunk.offset + len(chunk)
    if chunk.null_count == len(chunk):
        return _constant(null, len(chunk), kind)
    valid, values = chunk.buffers()
    numbers = np.frombuffer(values, kind, end)[begin:]
    if chunk.null_count:
        bits = np.unpackbits(np.frombuffer(valid, np.uint8), count=end, bitorder="little")[begin:]
        numbers = np.where(bits, numbers, kind.type(null))
    return numbers


def run_values(column: Ints) -> list[int]:
    """The distinct values of a column that is sorted, or nearly: one for each run of equal values."""
    if not len(column):
        return []
    values: list[int] = column[np.append(True, column[1:] != column[:-1])].tolist()
    return values


def is_among(column: Ints, values: Ints) -> Bools:
    """By row: whether it is one of `values`. For few values, comparing each is much faster than a search."""
    values = np.unique(values)
    if len(values) > _FEW:
        return np.isin(column, values)
    found = np.zeros(len(column), bool)
    for value in values.tolist():
        found |= column == value
    return found


class Dependencies(NamedTuple):
    """The recorded dependencies of some rows, in order: the index of the row, and the message it names."""

    at: Ints
    topic: Ints
    source: Ints
    seq: Ints


def dependencies(table: pa.Table, topics: Topics) -> Dependencies:
    column = table["deps"].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
    counts = pc.list_value_length(column)
    lengths = integers_of([counts], counts.type, null=0)
    named = column.flatten()
    source, seq = named.field("source"), named.field("seq")
    return Dependencies(
        at=np.repeat(np.arange(len(column)), lengths),
        topic=_codes(pa.chunked_array([named.field("topic").dictionary_encode()]), topics.code),
        source=integers_of([source], source.type).astype(np.int64),
        seq=integers_of([seq], seq.type),
    )


def _codes(column: pa.ChunkedArray, code: Callable[[str | None], int], null: int = -1) -> Ints:
    """Turn a column of names into numbers; `code` is called once per name, not once per row."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    parts = []
    for chunk in column.chunks:
        if chunk.null_count == len(chunk):  # the usual case of notes
            parts.append(_constant(null, len(chunk), np.int32))
            continue
        table = np.array([*(code(name) for name in chunk.dictionary.to_pylist()), null], np.int32)
        if len(table) == 2 and not chunk.null_count:
            parts.append(_constant(table[0], len(chunk), np.int32))
            continue
        parts.append(table[integers_of([chunk.indices], chunk.indices.type, null=-1)])  # −1 is the last of the table
    return _joined(parts) if parts else np.zeros(0, np.int32)


def _constant(value: int, count: int, kind: npt.DTypeLike) -> Ints:
    """A column of one value, read-only and without memory: filling arrays took as long as reading the file."""
    return np.broadcast_to(np.array(value, kind), count)


def _exceeds(column: Ints, bound: int) -> Bools:
    return np.broadcast_to(column[:1] > bound, len(column)) if _is_constant(column) else column > bound


def _is_constant(column: Ints) -> bool:
    return len(column) > 0 and column.strides == (0,)


def _joined(parts: Sequence[Ints]) -> Ints:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
