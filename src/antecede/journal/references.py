"""Kept records refer to the deliveries of their batch for what both contain, so the log has a message once.

Most protocols keep the messages that they deliver, whole or inside other bytes, in the same batch. In the log each such
piece of the kept records becomes a reference to bytes of the deliveries beside it. An entry stays as long as its kept
records are needed, with its deliveries, whatever retention has removed for readers (`retention.needed_address`).

References are found by looking for payloads, so this module knows no protocol. Kept records and deliveries mostly come
in the same order. A message may stand in the records twice, at once or in a second round. Messages in another order are
stored whole.

Records with references begin with the byte 0xC1, which begins no msgpack value. A msgpack array follows: the pieces as
a list of numbers, three each (bytes to copy from the rest, the distance from the end of the last piece to this one in
the deliveries, the length of the piece), and the rest.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from antecede.core import Message
from antecede.journal.blocks import DamagedError, open_block

#: With references.
MARK: Final = 0xC1

#: Shorter payloads are not worth a reference.
_PAYLOAD_MIN: Final = 24

#: A piece is this much longer than its payload at most, on each side: what stands around a payload is alike, too.
_AROUND: Final = 48

#: The same payload may come again within so many bytes.
_NEAR: Final = 256

#: After so many payloads in a row that the kept records do not contain, the search ends.
_MISSES_MAX: Final = 8


#: Of one entry: many times the largest batch.
_RESOLVED_MAX: Final = 1 << 30


class _Referring(msgspec.Struct, frozen=True, gc=False, array_like=True):
    pieces: list[int]
    rest: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Referring).decode


def refer(kept: bytes, messages: Sequence[Message], deliveries: bytes) -> bytes:
    """Kept records of a batch, without what its deliveries have. `deliveries`: the block of `messages`, not packed."""
    found = _payloads(kept, messages)
    if not found:
        return kept
    pieces: list[int] = []
    rest: list[bytes] = []
    copied = last = there = 0
    ends = [begin for begin, _ in found[1:]] + [len(kept)]
    for (begin, payload), limit in zip(found, ends, strict=True):
        at = deliveries.find(payload, max(0, there - len(payload)))
        if at < 0:
            at = deliveries.index(payload)
        end, there = begin + len(payload), at + len(payload)
        before = min(begin - copied, at, _AROUND)
        before = _alike(kept[begin - before : begin], deliveries[at - before : at], "little")
        behind = min(limit - end, len(deliveries) - there, _AROUND)
        behind = _alike(kept[end : end + behind], deliveries[there : there + behind], "big")
        rest.append(kept[copied : begin - before])
        pieces += (len(rest[-1]), at - before - last, before + len(payload) + behind)
        copied, last = end + behind, there + behind
    rest.append(kept[copied:])
    return b"\xc1" + _encode(_Referring(pieces, b"".join(rest)))


def refers(kept: bytes | memoryview) -> bool:
    """Have these kept records references?"""
    return len(kept) > 0 and kept[0] == MARK


def resolve(kept: bytes | memoryview, block: bytes) -> bytes:
    """The kept records as they were. `block`: the deliveries of their batch, sealed. Raises `DamagedError`."""
    if not refers(kept):
        return bytes(kept)
    deliveries = open_block(block)
    try:
        stored = _decode(kept[1:])
    except (msgspec.DecodeError, RecursionError) as error:
        raise DamagedError(f"its references do not decode ({error})") from None
    parts: list[bytes | memoryview] = []
    copied = last = size = 0
    for index in range(0, len(stored.pieces) - 2, 3):
        count, distance, length = stored.pieces[index : index + 3]
        begin = last + distance
        last = begin + length
        size += length
        inside = min(count, begin, length) >= 0 and copied + count <= len(stored.rest) and last <= len(deliveries)
        if not inside or size > _RESOLVED_MAX:
            raise DamagedError("its references point outside of its deliveries, or to too much of them")
        parts += (stored.rest[copied : copied + count], deliveries[begin:last])
        copied += count
    return b"".join([*parts, stored.rest[copied:]])


def _payloads(kept: bytes, messages: Sequence[Message]) -> list[tuple[int, bytes]]:
    """Where payloads of messages are in `kept`, without overlaps."""
    found: list[tuple[int, bytes]] = []
    behind, before = 0, -1
    while len(found) > before:  # once more while there is more
        before, misses = len(found), 0
        for message in messages:
            payload = message.payload
            if len(payload) < _PAYLOAD_MIN:
                continue
            at = kept.find(payload, behind)
            misses = misses + 1 if at < 0 else 0
            if misses == _MISSES_MAX:
                break
            while at >= 0:
                found.append((at, payload))
                behind = at + len(payload)
                at = kept.find(payload, behind, behind + _NEAR + len(payload))
    return found


def _alike(one: bytes, other: bytes, order: Literal["little", "big"]) -> int:
    """How many bytes are equal in two pieces of one length: from the end ("little"), or from the beginning ("big")."""
    differ = int.from_bytes(one, order) ^ int.from_bytes(other, order)
    return len(one) - (differ.bit_length() + 7) // 8
