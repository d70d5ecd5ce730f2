"""Reads topics as a stream: `spark.readStream.format("antecede")`.

Spark writes the offsets of each batch into its checkpoint before it reads, and the messages between two offsets never
change. So a batch that is run again reads the same rows, and a query that is killed continues without a gap or a
repetition. What an offset is: `offsets`.
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
from antecede.spark.topics.columns import check_schema
from antecede.spark.topics.options import Bound, SourceOptions
from antecede.spark.topics.source import Planning, open_planning, read_part


class TopicStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query. It keeps no connection between two calls of Spark."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_schema(schema)
        if options.until is not None:
            raise UsageError("until", "…", "is for batch queries", "use .trigger(availableNow=True) to stop by itself")
        self._options = options
        self._schema = schema
        #: With the trigger "available now": the offset to stop at.
        self._target: dict[str, Any] | None = None
        #: The offset up to which batches were begun, and when the last one was.
        self._reached: dict[str, Any] | None = None
        self._began_s = monotonic()
        #: Addresses of nodes that were told by others.
        self._known: tuple[str, ...] = ()

    def initialOffset(self) -> dict[str, Any]:
        with self._open() as planning:
            return planning.at(self._options.since or Bound("latest"), "since")

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.rows_max is not None:
            return ReadMaxRows(self._options.rows_max)
        if self._options.bytes_max is not None:
            return ReadMaxBytes(self._options.bytes_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        with self._open() as planning:
            self._target = planning.at(Bound("latest"), "until")

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else 0
        bytes_max = 0 if isinstance(limit, ReadAllAvailable) else self._options.bytes_max or 0
        with self._open() as planning:
            end, rows = planning.advance(start, rows_max, bytes_max, self._target)
            self._known = planning.known
        if end == start or self._waits(rows):
            return start
        self._reached, self._began_s = end, monotonic()
        return end

    def _waits(self, rows: int) -> bool:
        """Are these too few for a batch (`minRowsPerBatch`), and may they wait (`maxTriggerDelay`)?"""
        few = rows < self._options.rows_min and self._target is None
        return few and monotonic() - self._began_s < self._options.delay_s

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """What a query's progress shows as `latestOffset`: the end of what there is, and how far it is behind.

        Spark describes a Python source by the name of a Java class. So the offset also has a description of the source.
        """
        with self._open() as planning:
            return {"description": repr(self), **planning.behind(self._reached)}

    def __repr__(self) -> str:
        return f"antecede {', '.join(self._options.topics)} of {self._options.where}"

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with self._open() as planning:
            return planning.parts(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_part(self._options, self._schema, partition)

    def _open(self) -> Planning:
        return open_planning(self._options, self._known)
