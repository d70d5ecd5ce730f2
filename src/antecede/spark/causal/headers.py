"""Reads the columns that decide the order: as arrays for sorting, and as needs of the gate for streams.

It works on whole columns: a Python loop over a million structs costs more than ordering them. Sources are numbered, so
a name that repeats is one Python object and cheap to look up.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.audit.vectorised.columns import Ints
from antecede.core import UsageError
from antecede.core.gate import Need
from antecede.spark.causal.naming import Naming

_Array: TypeAlias = Any  # pyarrow has no types


class Columns(NamedTuple):
    """By row: its source and number. Its dependencies are `need_…[starts[row] : starts[row + 1]]`.

    Sources are indices into `streams`, which is sorted and includes sources that are only named as dependencies.
    """

    streams: list[Any]
    source: Ints
    number: Ints
    starts: Ints
    need_source: Ints
    need_number: Ints


class Headers:
    """The same for the gate: names and dependencies of single rows."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def name(self, row: int) -> Need:
        columns = self.columns
        return columns.streams[columns.source[row]], int(columns.number[row])

    def of(self, row: int) -> list[Need]:
        """What a row names as its dependencies."""
        streams, _, _, starts, source, number = self.columns
        mine = slice(starts[row], starts[row + 1])
        return [(streams[at], n) for at, n in zip(source[mine].tolist(), number[mine].tolist(), strict=True)]


def no_columns() -> Columns:
    """The columns of no rows."""
    none = np.zeros(0, np.int64)
    return Columns([], none, none, np.zeros(1, np.int64), none, none)


def read_columns(rows: pa.Table, naming: Naming) -> Columns:
    """Read the columns of rows of one key. Raises `UsageError` for a row without a name or with too low a number."""
    if naming.by_id:
        starts, entries = _entries(rows, naming)
        streams, source, need_source = _numbered([_whole(rows, naming.source[0])], [entries], naming)
        return Columns(streams, source, np.ones_like(source), starts, need_source, np.ones_like(need_source))
    number = _numbers(_whole(rows, naming.seq), naming.seq) - (naming.first - 1)
    if len(number) and number.min() < 1:
        wrong = int(number.min()) + naming.first - 1
        problem = f"is below {naming.first}, with which each source begins"
        raise UsageError(naming.seq, wrong, problem, "say with first= where numbers begin, or filter the row out")
    starts, entries = _entries(rows, naming)
    here = [_whole(rows, name) for name in naming.source]
    there = [None if entries is None else pc.struct_field(entries, name) for name in naming.source]
    need_number = np.zeros(0, np.int64)
    if entries is not None:
        need_number = _numbers(pc.struct_field(entries, naming.seq), f"{naming.deps}.{naming.seq}")
        need_number = need_number - (naming.first - 1)
    streams, source, need_source = _numbered(here, there, naming)
    return Columns(streams, source, number, starts, need_source, need_number)


def _entries(rows: pa.Table, naming: Naming) -> tuple[Ints, _Array | None]:
    """The start of each row's entries, and the entries of this key from the first number on."""
    if naming.deps is None or not rows.num_rows:
        return np.zeros(rows.num_rows + 1, np.int64), None
    lists = _whole(rows, naming.deps)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    entries = lists.flatten()
    if entries.null_count:
        raise UsageError(naming.deps, None, "an entry is null", "filter nulls out of the array first")
    if naming.by_id:
        return np.concatenate([[0], np.cumsum(lengths)]), entries
    numbers = pc.struct_field(entries, naming.seq)
    inside = pc.fill_null(pc.greater_equal(numbers, naming.first), True).to_numpy(zero_copy_only=False)
    for name in naming.key:
        if name in [field.name for field in entries.type] and name not in naming.source:
            named = pc.struct_field(entries, name)
            here = rows.column(name)[0].cast(named.type)
            same = pc.equal(named, here) if here.is_valid else pc.is_null(named)
            inside = inside & pc.fill_null(same, False).to_numpy(zero_copy_only=False)
    if not inside.all():
        owner = np.repeat(np.arange(len(lengths)), lengths)[inside]
        lengths = np.bincount(owner, minlength=len(lengths))
        entries = entries.filter(pa.array(inside))
    return np.concatenate([[0], np.cumsum(lengths)]), entries


def _numbered(here: list[_Array], there: list[_Array | None], naming: Naming) -> tuple[list[Any], Ints, Ints]:
    """The distinct sources, sorted; the source of each row; the source of each entry."""
    values: list[list[Any]] = []
    codes = np.zeros(len(here[0]) + (0 if there[0] is None else len(there[0])), np.int64)
    for name, mine, named in zip(naming.source, here, there, strict=True):
        _no_nulls(mine, name)
        both = mine
        if named is not None:
            _no_nulls(named, f"{naming.deps}.{name}")
            wide = pa.int64() if pa.types.is_integer(mine.type) else mine.type
            both = pa.concat_arrays([mine.cast(wide), named.cast(wide)])
        encoded = both.dictionary_encode()
        words = encoded.dictionary.to_pylist()
        by_value = sorted(range(len(words)), key=words.__getitem__)
        rank = np.empty(len(words), np.int64)
        rank[by_value] = np.arange(len(words))
        codes = codes * max(1, len(words)) + rank[encoded.indices.to_numpy(zero_copy_only=False)]
        values.append([words[index] for index in by_value])
    if len(values) == 1:
        streams = values[0]
    else:
        different, codes = np.unique(codes, return_inverse=True)
        streams = [_tuple(int(code), values) for code in different]
    return streams, codes[: len(here[0])], codes[len(here[0]) :]


def _tuple(code: int, values: list[list[Any]]) -> tuple[Any, ...]:
    parts = []
    for words in reversed(values):
        code, index = divmod(code, len(words))
        parts.append(words[index])
    return tuple(reversed(parts))


def _numbers(column: _Array, name: str) -> Ints:
    _no_nulls(column, name)
    return column.to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]


def _no_nulls(column: _Array, name: str) -> None:
    if column.null_count:
        raise UsageError(
            name, None, f"{column.null_count} rows have none", "filter these rows out first: they cannot be ordered"
        )


def _whole(rows: pa.Table, name: str) -> _Array:
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
