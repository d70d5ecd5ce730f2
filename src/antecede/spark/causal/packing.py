"""Packs the rows of a key into a binary column, so that they pass Spark's stateful operators unchanged.

Spark hands rows to a stateful Python function through pandas: integers with nulls become floats, nested values become
Python objects, and each row costs microseconds. Packed, a key costs one row per partition, whatever it holds, and comes
out as it went in. `pack` runs before the shuffle, `unpack` behind the operator, both on whole batches.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

#: How much is gathered before it is sorted by key. More makes fewer and longer packets, and takes more memory.
_GATHER_ROWS: Final = 200_000
_GATHER_BYTES: Final = 64 << 20
#: The largest packet, roughly. Spark makes Arrow columns of packets, which may hold at most 2 GiB.
_PACKET_BYTES: Final = 4 << 20

#: The column of packed rows, and the key column if no key was given.
ROWS: Final = "antecede_rows"
EVERYTHING: Final = "antecede_all"


def packer(key: tuple[str, ...]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: pack rows into one packet per key, in the order in which they came."""

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gathered: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            if batch.num_rows:
                gathered.append(batch)
                rows += batch.num_rows
                size += batch.nbytes
            if rows >= _GATHER_ROWS or size >= _GATHER_BYTES:
                yield _packed(pa.Table.from_batches(gathered), key)
                gathered, rows, size = [], 0, 0
        if gathered:
            yield _packed(pa.Table.from_batches(gathered), key)

    return pack


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: unpack packets into rows, in order."""
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


def opened(packet: Any) -> pa.Table:
    return pa.ipc.open_stream(packet).read_all()


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
    return pa.record_batch([*columns, pa.array(sealed, pa.binary())], [*key, ROWS])


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
