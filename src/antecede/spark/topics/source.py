"""Reads topics as a table: `spark.read.format("antecede")`.

A batch query reads what there is when it is planned, divided among tasks: from one node by position (`positions`), or
from the nodes of a cluster, each partition from one of its homes (`cluster`).

Options (`topics`, `since`, `until`) say what not to read at all; the query's `where` is not used for that. Spark's
filter push-down for Python sources (`pushFilters`, tried with 4.3) keeps the filters of one query for the next query
over the same DataFrame: `df.where("position > 9").count()` and then `df.count()` return the first count twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, Self

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from antecede.spark.topics.columns import check_schema
from antecede.spark.topics.options import Bound, SourceOptions
from antecede.spark.topics.positions import OneNode, Range, read_range


class Planning(Protocol):
    """What a query asks of a journal, or of the nodes of a cluster. Offsets are what Spark writes into a checkpoint."""

    @property
    def known(self) -> tuple[str, ...]:
        """Addresses of nodes, for the next call."""
        ...

    def check(self) -> None:
        """Raise an error if nothing can be read, or these topics are not granted."""
        ...

    def at(self, bound: Bound, option: str) -> dict[str, Any]:
        """The offset at a bound that the user named with this option."""
        ...

    def advance(
        self, start: Mapping[str, Any], rows_max: int, bytes_max: int, target: Mapping[str, Any] | None
    ) -> tuple[dict[str, Any], int]:
        """The end of the next batch behind `start`, up to `target`, and how many rows there are; 0: no limit."""
        ...

    def parts(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """What the tasks of a batch read. Raises `UsageError` for what cannot be read any more."""
        ...

    def behind(self, reached: Mapping[str, Any] | None) -> dict[str, Any]:
        """The offset at the end of what there is now, and how far `reached` is behind."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


def open_planning(options: SourceOptions, known: Sequence[str] = (), *, patient: bool = True) -> Planning:
    """`known`: addresses of nodes beside those of the url. Without `patient` a node must answer at once."""
    if options.where.journal or options.one_node:
        return OneNode(options, patient=patient)
    from antecede.spark.topics.cluster import Nodes  # noqa: PLC0415 - asyncio is slow to load

    return Nodes(options, known, patient=patient)


def read_part(options: SourceOptions, schema: StructType, part: InputPartition) -> Iterator[pa.RecordBatch]:
    """Read what a task is to read."""
    if isinstance(part, Range):
        return read_range(options, schema, part)
    from antecede.spark.topics.slices import Past, Slice, read_past, read_slice  # noqa: PLC0415 - asyncio is slow to load

    if isinstance(part, Past):
        return read_past(options, schema, part)
    # Spark makes a partition of its own if there are none.
    return read_slice(options, schema, part) if isinstance(part, Slice) else iter(())


class TopicReader(DataSourceReader):
    """A batch query."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_schema(schema)
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        options = self._options
        with open_planning(options) as planning:
            start = planning.at(options.since or Bound("earliest"), "since")
            return planning.parts(start, planning.at(options.until or Bound("latest"), "until"))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_part(self._options, self._schema, partition)
