"""Turns a table that any program wrote into a trace: the documented columns, whatever their exact types.

Required are `time_us`, `event` and `node`; a column that is missing applies to no row. Integers may have any width,
text may be plain or a dictionary, times may be timestamps. A value that does not apply is null; −1 and '' mean the
same. A column `row` gives the order of rows and is left out again, as is `experiment`. Other names are refused: a
misspelt `dep` would leave a rule with nothing to judge by.

Each function works on any part of a table, so that Spark calls it batch by batch. Needs the extra `lab`.
"""

from collections.abc import Collection
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.core import UsageError
from antecede.trace.arrow import DEPENDENCY, NULLABLE, SCHEMA
from antecede.trace.schema import Event

REQUIRED: Final = ("time_us", "event", "node")
#: Columns that readers add to a trace.
ADDED: Final = ("row", "experiment")

_EVENTS: Final = [event.name.lower() for event in Event]


def check_columns(names: Collection[str], where: str) -> None:
    """Refuse a table that lacks a required column, or has a column that a trace does not have."""
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        problem = f"lacks the column {missing[0]}"
        raise UsageError("trace", where, problem, f"a trace has the columns {', '.join(SCHEMA.names)}")
    unknown = sorted(set(names) - set(SCHEMA.names) - set(ADDED))
    if unknown:
        problem = f"has a column {unknown[0]}, which a trace does not have"
        raise UsageError("trace", where, problem, f"drop or rename it; a trace has {', '.join(SCHEMA.names)}")


def as_trace(table: pa.Table, where: str, *, run: str = "") -> pa.Table:
    """Return `table` in `SCHEMA`. `run`: the name of the run where the table has no column `run`.

    Raises `UsageError` with the column, the value and the remedy.
    """
    check_columns(table.column_names, where)
    if "row" in table.column_names:
        table = table.take(pa.array(np.argsort(table["row"].to_numpy(), kind="stable")))
    columns = []
    for field in SCHEMA:
        if field.name in table.column_names:
            columns.append(_column(table[field.name], field, where))
        elif field.name == "run":
            columns.append(pa.chunked_array([pa.repeat(pa.scalar(run), len(table))]))
        else:
            columns.append(pa.chunked_array([pa.nulls(len(table), field.type)]))
    found = pa.table(columns, schema=SCHEMA)
    check_values(found, where)
    return found


def check_values(table: pa.Table, where: str) -> None:
    """Refuse events that are not known, and dependencies that name no message."""
    for value in pc.unique(table["event"]).to_pylist():
        if value not in _EVENTS:
            raise unknown_event(value, where)
    deps = pc.list_flatten(table["deps"])
    if deps.null_count or any(column.null_count for column in deps.combine_chunks().flatten()):
        problem = "has dependencies without a topic, source or sequence number"
        raise UsageError("trace", where, problem, "give all three: a message is named by topic, source and seq")


def unknown_event(value: str | None, where: str) -> UsageError:
    return UsageError("event", value, f"is not an event of a trace, in {where}", f"write one of {', '.join(_EVENTS)}")


def _column(column: pa.ChunkedArray, field: pa.Field, where: str) -> pa.ChunkedArray:
    try:
        found = _deps(column) if field.name == "deps" else _plain(column, field)
    except (pa.ArrowException, ValueError) as error:
        problem = f"is {column.type} and does not become {_named(field)} ({str(error).splitlines()[0]})"
        raise UsageError("column", field.name, problem, f"cast it, in {where}") from None
    if found.null_count and not field.nullable:
        raise UsageError("column", field.name, f"is null in {found.null_count} rows of {where}", "give every row one")
    return found


def _plain(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """A column of integers or of text in the type of `field`; what does not apply is null."""
    if pa.types.is_dictionary(column.type):
        if column.type == field.type and not field.nullable:
            return column
        column = column.cast(column.type.value_type)
    if pa.types.is_integer(field.type):
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
        elif pa.types.is_duration(column.type):
            column = column.cast(pa.duration("us"), safe=False).cast(pa.int64())
        column = column.cast(field.type)
        return _without(column, -1) if field.name in NULLABLE else column
    column = column.cast(pa.string())
    if field.nullable:
        column = _without(column, "")
    return column.cast(field.type) if field.type == pa.string() else _encoded(column, field)


def _encoded(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """Text as a dictionary. Chunks share one, as in a trace that was written in one piece."""
    return column.combine_chunks().dictionary_encode().cast(field.type) if len(column) else column.cast(field.type)


def _without(column: pa.ChunkedArray, value: int | str) -> pa.ChunkedArray:
    """The column with null in place of `value`."""
    stands = pc.equal(column, pa.scalar(value, column.type))
    if not pc.any(stands).as_py():
        return column
    return pc.if_else(pc.fill_null(stands, False), pa.scalar(None, column.type), column)


def _deps(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lists of structs with a topic, a source and a seq, in any order of fields; an empty list names nothing."""
    kind = column.type
    if pa.types.is_null(kind):
        return column.cast(SCHEMA.field("deps").type)
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        raise ValueError("it is no list of structs")
    names = {kind.value_type.field(index).name for index in range(kind.value_type.num_fields)}
    if names != {"topic", "source", "seq"}:
        raise ValueError(f"its structs have the fields {', '.join(sorted(names))}")
    chunks = []
    for chunk in column.chunks:
        counts = pc.fill_null(pc.list_value_length(chunk), 0).to_numpy()
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        named = chunk.flatten()
        parts = [named.field(part.name).cast(part.type) for part in DEPENDENCY]
        whole = pa.StructArray.from_arrays(parts, fields=list(DEPENDENCY), mask=pc.is_null(named))
        chunks.append(pa.ListArray.from_arrays(pa.array(offsets), whole, mask=pa.array(counts == 0)))
    return pa.chunked_array(chunks, SCHEMA.field("deps").type)


def _named(field: pa.Field) -> str:
    return str(field.type.value_type if pa.types.is_dictionary(field.type) else field.type)
