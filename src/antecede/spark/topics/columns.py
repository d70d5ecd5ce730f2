"""Deliveries as columns: which there are, and how they are filled.

A schema of the user's own may name fewer columns, in any order: what is not named is not built, which is as near to
column pruning as Spark's Python sources come.
"""

from collections.abc import Callable, Iterable
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from antecede.core import UsageError
from antecede.spark.topics.chunks import Chunk
from antecede.spark.topics.packed import Unusual, packed_columns
from antecede.spark.topics.plain import plain_columns
from antecede.wire.topics import TopicFilter

#: What a message is said to follow: the node and that node's count.
DEPENDENCY: Final = StructType([StructField("source", IntegerType()), StructField("seq", LongType())])

SCHEMA: Final = StructType(
    [
        StructField("topic", StringType()),
        #: The node that published it, and that node's count: together the message's name.
        StructField("source", IntegerType()),
        StructField("seq", LongType()),
        #: Its immediate predecessors; its source's previous message is always one more, and not listed.
        StructField("deps", ArrayType(DEPENDENCY)),
        StructField("payload", BinaryType()),
        StructField("headers", MapType(StringType(), StringType())),
        #: By its publisher's clock, and by the clock of the node that is read.
        StructField("published", TimestampType()),
        StructField("delivered", TimestampType()),
        #: How long that node held it for what it depends on.
        StructField("held_us", LongType()),
        #: Its place among everything that node has delivered: from 1 on, without holes.
        StructField("position", LongType()),
    ]
)


def check_schema(schema: StructType) -> None:
    """Is every column one of ours, of our type?"""
    ours = {field.name: field.dataType for field in SCHEMA}
    for field in schema:
        if field.name not in ours:
            raise UsageError("column", field.name, "is not one of a topic", f"use some of {', '.join(ours)}")
        if _plain(field.dataType) != _plain(ours[field.name]):
            problem = f"is {ours[field.name].simpleString()}, not {field.dataType.simpleString()}"
            raise UsageError("column", field.name, problem, "read it as it is, and cast it then")


def _plain(kind: DataType) -> str:
    """Without what says whether values may be missing."""
    return kind.simpleString()


class Builder:
    """Makes record batches of one schema out of what certain topics hold."""

    def __init__(self, schema: StructType, takes: Callable[[str], bool]) -> None:
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._kinds = {field.name: field.type for field in self._schema}
        self._takes = takes
        self._taken: dict[str, bool] = {}

    def batch(self, chunk: Chunk) -> pa.RecordBatch | None:
        """None: nothing of it is wanted. Raises `DamagedError`."""
        try:
            columns = packed_columns(chunk, self._kinds, self._wants)
        except Unusual:
            columns = plain_columns(chunk, self._kinds, self._wants)
        batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=self._schema)
        return batch if batch.num_rows else None

    def _wants(self, topic: str) -> bool:
        """Names repeat, and filters take their time."""
        taken = self._taken.get(topic)
        if taken is None:
            taken = self._taken[topic] = self._takes(topic)
        return taken


def any_of(filters: Iterable[str]) -> Callable[[str], bool]:
    """Does one of these filters take a topic?"""
    matchers = [TopicFilter(pattern).matches for pattern in filters]
    return lambda topic: any(matches(topic) for matches in matchers)
