"""`causal_sort`: sorts a table so that every message follows what it depends on.

    causal_sort(log, key="room", source="author", seq="n", deps="after", by="time").show()

Equal tables give equal orders, however their rows are partitioned: of the messages that may come next, the first is the
one with the lowest `by`, then the lowest source, then the lowest number.

Only the columns that decide the order are shuffled, to one task per key, and ordered there at half a kilobyte per
message. The rows themselves are joined with their positions and sorted by Spark, and need not fit into memory. (A chain
of dependencies is as long as a conversation, so one join per link would take far too many joins.)
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from antecede.audit.vectorised.columns import Ints
from antecede.core import UsageError
from antecede.spark.causal.extension import extend
from antecede.spark.causal.headers import read_columns
from antecede.spark.causal.naming import Naming, check_free, choose_naming
from antecede.spark.causal.packing import EVERYTHING
from antecede.spark.quoting import column_of, plain_name, quote_name, with_plain_names

_ADDED: Final = ("position", "missing", "circle")
_BY: Final = "antecede_by"
#: A table of all possible names may be so many times larger than the names that exist or are looked up.
_WIDE: Final = 4


def causal_sort(
    table: DataFrame,
    *,
    key: str | Sequence[str] = (),
    id: str | None = None,
    parents: str | None = None,
    source: str | Sequence[str] = "source",
    seq: str = "seq",
    deps: str | None = "deps",
    by: str | None = None,
    first: int = 1,
    holes: bool = False,
) -> DataFrame:
    """Sort `table` by `key`, and within each key so that every message follows what it depends on.

    `key`, `id`, `parents`, `source`, `seq`, `deps`, `first`: as for `causal_order`; by default the whole table is one
    order.
    `by`: a column that decides which of the messages that may come next goes first, such as a time.
    `holes`: a source's numbers may have holes, which are then not reported.

    Adds three columns. `position`: the position within the key, from 1 on; copies of one message share it. `missing`:
    the dependencies that the table does not hold (the previous number of its source included), or null. `circle`: the
    number of the cycle, if messages depend on each other in a cycle, or null; they stand side by side.
    """
    if not isinstance(table, DataFrame) or table.isStreaming:
        raise UsageError("table", type(table).__name__, "is not a table", "use causal_order for streams")
    schema = table.schema
    naming = choose_naming(schema, key=key, id=id, parents=parents, source=source, seq=seq, deps=deps, first=first)
    for column in _ADDED:
        if column in schema.names:
            raise UsageError("table", column, "is the name of a column to be added", "rename yours")
    if by is not None and by not in schema.names:
        raise UsageError("by", by, "there is no such column", f"there are {', '.join(schema.names)}")
    check_free(schema, "by", _BY)
    joined = _with_positions(table, naming, by, holes, _ADDED)
    return joined.orderBy(*(column_of(name) for name in naming.key), "position")


def sort_table(table: DataFrame, naming: Naming, holes: bool, added: tuple[str, str, str]) -> DataFrame:
    """Sort a table as `causal_order` does, with the columns it adds: the word, the time waited, and the position."""
    word, held_ms, position = added
    missing, circle = "antecede_missing", "antecede_circle"
    found = _with_positions(table, naming, None, holes, (position, missing, circle))
    order = F.when(F.col(circle).isNotNull(), "circle").when(
        F.col(missing).isNotNull() & F.lit(not holes), "incomplete"
    )
    told = found.withColumn(word, order.otherwise("causal")).withColumn(held_ms, F.lit(0).cast("long"))
    once = told.dropDuplicates([*naming.key, position])
    chosen = once.select(*(column_of(name) for name in (*table.schema.names, *added)))
    return chosen.orderBy(*(column_of(name) for name in naming.key), column_of(position))


def _with_positions(
    table: DataFrame, naming: Naming, by: str | None, holes: bool, added: tuple[str, str, str]
) -> DataFrame:
    """The table, not sorted, with three columns: of the position, of what is missing, and of the cycle."""
    schema = table.schema
    entry = StructType([StructField(name, schema[name].dataType) for name in naming.name])
    # A column may be both key and source; it is selected once.
    name_columns = list(dict.fromkeys((*naming.key, *naming.name)))
    positioned = StructType(
        [
            *(StructField(name, schema[name].dataType) for name in name_columns),
            StructField("position", LongType()),
            StructField("missing", ArrayType(entry[0].dataType if naming.by_id else entry)),
            StructField("circle", LongType()),
        ]
    )
    headers = table.select(
        *(column_of(name) for name in dict.fromkeys(naming.columns)),
        (column_of(by) if by else F.lit(None).cast("long")).alias(_BY),
    )
    plain = with_plain_names(headers)
    groups = plain.groupBy(*(map(plain_name, naming.key) if naming.key else [F.lit(0).alias(EVERYTHING)]))
    positions = groups.applyInArrow(_positioning(naming, headers.columns, name_columns, holes), positioned)
    same = [table[quote_name(name)].eqNullSafe(positions[quote_name(name)]) for name in name_columns]
    return table.join(positions, on=same, how="inner").select(
        *(table[quote_name(name)] for name in schema.names),
        *(positions[name].alias(column) for name, column in zip(_ADDED, added, strict=True)),
    )


def _positioning(
    naming: Naming, names: list[str], name_columns: list[str], holes: bool
) -> Callable[[pa.Table], pa.Table]:
    def position(rows: pa.Table) -> pa.Table:
        return _positioned(rows.rename_columns(names).combine_chunks(), naming, name_columns, holes)

    return position


def _positioned(rows: pa.Table, naming: Naming, name_columns: list[str], holes: bool) -> pa.Table:
    """The messages of one key with their positions: one row each, whatever copies there are."""
    columns = read_columns(rows, naming)
    keys = [columns.number, columns.source]
    by = rows.column(_BY)
    if by.null_count < len(by):
        keys.append(pc.rank(by, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64))
    # Rows in the order in which they would go if nothing depended on anything. Copies of one message are one: the first
    # speaks for all, and all that any of them names counts.
    message_of_row, row_of_message = _messages(np.lexsort(keys), columns.source, columns.number)
    count = len(row_of_message)
    index = _Index(columns.source[row_of_message], columns.number[row_of_message])
    named = index.find(columns.need_source, columns.need_number)
    by_whom = message_of_row[np.repeat(np.arange(rows.num_rows), np.diff(columns.starts))]
    before = index.previous()
    follows = before >= 0
    there = named >= 0
    edges = np.sort(
        np.concatenate([named[there] * count + by_whom[there], before[follows] * count + np.flatnonzero(follows)])
    )
    edges = edges[np.diff(edges, prepend=-1) != 0]  # each once
    position, circle = extend(count, edges // count, edges % count)
    absent = [np.stack([by_whom[~there], columns.need_source[~there], columns.need_number[~there]])]
    if not holes:
        absent.append(index.holes())
    missing = _missing(count, np.unique(np.concatenate(absent, axis=1), axis=1), columns.streams, rows.schema, naming)
    return (
        rows.select(name_columns)
        .take(pa.array(row_of_message))
        .append_column("position", pa.array(position + 1))
        .append_column("missing", missing)
        .append_column("circle", pa.array(circle, mask=circle == 0))
    )


def _messages(order: Ints, stream_of: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """The message of each row, and the first row of each message; messages are numbered in `order`."""
    span = int(numbers.max()) + 1
    if len(order) and stream_of.max() >= (1 << 62) // span:
        raise UsageError("seq", span - 1, "numbers are too large to sort by", "count from first= on")
    names, first_at, inverse = np.unique((stream_of * span + numbers)[order], return_index=True, return_inverse=True)
    by_first = np.argsort(first_at)
    renumbered = np.empty(len(names), np.int64)
    renumbered[by_first] = np.arange(len(names))
    message_of_row = np.empty(len(order), np.int64)
    message_of_row[order] = renumbered[inverse]
    return message_of_row, order[first_at[by_first]]


class _Index:
    """Messages by source and number."""

    def __init__(self, source: Ints, number: Ints) -> None:
        self._order = np.lexsort((number, source))
        self._source, self._number = source[self._order], number[self._order]
        self._span = int(number.max(initial=0)) + 1
        self._names = self._source * self._span + self._number

    def find(self, source: Ints, number: Ints) -> Ints:
        """The messages of these names; −1 if there is none."""
        names = np.where(number < self._span, source * self._span + number, -1)
        width = int(max(self._source.max(initial=-1), source.max(initial=-1)) + 1) * self._span
        if width <= _WIDE * (len(self._names) + len(names)):
            # Numbers have few holes: a table of all possible names is faster than a search.
            table = np.full(width + 1, -1, np.int64)  # the last entry is for names that cannot exist
            table[self._names] = self._order
            return table[names]
        at = np.minimum(np.searchsorted(self._names, names), len(self._names) - 1)
        return np.where(self._names[at] == names, self._order[at], -1)

    def previous(self) -> Ints:
        """By message: the previous message of its source; −1 for the first."""
        before = np.full(len(self._order), -1, np.int64)
        same = self._source[1:] == self._source[:-1]
        before[self._order[1:][same]] = self._order[:-1][same]
        return before

    def holes(self) -> Ints:
        """(message, source, number) for each message whose source's previous number is absent."""
        follows = np.concatenate([[False], self._source[1:] == self._source[:-1]])
        before = np.where(follows, np.roll(self._number, 1), 0)
        alone = np.flatnonzero(self._number > before + 1)
        return np.stack([self._order[alone], self._source[alone], self._number[alone] - 1])


def _missing(count: int, absent: Ints, streams: list[Any], schema: pa.Schema, naming: Naming) -> pa.Array:
    """By message: its absent dependencies as structs, or as ids; null if there are none."""
    entry = pa.struct([(name, schema.field(name).type) for name in naming.name])
    kind = pa.list_(entry[0].type if naming.by_id else entry)
    by_message: dict[int, list[Any]] = {}
    for message, source, number in absent.T.tolist():
        if naming.by_id:
            by_message.setdefault(message, []).append(streams[source])
            continue
        name = streams[source] if len(naming.source) > 1 else (streams[source],)
        entry = dict(zip(naming.source, name, strict=True)) | {naming.seq: number + naming.first - 1}
        by_message.setdefault(message, []).append(entry)
    if not by_message:
        return pa.nulls(count, kind)
    return pa.array([by_message.get(message) for message in range(count)], kind)
