"""Fills columns from stored deliveries, message by message; it takes everything a journal may hold.

`packed` is several times as fast for messages as our encoder writes them, and leaves all others to this file.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from antecede.core import ProtocolError
from antecede.journal.blocks import LeanMessage, decode_lean, unpack_deps
from antecede.spark.topics.chunks import Chunk
from antecede.wire.envelope import Opened, open_all


class _Delivery(NamedTuple):
    position: int
    time_us: int
    held_us: int
    message: LeanMessage
    envelope: Opened


def plain_columns(chunk: Chunk, kinds: Mapping[str, pa.DataType], takes: Callable[[str], bool]) -> dict[str, pa.Array]:
    """Fill the named columns, of the given types, with the wanted part of the chunk, on topics that are taken.

    Messages without an envelope of ours are left out, as a node leaves them out. Raises `DamagedError`.
    """
    rows = [one for one in _deliveries(chunk) if takes(one.envelope.topic)]
    return {name: _FILL[name](kind, rows) for name, kind in kinds.items()}


def _deliveries(chunk: Chunk) -> list[_Delivery]:
    found: list[_Delivery] = []
    for piece in chunk.pieces:
        block = decode_lean(piece.block)
        offsets = range(len(block.messages)) if piece.offsets is None else piece.offsets
        for index, (offset, message) in enumerate(zip(offsets, block.messages, strict=True)):
            position = piece.first + offset
            if not chunk.after < position <= chunk.last:
                continue
            if chunk.window is not None and not chunk.window.takes(message.stream, message.seq):
                continue
            envelope = _open(message.payload)
            if envelope is not None:
                found.append(_Delivery(position, piece.time_us, block.held_us.get(index, 0), message, envelope))
    return found


def _open(payload: bytes) -> Opened | None:
    try:
        return open_all([payload])[0]
    except ProtocolError:
        return None


_Fill = Callable[[pa.DataType, list[_Delivery]], pa.Array]


def _deps(kind: pa.DataType, rows: list[_Delivery]) -> pa.Array:
    counts, flat = unpack_deps([one.message for one in rows])
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    numbers = np.array(flat, np.int64).reshape(-1, 2)
    struct = pa.StructArray.from_arrays(
        [pa.array(numbers[:, 0], pa.int32()), pa.array(numbers[:, 1], pa.int64())], fields=list(kind.value_type)
    )
    return pa.ListArray.from_arrays(pa.array(offsets), struct, type=kind)


def _times(kind: pa.DataType, times: list[Any]) -> pa.Array:
    return pa.array(times, pa.int64()).view(kind)


_FILL: Final[dict[str, _Fill]] = {
    "topic": lambda kind, rows: pa.array([one.envelope.topic for one in rows], kind),
    "source": lambda kind, rows: pa.array([one.message.stream for one in rows], kind),
    "seq": lambda kind, rows: pa.array([one.message.seq for one in rows], kind),
    "deps": _deps,
    "payload": lambda kind, rows: pa.array([one.envelope.body for one in rows], kind),
    "headers": lambda kind, rows: pa.array([list(one.envelope.headers.items()) for one in rows], kind),
    "published": lambda kind, rows: _times(kind, [one.envelope.time_us for one in rows]),
    "delivered": lambda kind, rows: _times(kind, [one.time_us for one in rows]),
    "held_us": lambda kind, rows: pa.array([one.held_us for one in rows], kind),
    "position": lambda kind, rows: pa.array([one.position for one in rows], kind),
    "clock": lambda kind, rows: pa.array([one.message.clock or None for one in rows], kind),
}
