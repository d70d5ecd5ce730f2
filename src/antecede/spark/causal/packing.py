"""Packs the rows of a key into a binary column, so that they pass Spark's stateful operators unchanged.

Spark hands rows to a stateful Python function through pandas: integers with nulls become floats, nested values become
Python objects, and each row costs microseconds. Packed, a key costs one row per partition, whatever it holds, and comes
out as it went in. `pack` runs before the shuffle, `unpack` behind the operator, both on whole batches.

A shuffle mixes packets, so each has its number in the batch (`AT`): a batch that is run again gives the same order.
A packet with a time (`TIME`) has no rows. Spark drops whatever is older than its watermark, and must not drop rows.
"""

from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType, TimestampType

from antecede.spark.gc_freeze import freeze_once
from antecede.spark.quoting import plain_name

#: How much is gathered before it is sorted by key. More makes fewer and longer packets, and takes more memory.
_GATHER_ROWS: Final = 200_000
_GATHER_BYTES: Final = 64 << 20
#: The largest packet, roughly. Spark makes Arrow columns of packets, which may hold at most 2 GiB.
_PACKET_BYTES: Final = 4 << 20

#: How many packets a task can number.
_NUMBER_BITS: Final = 32
_TIME_TYPE: Final = pa.timestamp("us", "UTC")

#: The columns of packed rows, of a packet's number in its batch, and of the time for the watermark; and the key column
#: if no key was given.
ROWS: Final = "antecede_rows"
AT: Final = "antecede_at"
TIME: Final = "antecede_time"
EVERYTHING: Final = "antecede_all"


def packed_schema(schema: StructType, key: tuple[str, ...]) -> StructType:
    """The columns of packets of rows with this `schema`. Those of the key have names that need no quotes."""
    named = [StructField(plain_name(name), schema[name].dataType) for name in key]
    named = named or [StructField(EVERYTHING, IntegerType())]
    rest = [StructField(ROWS, BinaryType()), StructField(AT, LongType()), StructField(TIME, TimestampType())]
    return StructType([*named, *rest])


def packer(
    key: tuple[str, ...], time: str | None = None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: pack rows into one packet per key, in the order in which they came.

    `time`: the column of event time, whose highest value is passed on for the watermark.
    """

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_once()
        task = TaskContext.get()
        at = (0 if task is None else task.partitionId()) << _NUMBER_BITS
        for rows in _gathered(batches):
            packed = _packed(rows, key)
            end = at + packed.num_rows
            yield _with(packed, pa.array(np.arange(at, end)), pa.nulls(packed.num_rows, _TIME_TYPE))
            at = end
            if time is not None:
                latest = pc.max(pc.cast(rows.column(time), _TIME_TYPE, safe=False))
                empty = pa.record_batch([pa.nulls(1, field.type) for field in packed.schema], packed.schema.names)
                yield _with(empty, pa.array([end]), pa.array([latest.as_py()], _TIME_TYPE))

    return pack


def _with(packed: pa.RecordBatch, at: Any, time: Any) -> pa.RecordBatch:
    return pa.record_batch([*packed.columns, at, time], [*packed.schema.names, AT, TIME])


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    gathered: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows:
            gathered.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
        if rows >= _GATHER_ROWS or size >= _GATHER_BYTES:
            yield pa.Table.from_batches(gathered)
            gathered, rows, size = [], 0, 0
    if gathered:
        yield pa.Table.from_batches(gathered)


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: unpack packets into rows, in order."""
    freeze_once()
    for batch in batches:
        for packet in batch.column(ROWS):
            buffer = packet.as_buffer()
            if buffer.size:  # an empty packet only carries counts
                yield from pa.ipc.open_stream(buffer)


def packets(rows: pa.Table) -> Iterator[bytes]:
    """Cut `rows` into packets of a reasonable size."""
    if not rows.num_rows:
        return
    each = max(1, int(rows.num_rows * _PACKET_BYTES / max(1, rows.nbytes)))
    for begin in range(0, rows.num_rows, each):
        yield _seal(rows.slice(begin, each))


def opened(frames: Iterable[Any]) -> list[pa.Table]:
    """Open the packets of a key and put them into the order of their batch."""
    found = [pair for frame in frames for pair in zip(frame[AT], frame[ROWS], strict=True) if pair[1] is not None]
    return [pa.ipc.open_stream(packet).read_all() for _, packet in sorted(found, key=itemgetter(0))]


def _packed(rows: pa.Table, key: tuple[str, ...]) -> pa.RecordBatch:
    rows = rows.combine_chunks()
    if not key:
        sealed = list(packets(rows))
        return pa.record_batch([pa.array(np.zeros(len(sealed), np.int32)), pa.array(sealed)], [EVERYTHING, ROWS])
    codes = _codes(rows, key)
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    if (np.diff(order) != 1).any():
        rows = rows.take(pa.array(order))
    bounds = np.flatnonzero(np.diff(codes, prepend=-2, append=-2))
    firsts: list[int] = []
    sealed = []
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        for packet in packets(rows.slice(begin, end - begin)):
            firsts.append(begin)
            sealed.append(packet)
    keys = rows.select(key).take(pa.array(firsts)).combine_chunks()
    columns = [column.chunk(0) for column in keys.columns]
    return pa.record_batch([*columns, pa.array(sealed, pa.binary())], [*map(plain_name, key), ROWS])


def _codes(rows: pa.Table, key: tuple[str, ...]) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """A number for each row; equal keys have equal numbers."""
    codes = np.zeros(rows.num_rows, np.int64)
    for name in key:
        encoded = rows.column(name).combine_chunks().dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.chunk(0)
        own = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
        codes = np.unique(codes * (len(encoded.dictionary) + 1) + own, return_inverse=True)[1].astype(np.int64)
    return codes


def _seal(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]
