"""The columns that decide the order, as what the gate takes: streams, positions, needs.

Whole columns at a time: a Python loop over a million structs costs more than ordering them. Values that repeat (names
of sources) become one Python object each, which also makes them cheap to look up.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.core import UsageError
from antecede.core.gate import Need, Stream
from antecede.spark.causal.naming import Naming

_Array: TypeAlias = Any  # pyarrow has no types


class Headers(NamedTuple):
    """By row: its stream and number; its needs are `needs[starts[row] : starts[row + 1]]`."""

    streams: list[Stream]
    numbers: list[int]
    starts: list[int]
    needs: list[Need]

    def of(self, row: int) -> list[Need]:
        return self.needs[self.starts[row] : self.starts[row + 1]]


def read_headers(rows: pa.Table, naming: Naming) -> Headers:
    """The headers of rows of one key. Raises `UsageError` for rows that have no name or a number before the first."""
    streams = _streams([_whole(rows, name) for name in naming.source], naming.source)
    numbers = _numbers(_whole(rows, naming.seq), naming.seq) - (naming.first - 1)
    if len(numbers) and numbers.min() < 1:
        wrong = int(numbers.min()) + naming.first - 1
        problem = f"is below {naming.first}, with which each source begins"
        raise UsageError(naming.seq, wrong, problem, "say with first= where numbers begin, or filter the row out")
    starts, needs = _needs(rows, naming)
    return Headers(streams, numbers.tolist(), starts, needs)


def _needs(rows: pa.Table, naming: Naming) -> tuple[list[int], list[Need]]:
    if naming.deps is None or not rows.num_rows:
        return [0] * (rows.num_rows + 1), []
    lists = _whole(rows, naming.deps)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    entries = lists.flatten()
    if entries.null_count:
        raise UsageError(naming.deps, None, "an entry is null", "filter nulls out of the array first")
    fields = {field.name: pc.struct_field(entries, field.name) for field in entries.type}
    inside = np.ones(len(entries), bool)
    for name in naming.key:
        if name in fields and name not in naming.source:
            here = rows.column(name)[0].cast(fields[name].type)
            same = pc.equal(fields[name], here) if here.is_valid else pc.is_null(fields[name])
            inside &= pc.fill_null(same, False).to_numpy(zero_copy_only=False)
    numbers = _numbers(fields[naming.seq], f"{naming.deps}.{naming.seq}") - (naming.first - 1)
    inside &= numbers >= 1  # nothing comes before the first
    if not inside.all():
        owner = np.repeat(np.arange(len(lengths)), lengths)[inside]
        lengths = np.bincount(owner, minlength=len(lengths))
        numbers = numbers[inside]
        keep = pa.array(inside)
        fields = {name: field.filter(keep) for name, field in fields.items()}
    streams = _streams([fields[name] for name in naming.source], [f"{naming.deps}.{name}" for name in naming.source])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return starts.tolist(), list(zip(streams, numbers.tolist(), strict=True))


def _streams(columns: list[_Array], names: "list[str] | tuple[str, ...]") -> list[Stream]:
    values = [_values(column, name) for column, name in zip(columns, names, strict=True)]
    return values[0] if len(values) == 1 else list(zip(*values, strict=True))


def _values(column: _Array, name: str) -> list[Any]:
    _no_nulls(column, name)
    if pa.types.is_integer(column.type):
        return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    encoded = column.dictionary_encode()
    words = np.empty(len(encoded.dictionary), object)
    words[:] = encoded.dictionary.to_pylist()
    return words[encoded.indices.to_numpy(zero_copy_only=False)].tolist()  # type: ignore[no-any-return]


def _numbers(column: _Array, name: str) -> "np.ndarray[Any, np.dtype[np.int64]]":
    _no_nulls(column, name)
    return column.to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]


def _no_nulls(column: _Array, name: str) -> None:
    if column.null_count:
        raise UsageError(
            name, None, f"{column.null_count} rows have none", "filter them out before: they have no place"
        )


def _whole(rows: pa.Table, name: str) -> _Array:
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
