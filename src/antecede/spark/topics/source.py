"""Topics as a table: `spark.read.format("antecede")`.

A batch query reads the positions there are when it is planned, in ranges, one to a task, so that rows come in the order
in which the node delivered them. Filters on `topic` and `position` go down to the tasks (`filters`).
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from antecede.core import UsageError
from antecede.live.errors import GapError
from antecede.live.journal import Extent
from antecede.spark.topics.columns import Builder, any_of, check_schema
from antecede.spark.topics.filters import Pushed
from antecede.spark.topics.options import Since, SourceOptions
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
        self._pushed = Pushed()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        return [one for one in filters if not self._pushed.take(one)]

    def partitions(self) -> list[InputPartition]:
        options, pushed = self._options, self._pushed
        with open_store(options.where, options.topics) as store:
            extent = store.extent()
            after = begin(store, extent, options.since or Since("earliest"))
            after, last = max(after, pushed.after), min(extent.position, pushed.last)
            if after < min(last, extent.removed):
                after = lost(options, after, extent.removed)
            return list(ranges(store.node, after, last, options.rows_per_partition))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._options, self._schema, self._pushed, partition)


def begin(store: Store, extent: Extent, since: Since) -> int:
    """The position behind which reading begins."""
    if since.kind == "earliest":
        return extent.removed
    if since.kind == "latest":
        return extent.position
    if since.kind == "time":
        return store.before(since.time_us)
    if since.node not in (-1, store.node):
        problem = f"is a cursor of node {since.node}, this is node {store.node}"
        raise UsageError("since", f"{since.node}:{since.position}", problem, "read from that node")
    if since.position > extent.position:
        problem = f"is ahead of the node, which is at {extent.position}"
        raise UsageError("since", since.position, problem, "use latest for what comes next")
    return since.position


def lost(options: SourceOptions, after: int, removed: int) -> int:
    """Retention has removed what follows `after`: an error, or, if that was asked for, where to go on."""
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
    """As many as are needed, of nearly one size."""
    count = -(-(last - after) // rows)
    for number in range(count):
        yield Range(
            node=node,
            after=after + (last - after) * number // count,
            last=after + (last - after) * (number + 1) // count,
        )


def read_range(
    options: SourceOptions, schema: StructType, pushed: Pushed, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """In a task."""
    if not isinstance(partition, Range):  # Spark's stand-in for "there are none"
        return
    wanted = any_of(options.topics)
    build = Builder(schema, lambda topic: wanted(topic) and pushed.takes(topic)).batch
    with open_store(options.where, options.topics) as store:
        check_node(options, store, partition.node)
        after = partition.after
        while after < partition.last:
            try:
                for found in store.read(after, partition.last):
                    batch = build(found)
                    after = int(found.positions[-1])
                    if batch is not None:
                        yield batch
            except GapError as gap:
                after = lost(options, after, min(gap.first - 1, partition.last))


def check_node(options: SourceOptions, store: Store, node: int) -> None:
    if store.node != node:
        problem = f"is node {store.node} now, the query reads positions of node {node}"
        raise UsageError("url", str(options.where), problem, "name that node alone")
