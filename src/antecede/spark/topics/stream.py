"""Reads topics as a stream: `spark.readStream.format("antecede")`.

An offset is a position with the node that counts it. Spark writes the range of each batch into its checkpoint before it
reads, and the message at a position never changes. So a batch that is run again reads the same rows, and a query that
is killed continues without a gap or a repetition.

An offset that does not fit the checkpoint is an error: another node, or a journal that ends before the position
reached. Positions that retention has removed are an error too, unless `failOnDataLoss` is false.
"""

from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from antecede.core import UsageError
from antecede.journal import Extent
from antecede.spark.topics.columns import check_schema
from antecede.spark.topics.options import Bound, SourceOptions
from antecede.spark.topics.source import begin, lost, ranges, read_range
from antecede.spark.topics.stores import Store, open_store


class TopicStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query. It keeps nothing open between two calls of Spark."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_schema(schema)
        if options.until is not None:
            raise UsageError("until", "…", "is for batch queries", "use .trigger(availableNow=True) to stop by itself")
        self._options = options
        self._schema = schema
        #: With the trigger "available now": the position to stop at.
        self._target: int | None = None
        #: The position up to which batches were begun, and when the last one was.
        self._reached: int | None = None
        self._began_s = monotonic()

    def initialOffset(self) -> dict[str, Any]:
        with self._open() as store:
            extent = store.extent()
            after = begin(store, extent, self._options.since or Bound("latest"))
            return _offset(store, after)

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.rows_max is not None:
            return ReadMaxRows(self._options.rows_max)
        if self._options.bytes_max is not None:
            return ReadMaxBytes(self._options.bytes_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        with self._open() as store:
            self._target = store.extent().position

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with self._open() as store:
            extent = store.extent()
            after = max(self._check(store, extent, start), extent.removed)
            last = extent.position if self._target is None else max(after, min(self._target, extent.position))
            if not isinstance(limit, ReadAllAvailable):
                if isinstance(limit, ReadMaxRows):
                    last = min(last, after + limit.max_rows)
                if self._options.bytes_max is not None and last > after:
                    last = store.within(after, last, self._options.bytes_max)
            if last <= after or self._waits(last - after):
                return start
            self._reached, self._began_s = last, monotonic()
            return _offset(store, last)

    def _waits(self, rows: int) -> bool:
        """Are these too few for a batch (`minRowsPerBatch`), and may they wait (`maxTriggerDelay`)?"""
        few = rows < self._options.rows_min and self._target is None
        return few and monotonic() - self._began_s < self._options.delay_s

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """What a query's progress shows as `latestOffset`: the end of the journal, and how far the query is behind."""
        with self._open() as store:
            position = store.extent().position
            if self._reached is None:
                return _offset(store, position)
            return {**_offset(store, position), "rowsBehind": position - self._reached}

    def __repr__(self) -> str:
        return f"antecede {', '.join(self._options.topics)} of {self._options.where}"

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with self._open() as store:
            extent = store.extent()
            after, last = self._check(store, extent, start), self._check(store, extent, end)
            if after < min(last, extent.removed):
                after = lost(self._options, after, min(last, extent.removed))
            return list(ranges(store.node, after, last, self._options.rows_per_partition))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._options, self._schema, partition)

    def _open(self) -> Store:
        return open_store(self._options.where, self._options.topics)

    def _check(self, store: Store, extent: Extent, offset: dict[str, Any]) -> int:
        """The position of an offset. Raises `UsageError` if the offset does not belong to this store."""
        position: int = offset["position"]
        where = str(self._options.where)
        if offset["node"] != store.node:
            problem = f"is node {store.node}, the query's checkpoint counts positions of node {offset['node']}"
            raise UsageError("node", where, problem, "name that node alone, or begin with a new checkpoint")
        if position > extent.position:
            problem = f"ends at position {extent.position}, the query's checkpoint is at {position}"
            raise UsageError("journal", where, problem, "name the journal that was read, not an older copy")
        return position


def _offset(store: Store, position: int) -> dict[str, Any]:
    return {"node": store.node, "position": position}
