"""Defines the columns of a topic and builds record batches of them.

A user's schema may name fewer columns, in any order. Columns that it does not name are not built; Spark's Python
sources have no other way of column pruning.
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

#: A dependency: a message by its source and sequence number.
DEPENDENCY: Final = StructType([StructField("source", IntegerType()), StructField("seq", LongType())])

SCHEMA: Final = StructType(
    [
        StructField("topic", StringType()),
        #: The node that published it, and its sequence number at that node: together they name the message.
        StructField("source", IntegerType()),
        StructField("seq", LongType()),
        #: Its immediate predecessors, without the previous message of its source, which always is one.
        StructField("deps", ArrayType(DEPENDENCY)),
        StructField("payload", BinaryType()),
        StructField("headers", MapType(StringType(), StringType())),
        #: By the publisher's clock, and by the clock of the node that is read.
        StructField("published", TimestampType()),
        StructField("delivered", TimestampType()),
        #: How long that node held it until its dependencies were delivered.
        StructField("held_us", LongType()),
        #: Its position among all deliveries of that node: from 1 on, without holes.
        StructField("position", LongType()),
        #: Lamport time: higher than that of all messages it depends on, of whatever partition. Null with one partition.
        StructField("clock", LongType()),
    ]
)


def check_schema(schema: StructType) -> None:
    """Refuse a column that a topic does not have, or one of another type."""
    ours = {field.name: field.dataType for field in SCHEMA}
    for field in schema:
        if field.name not in ours:
            raise UsageError("column", field.name, "is not one of a topic", f"use some of {', '.join(ours)}")
        is_text = field.name == "payload" and isinstance(field.dataType, StringType)
        if _plain(field.dataType) != _plain(ours[field.name]) and not is_text:
            problem = f"is {ours[field.name].simpleString()}, not {field.dataType.simpleString()}"
            raise UsageError("column", field.name, problem, "read it as it is, and cast it then")


def _plain(kind: DataType) -> str:
    """The type without its nullability."""
    return kind.simpleString()


class Builder:
    """Makes record batches of one schema from chunks, of some topics."""

    def __init__(self, schema: StructType, takes: Callable[[str], bool]) -> None:
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._kinds = {field.name: field.type for field in self._schema}
        #: A table that was saved with text as payload is read with text.
        self._as_text = pa.types.is_string(self._kinds.get("payload", pa.binary()))
        if self._as_text:
            self._kinds["payload"] = pa.binary()
        self._takes = takes
        self._taken: dict[str, bool] = {}

    def batch(self, chunk: Chunk) -> pa.RecordBatch | None:
        """The batch of a chunk; None if nothing of it is wanted. Raises `DamagedError`."""
        try:
            columns = packed_columns(chunk, self._kinds, self._wants)
        except Unusual:
            columns = plain_columns(chunk, self._kinds, self._wants)
        if self._as_text:
            columns["payload"] = _text(columns["payload"])
        batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=self._schema)
        return batch if batch.num_rows else None

    def _wants(self, topic: str) -> bool:
        """Whether a topic is taken. Cached, because names repeat and filters are slow."""
        taken = self._taken.get(topic)
        if taken is None:
            taken = self._taken[topic] = self._takes(topic)
        return taken


def _text(payload: pa.Array) -> pa.Array:
    try:
        return payload.cast(pa.string())
    except pa.ArrowInvalid:
        raise UsageError("column", "payload", "is not UTF-8 text in a row", "read it as binary") from None


def any_of(filters: Iterable[str]) -> Callable[[str], bool]:
    """A function that tells whether one of these filters matches a topic."""
    matchers = [TopicFilter(pattern).matches for pattern in filters]
    return lambda topic: any(matches(topic) for matches in matchers)
