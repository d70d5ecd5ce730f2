"""Packs kept records with a dictionary of what they contain: names of records, default topics, usual shapes.

The records of one message are a hundred bytes that hardly repeat each other, so zlib alone saves little. They repeat
those of every other message, which the dictionary stands for. With the protocol `total` 120 bytes become 40.

`WORDS` belongs to the format of journals: what it packed is read with the same bytes. Other words need another mark.
"""

import zlib
from hashlib import blake2b
from typing import Any, Final

#: The first byte of records that were packed so. It begins no array of msgpack.
MARK: Final = 0x79

#: Shorter records are not worth the time.
_FROM_BYTES: Final = 24

#: zlib's fastest level, and its format without head and checksum (the entry has one).
_LEVEL: Final = 1
_RAW: Final = -15

_MAIN: Final = b"\xa4main"
#: `main` as the timestamps of `total` name it, and the head of an event with one entry (`protocols/tno/event.py`).
_ID: Final = blake2b(b"main", digest_size=16).digest()
_EVENT: Final = bytes(24) + _ID + bytes(8)

#: Frequent ones last: zlib finds them at the least distance.
WORDS: Final = b"".join(
    [
        b"\xaevps.checkpoint\xabvps.carries\x91\x93\xabvps.secured\xa4main\x00\xcd\x01",
        b"\xacvps.unlogged\xa8vps.held\xadvps.published\xb1vps.published_run\xb1vps.delivered_run",
        b"\xa8tno.came\xaevps.registered\xaediagnosis.life",
        b"\x92\xb0gossip.published\x92\x92\x98\xa4main\x00\x90\xc4\x00\x90",
        b"\x92\xb0gossip.delivered\x92\x91\x92\xb0gossip.delivered\x92",
        b"\x93\xablcm.learned\x81\xce\x00\x01\x00\x03\xc2",
        b"\x91\x99\xa8lcm.took\x00\xc3\x80\x80\x80\x83\x01\x02\x03\xc2\x93\xa8lcm.done\x01\xcd\x01\x93\xa8lcm.done\x02\xcd",
        b"\xc1\x92\x96\x0b\x02\xcc\xa5\x1d\x00\xcc\xa5\xc4\xc1\x92\x93\x0b\x02\xcc\xa5\xc4\x92\x99\xa8lcm.took\x00\xc3\x83\x01\xcd",
        b"\x95\xactno.accepted" + _MAIN + b"\x00\xcd\x01\x95\xadtno.published" + _MAIN + b"\x00\x91\x92\xcd\x01",
        b"\x91\x92\xa9tno.asked\x98" + _MAIN + b"\x01\xcd\x01\x90\xc4\x98\x94\xa8",
        b"\xc1\x92\x96\x0c\x02\xcc\xa5\x72\xd1\xff\x66\xcc\x97\xc4\xb2\x95\x92\xa9tno.asked",
        b"\x95\xactno.accepted" + _MAIN + b"\x00\xcd\x01\x94\xaatno.create" + _MAIN + b"\x00\xcd\x01",
        b"\x92\xadvps.published\x98" + _MAIN + b"\x00\xcd\x01\x90\xc4\xc6" + _EVENT,
        b"\x94\xa7tno.out" + _MAIN + b"\xcd\x01\xcd\x01",
        b"\x91\x93\xaavps.logged\x98" + _MAIN + b"\x00\xcd\x01\x90\xc4\x00\x90\xcd\x01\xc4\x00\xcd\x01",
        b"\x94\xaavps.stable" + _MAIN + b"\x00\xcd\x01\x94\xaavps.stable" + _MAIN + b"\x01\xcd",
        b"\xc1\x92\x93\x4b\x0d\xcc\x97\xc4\x6f\x92\x92\xadvps.delivered\x98"
        + _MAIN
        + b"\x00\xcd\x01\x90\xc4\xc6"
        + _EVENT,
        b"\xc4\x00\x97\xa8tno.told\xc4\x10" + _ID + b"\xcd\x01\xc3\x00\x90\xc2",
    ]
)


def pack(records: bytes) -> bytes:
    """The records packed, or as they are where that is no shorter."""
    if len(records) < _FROM_BYTES:
        return records
    packing = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW, zdict=WORDS)
    packed = b"".join((bytes([MARK]), packing.compress(records), packing.flush()))
    return packed if len(packed) < len(records) else records


def unpacking() -> Any:
    """A decompressor (`zlib.decompressobj`) for what stands behind the mark."""
    return zlib.decompressobj(_RAW, zdict=WORDS)
