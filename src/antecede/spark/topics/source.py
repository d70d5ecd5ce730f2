"""Reads topics as a table: `spark.read.format("antecede")`.

A batch query reads the positions there are when it is planned, in ranges, one per task, so rows come in the order in
which the node delivered them.

Options (`topics`, `since`, `until`) say what not to read at all; the query's `where` is not used for that. Spark's
filter push-down for Python sources (`pushFilters`, tried with 4.3) keeps the filters of one query for the next query
over the same DataFrame: `df.where("position > 9").count()` and then `df.count()` return the first count twice.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from antecede.core import UsageError
from antecede.core.errors import GapError, JournalError
from antecede.core.gc_pause import gc_paused
from antecede.journal import Extent
from antecede.journal.blocks import DamagedError
from antecede.spark.gc_freeze import freeze_once
from antecede.spark.topics.columns import Builder, any_of, check_schema
from antecede.spark.topics.options import Bound, SourceOptions
from antecede.spark.topics.stores import Store, open_store

log = logging.getLogger("antecede.spark")


@dataclass
class Range(InputPartition):
    """Positions after `after` up to `last`, of `node`."""

    node: int
    after: int
    last: int


class TopicReader(DataSourceReader):
    """A batch query."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_schema(schema)
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        options = self._options
        with open_store(options.where, options.topics) as store:
            extent = store.extent()
            after = begin(store, extent, options.since or Bound("earliest"))
            last = end(store, extent, options.until or Bound("latest"))
            if after < min(last, extent.removed):
                after = lost(options, after, extent.removed)
            return list(ranges(store.node, after, last, options.rows_per_partition))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._options, self._schema, partition)


def begin(store: Store, extent: Extent, since: Bound) -> int:
    """The position after which reading begins."""
    if since.kind == "earliest":
        return extent.removed
    if since.kind == "latest":
        return extent.position
    if since.kind == "time":
        return store.before(since.time_us)
    _check_cursor(store, "since", since)
    if since.position > extent.position:
        problem = f"is ahead of the node, which is at {extent.position}"
        raise UsageError("since", since.position, problem, "use latest for what comes next")
    return since.position


def end(store: Store, extent: Extent, until: Bound) -> int:
    """The last position to read."""
    if until.kind == "time":
        return store.before(until.time_us)
    if until.kind == "position":
        _check_cursor(store, "until", until)
        return min(until.position, extent.position)
    return extent.removed if until.kind == "earliest" else extent.position


def _check_cursor(store: Store, option: str, bound: Bound) -> None:
    if bound.node not in (-1, store.node):
        problem = f"is a cursor of node {bound.node}, this is node {store.node}"
        raise UsageError(option, f"{bound.node}:{bound.position}", problem, "read from that node")


def lost(options: SourceOptions, after: int, removed: int) -> int:
    """Report that retention removed positions after `after`; return where to go on if failOnDataLoss is false."""
    if options.fail_on_data_loss:
        raise UsageError(
            "failOnDataLoss",
            True,
            f"positions {after + 1} to {removed} of {options.where} were removed by retention and cannot be read",
            "begin with since=earliest, keep more at the node, or set failOnDataLoss=false to go on without them",
        )
    log.warning("positions %d to %d of %s were removed by retention: left out", after + 1, removed, options.where)
    return removed


def ranges(node: int, after: int, last: int, rows: int) -> Iterator[Range]:
    """Split the positions into ranges of about `rows`, nearly equal."""
    count = -(-(last - after) // rows)
    for number in range(count):
        yield Range(
            node=node,
            after=after + (last - after) * number // count,
            last=after + (last - after) * (number + 1) // count,
        )


def read_range(options: SourceOptions, schema: StructType, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Read one range, in a task."""
    if not isinstance(partition, Range):  # Spark makes a partition of its own if there are none
        return
    freeze_once()
    build = Builder(schema, any_of(options.topics)).batch
    with gc_paused(), open_store(options.where, options.topics) as store:
        check_node(options, store, partition.node)
        after = partition.after
        while after < partition.last:
            try:
                for chunk in store.read(after, partition.last):
                    batch = build(chunk)
                    after = chunk.reached
                    if batch is not None:
                        yield batch
            except GapError as gap:
                after = lost(options, after, min(gap.first - 1, partition.last))
            except DamagedError as error:
                raise JournalError(str(options.where), f"cannot be read ({error})", "restore a copy") from None


def check_node(options: SourceOptions, store: Store, node: int) -> None:
    if store.node != node:
        problem = f"is node {store.node} now, the query reads positions of node {node}"
        raise UsageError("url", str(options.where), problem, "name that node alone")
