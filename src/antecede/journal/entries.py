"""Log entries: the batches of a journal, as they follow each other in its log.

An entry is one batch: the records it keeps, its changes, its deliveries, behind a head of 25 or 33 bytes. The head has
the sizes of the three parts, the position of the first delivery, and a checksum of itself, the kept records and the
changes. The deliveries are a sealed block, as readers from outside take it (`blocks`).

An entry that is cut short or does not match its checksums ends the log, when its node opens it: it is what a crash left
of a batch that was never acknowledged. Where the index says that a whole entry was there, it is damage.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from antecede.journal.blocks import DamagedError, open_block

#: Checksum of the rest; which head it is; bytes of kept records, changes, deliveries; how many deliveries; the last
#: four bytes of the position of the first; the time.
_SMALL: Final = Struct("<IBHHHHIq")
_LARGE: Final = Struct("<IBIIIIIq")
_SMALL_MARK: Final = 0xA1
_LARGE_MARK: Final = 0xA2
_SMALL_MAX: Final = 0xFFFF
_POSITION_MASK: Final = 0xFFFFFFFF


class Entry(NamedTuple):
    """A batch in the log, at byte `address` up to `end`. Its deliveries are at positions `first` to `last`."""

    address: int
    end: int
    first: int
    last: int
    time_us: int
    #: Not sealed: the checksum of the head covers them. Empty: there are none.
    kept: bytes
    changes: bytes
    #: Sealed; empty: there are no deliveries, or they were not read.
    block: bytes


def encode_entry(first: int, count: int, time_us: int, kept: bytes, changes: bytes, block: bytes) -> bytes:
    """`kept` and `changes` without their seals, `block` sealed."""
    return entry_head(first, count, time_us, kept, changes, len(block)) + block


def entry_head(first: int, count: int, time_us: int, kept: bytes, changes: bytes, size: int) -> bytes:
    """An entry up to its deliveries; `size`: their bytes, sealed."""
    sizes = (len(kept), len(changes), size, count)
    small = max(sizes) <= _SMALL_MAX
    head, mark = (_SMALL, _SMALL_MARK) if small else (_LARGE, _LARGE_MARK)
    covered = head.pack(0, mark, *sizes, first & _POSITION_MASK, time_us)[4:] + kept + changes
    return crc32(covered).to_bytes(4, "little") + covered


def entry_size(data: bytes) -> int | None:
    """How long the entry at the beginning of `data` is, by its head; None: there is no head."""
    found = _head(data, 0)
    return None if found is None else found[0] + sum(found[1][2:5])


def decode_entries(
    data: bytes, address: int, first: int, *, blocks: bool = True, check: bool = False
) -> Iterator[Entry]:
    """The whole entries of `data`, which lies at `address` of the log and begins with the delivery at `first`.

    Stops at the first entry that is cut short or wrong. `blocks`: with their deliveries; without, an entry is given as
    soon as its other parts are there, and its deliveries only where `data` has them. `check`: an entry whose deliveries
    do not match their seal is wrong, too.
    """
    at = 0
    while True:
        found = _head(data, at)
        if found is None:
            return
        begin, (crc, _, kept, changes, size, count, low, time_us) = found
        changes_at = begin + kept
        block_at = changes_at + changes
        end = block_at + size
        if (end if blocks else block_at) > len(data) or low != first & _POSITION_MASK:
            return
        if crc32(data[at + 4 : block_at]) != crc:
            return
        block = data[block_at:end] if end <= len(data) else b""
        if check and block and not _is_sealed(block):
            return
        last = first + count - 1
        yield Entry(
            address + at, address + end, first, last, time_us, data[begin:changes_at], data[changes_at:block_at], block
        )
        at, first = end, last + 1


def _head(data: bytes, at: int) -> tuple[int, tuple[int, ...]] | None:
    """Where the head at byte `at` ends, and its fields; None: it is cut short, or none."""
    if len(data) < at + 5:
        return None
    head = {_SMALL_MARK: _SMALL, _LARGE_MARK: _LARGE}.get(data[at + 4])
    if head is None or len(data) < at + head.size:
        return None
    return at + head.size, head.unpack_from(data, at)


def _is_sealed(block: bytes) -> bool:
    try:
        open_block(block)
    except DamagedError:
        return False
    return True
