"""What a record carries so that readers can order it across logs, and how that is encoded.

    1 byte    version; whether the record is a tombstone, and whether it is a retry
    8 bytes   writer
    varint    number
    the past:
    varint    entries
    varints   the logs, ascending, as runs of consecutive numbers: twice the distance from the run before, plus 1 if the
              run is longer than one log; such a run then states its length less 2
    varint    base: the offsets are encoded as differences from it
    1 byte    width, in bits
    bytes     the differences, `width` bits each, the first entry in the lowest bits

Varints have seven bits a byte. Logs are named by a hash of 27 bits (`log_number`), or by small numbers that all clients
agree on: sixty-four consecutive logs then take three bytes.
"""

from functools import lru_cache
from hashlib import blake2b
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
_WIDTH_MAX: Final = 64
#: A varint of four bytes holds 28 bits, and one of them says how long a run is.
_NAME_BITS: Final = 27
#: Pasts whose bytes are remembered: a writer states the same past again until it reads or changes logs.
_REMEMBERED_MAX: Final = 1024


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


def log_number(name: str) -> int:
    """The number of a log in headers, from its name: the same for all clients, without any agreement between them.

    Two of 64 names collide with a probability of 0.000015. A client that knows both refuses to start.
    """
    return int.from_bytes(blake2b(name.encode(), digest_size=4).digest(), "little") >> (32 - _NAME_BITS)


def encode_header(header: Header) -> bytes:
    out = bytearray([_VERSION | _TOMBSTONE * header.tombstone | _RETRY * header.retry])
    out += header.writer.to_bytes(_WRITER_BYTES, "little")
    _put_varint(out, header.number)
    return bytes(out) + _encode_past(header.past)


def decode_header(data: bytes) -> Header:
    """Raises `ProtocolError` for bytes that `encode_header` does not make."""
    if len(data) <= _WRITER_BYTES + 1 or data[0] & ~_FLAGS != _VERSION:
        raise ProtocolError(f"a record header of {len(data)} bytes is too short, or of another version")
    number, at = _varint(data, _WRITER_BYTES + 1)
    if number < 1:
        raise ProtocolError(f"the number of a record header is {number}")
    writer = int.from_bytes(data[1 : _WRITER_BYTES + 1], "little")
    return Header(writer, number, _decode_past(data[at:]), bool(data[0] & _TOMBSTONE), bool(data[0] & _RETRY))


@lru_cache(maxsize=_REMEMBERED_MAX)
def _encode_past(past: tuple[tuple[int, int], ...]) -> bytes:
    out = bytearray()
    _put_varint(out, len(past))
    if not past:
        return bytes(out)
    runs: list[list[int]] = []
    for log, _ in past:
        if runs and log == runs[-1][0] + runs[-1][1]:
            runs[-1][1] += 1
        else:
            runs.append([log, 1])
    behind = 0
    for first, length in runs:
        _put_varint(out, (first - behind) * 2 + (length > 1))
        if length > 1:
            _put_varint(out, length - 2)
        behind = first + length
    offsets = [offset for _, offset in past]
    low, high = min(offsets), max(offsets)
    base = low if _packed_bytes(len(past), high - low) + low.bit_length() // 7 < _packed_bytes(len(past), high) else 0
    width = (high - base).bit_length()
    _put_varint(out, base)
    out.append(width)
    bits = 0
    for offset in reversed(offsets):
        bits = bits << width | (offset - base)
    return bytes(out) + bits.to_bytes(_packed_bytes(len(past), high - base), "little")


@lru_cache(maxsize=_REMEMBERED_MAX)
def _decode_past(data: bytes) -> tuple[tuple[int, int], ...]:
    count, at = _varint(data, 0)
    if count > PAST_MAX:
        raise ProtocolError(f"the past of a record header has {count} entries; {PAST_MAX} are the most")
    if not count and at == len(data):
        return ()
    logs: list[int] = []
    behind = 0
    while len(logs) < count:
        value, at = _varint(data, at)
        length = 1
        if value & 1:
            length, at = _varint(data, at)
            length += 2
        first = behind + (value >> 1)
        if len(logs) + length > count:
            raise ProtocolError(f"the past of a record header has more logs than its {count} entries")
        logs += range(first, first + length)
        behind = first + length
    base, at = _varint(data, at)
    width = data[at] if at < len(data) else _WIDTH_MAX + 1
    bits = int.from_bytes(data[at + 1 :], "little")
    if width > _WIDTH_MAX or len(data) - at - 1 != (count * width + 7) // 8 or bits >> (count * width):
        raise ProtocolError(f"a record header with {count} entries of {width} bits is not whole")
    mask = (1 << width) - 1
    return tuple([(log, base + (bits >> index * width & mask)) for index, log in enumerate(logs)])


def _packed_bytes(count: int, highest: int) -> int:
    return (count * highest.bit_length() + 7) // 8


def _put_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The value that begins at `at`, and where the next one begins."""
    value = shift = 0
    for byte in data[at : at + _VARINT_BYTES_MAX]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at + shift // 7
    raise ProtocolError(f"a number of a record header is cut off, or takes more than {_VARINT_BYTES_MAX} bytes")
