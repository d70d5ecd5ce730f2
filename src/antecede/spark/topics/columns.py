"""Deliveries as columns: which there are, and how they are filled.

A schema of the user's own may name fewer columns, in any order: what is not named is not built, which is as near to
column pruning as Spark's Python sources come.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
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

from antecede.core import ProtocolError, UsageError
from antecede.live.envelope import Opened, open_all
from antecede.live.journal.blocks import LeanMessage, unpack_deps
from antecede.live.topics import TopicFilter

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


class Deliveries(NamedTuple):
    """Some of them, in order: four columns of one length. Everything wanted up to position `reached` is there."""

    messages: Sequence[LeanMessage]
    positions: "np.ndarray[Any, np.dtype[np.int64]]"
    times_us: "np.ndarray[Any, np.dtype[np.int64]]"
    held_us: "np.ndarray[Any, np.dtype[np.int64]]"
    reached: int


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
        self._takes = takes
        self._taken: dict[str, bool] = {}

    def batch(self, found: Deliveries) -> pa.RecordBatch | None:
        """None: nothing of it is wanted."""
        found, envelopes = self._wanted(found)
        if not envelopes:
            return None
        columns = [_FILL[field.name](field.type, found, envelopes) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _wanted(self, found: Deliveries) -> tuple[Deliveries, list[Opened]]:
        try:
            envelopes = open_all([message.payload for message in found.messages])
            readable = None
        except ProtocolError:  # messages that are none of ours: nobody takes them, here as at a node
            maybe = [_open(message.payload) for message in found.messages]
            readable = [index for index, envelope in enumerate(maybe) if envelope is not None]
            envelopes = [envelope for envelope in maybe if envelope is not None]
        if readable is not None:
            found = _some(found, readable)
        taken = self._taken
        for topic in {envelope.topic for envelope in envelopes}.difference(taken):
            taken[topic] = self._takes(topic)
        if not all(taken.values()):
            wanted = [index for index, envelope in enumerate(envelopes) if taken[envelope.topic]]
            if len(wanted) < len(envelopes):
                return _some(found, wanted), [envelopes[index] for index in wanted]
        return found, envelopes


def any_of(filters: Iterable[str]) -> Callable[[str], bool]:
    """Does one of these filters take a topic?"""
    matchers = [TopicFilter(pattern).matches for pattern in filters]
    return lambda topic: any(matches(topic) for matches in matchers)


def _open(payload: bytes) -> Opened | None:
    try:
        return open_all([payload])[0]
    except ProtocolError:
        return None


def _some(found: Deliveries, indices: list[int]) -> Deliveries:
    messages = found.messages
    return Deliveries(
        [messages[index] for index in indices],
        found.positions[indices],
        found.times_us[indices],
        found.held_us[indices],
        found.reached,
    )


_Fill = Callable[[pa.DataType, Deliveries, list[Opened]], pa.Array]


def _deps(kind: pa.DataType, found: Deliveries, envelopes: list[Opened]) -> pa.Array:
    counts, flat = unpack_deps(found.messages)
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    numbers = np.array(flat, np.int64).reshape(-1, 2)
    struct = pa.StructArray.from_arrays(
        [pa.array(numbers[:, 0], pa.int32()), pa.array(numbers[:, 1], pa.int64())], fields=list(kind.value_type)
    )
    return pa.ListArray.from_arrays(pa.array(offsets), struct, type=kind)


def _headers(kind: pa.DataType, found: Deliveries, envelopes: list[Opened]) -> pa.Array:
    each = [envelope.headers for envelope in envelopes]
    if any(each):
        return pa.array([list(headers.items()) for headers in each], kind)
    empty = pa.array([], pa.string())
    return pa.MapArray.from_arrays(pa.array(np.zeros(len(each) + 1, np.int32)), empty, empty, type=kind)


def _times(kind: pa.DataType, times: Any) -> pa.Array:
    return pa.array(times, pa.int64()).view(kind)


_FILL: Final[dict[str, _Fill]] = {
    "topic": lambda kind, found, envelopes: pa.array([envelope.topic for envelope in envelopes], kind),
    "source": lambda kind, found, envelopes: pa.array([message.source for message in found.messages], kind),
    "seq": lambda kind, found, envelopes: pa.array([message.seq for message in found.messages], kind),
    "deps": _deps,
    "payload": lambda kind, found, envelopes: pa.array([envelope.body for envelope in envelopes], kind),
    "headers": _headers,
    "published": lambda kind, found, envelopes: _times(kind, [envelope.time_us for envelope in envelopes]),
    "delivered": lambda kind, found, envelopes: _times(kind, found.times_us),
    "held_us": lambda kind, found, envelopes: pa.array(found.held_us, kind),
    "position": lambda kind, found, envelopes: pa.array(found.positions, kind),
}
