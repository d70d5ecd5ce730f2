"""What a record carries so that readers can order it across logs, and how that is encoded.

    1 byte    version; whether the record is a tombstone, and whether it is a retry
    8 bytes   writer
    varint    number
    varint    entries of the past
    varints   for each log the gap from the log before it, then the offset; logs ascend

Offsets and numbers are varints of seven bits a byte, so an entry takes the bytes its values need.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from antecede.core.errors import ProtocolError

#: Entries of a past, at most: one for each log that the writer ever read or wrote.
PAST_MAX: Final = 4096

_VERSION: Final = 1
_TOMBSTONE: Final = 0x80
_RETRY: Final = 0x40
_FLAGS: Final = _TOMBSTONE | _RETRY
_WRITER_BYTES: Final = 8
_VARINT_BYTES_MAX: Final = 10


class Header(NamedTuple):
    """The writer, its number for this record, and what it had read or written before."""

    #: 64 random bits, new for each session of a client.
    writer: int
    #: Counts the writer's records on one channel (a log, or a key within it) from 1, without holes.
    number: int
    #: (log, offset): the writer's whole frontier when it published, ascending by log.
    past: tuple[tuple[int, int], ...] = ()
    #: The record is empty: it only takes the place of one that the writer gave up.
    tombstone: bool = False
    #: It was sent before, and may be in the log already.
    retry: bool = False


def encode_header(header: Header) -> bytes:
    out = bytearray([_VERSION | _TOMBSTONE * header.tombstone | _RETRY * header.retry])
    out += header.writer.to_bytes(_WRITER_BYTES, "little")
    _put_varint(out, header.number)
    _put_varint(out, len(header.past))
    before = 0
    for log, offset in header.past:
        _put_varint(out, log - before)
        _put_varint(out, offset)
        before = log
    return bytes(out)


def decode_header(data: bytes) -> Header:
    """Raises `ProtocolError` for bytes that `encode_header` does not make."""
    if len(data) <= _WRITER_BYTES + 1 or data[0] & ~_FLAGS != _VERSION:
        raise ProtocolError(f"a record header of {len(data)} bytes is too short, or of another version")
    number, *values = _varints(data[_WRITER_BYTES + 1 :])
    if number < 1 or not values or values[0] > PAST_MAX or len(values) != 1 + 2 * values[0]:
        raise ProtocolError(f"a record header with number {number} and {len(values)} further values is not whole")
    past: list[tuple[int, int]] = []
    log = 0
    for gap, offset in zip(values[1::2], values[2::2], strict=True):
        if past and not gap:
            raise ProtocolError(f"the past of a record header names log {log} twice")
        log += gap
        past.append((log, offset))
    writer = int.from_bytes(data[1 : _WRITER_BYTES + 1], "little")
    return Header(writer, number, tuple(past), bool(data[0] & _TOMBSTONE), bool(data[0] & _RETRY))


def _put_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _varints(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0
        elif shift >= 7 * _VARINT_BYTES_MAX:
            raise ProtocolError(f"a number of a record header takes more than {_VARINT_BYTES_MAX} bytes")
    if shift:
        raise ProtocolError("a record header ends in the middle of a number")
