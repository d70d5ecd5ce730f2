"""The files of a journal's log: segments of some megabytes, written at the end only and removed from the front.

An *address* counts the bytes of a log from its beginning, over all segments and their heads. A segment is named after
its first address: `journal.db.0000000000000000`, then `journal.db.0000000001000a3c` and so on; each begins where the
one before ends. Its head says to which log it belongs.

`LogReader` reads, from any process. `LogWriter` appends: one write to the system for an entry. What was written
survives the end of the process; `sync` makes it survive a power failure.
"""

import errno
import os
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from antecede.core.errors import JournalError
from antecede.journal.entries import Entry, decode_entries, entry_size
from antecede.private_files import write_private

_MAGIC: Final = b"antclog1"
#: What it is; its log's name; its first address; up to where readers may read, 0: to the end (`LogWriter.show`).
_HEAD: Final = Struct("<8s16sQQ")
HEAD_BYTES: Final = _HEAD.size
_SHOWN_AT: Final = 32

#: A segment that has reached this size is followed by another. Retention removes whole segments.
SEGMENT_BYTES: Final = 16 * 1024 * 1024

#: Bytes that a reader takes at a time.
_CHUNK_BYTES: Final = 256 * 1024

#: The same behind an entry whose deliveries it did not take, as they were long: the next are probably long, too.
_HEAD_CHUNK_BYTES: Final = 4096

#: Segments that a reader holds open.
_OPEN_MAX: Final = 16

NO_END: Final = 1 << 62


class SegmentGoneError(Exception):
    """Retention has just removed the segment."""


class _Segment(NamedTuple):
    base: int
    file: int


def segment_path(journal: Path, base: int) -> Path:
    return journal.with_name(f"{journal.name}.{base:016x}")


def segment_bases(journal: Path) -> list[int]:
    """The first addresses of all segments there are, in order."""
    pattern = re.compile(re.escape(journal.name) + r"\.([0-9a-f]{16})")
    names = [pattern.fullmatch(name) for name in os.listdir(journal.parent)]
    return sorted([int(found.group(1), 16) for found in names if found is not None])


def create_segment(journal: Path, log: bytes, base: int, *, shown: bool = True) -> int:
    """Create a segment with nothing but a head, in place of any that exists; its file, open for writing."""
    path = segment_path(journal, base)
    write_private(path, _HEAD.pack(_MAGIC, log, base, 0 if shown else base + HEAD_BYTES))
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)


def sync_directory(journal: Path) -> None:
    """Make the names of new files survive a power failure."""
    directory = os.open(journal.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


class LogReader:
    """Reads the entries of a log. For one thread at a time."""

    def __init__(self, journal: Path, log: bytes) -> None:
        self._journal = journal
        self._log = log
        self._bases: list[int] = []
        self._open: dict[int, int] = {}

    def close(self) -> None:
        for file in self._open.values():
            os.close(file)
        self._open.clear()

    def bases(self) -> list[int]:
        """The first addresses of all segments there are, in order."""
        return segment_bases(self._journal)

    def shown(self, base: int) -> int:
        """The address up to which the node showed this segment to readers; 0: it did not say (`LogWriter.show`)."""
        segment = self._segment(base)
        return 0 if segment is None else int.from_bytes(os.pread(segment.file, 8, _SHOWN_AT), "little")

    def scan(
        self,
        address: int,
        first: int,
        to: int = NO_END,
        *,
        blocks: bool = True,
        check: bool = False,
        shown: bool = False,
    ) -> Iterator[Entry]:
        """The entries from `address` up to `to`, over segments, until one is cut short or wrong (`decode_entries`).

        The delivery behind `address` has position `first`. `shown`: stop where the node does not show more yet
        (`LogWriter.show`). Raises `SegmentGoneError`.
        """
        want = _CHUNK_BYTES
        while address < to:
            segment = self._segment(address)
            if segment is None:
                return
            if address == segment.base:
                address += HEAD_BYTES
                continue
            end = min(self._end(segment, shown), to)
            data = os.pread(segment.file, max(0, min(want, end - address)), address - segment.base)
            begin = address
            for entry in decode_entries(data, address, first, blocks=blocks, check=check):
                yield entry
                address, first = entry.end, entry.last + 1
            if address > begin:
                want = _CHUNK_BYTES if address <= begin + len(data) else _HEAD_CHUNK_BYTES
                continue
            size = entry_size(data)
            if size is None or size <= len(data) or address + size > end:
                return
            want = size

    def _segment(self, address: int) -> _Segment | None:
        """The segment that holds this address; None: it is not one of this log."""
        base = self._base(address)
        if base is None or (base not in self._open and not segment_path(self._journal, base).exists()):
            self._list()
            base = self._base(address)
            if base is None:
                raise SegmentGoneError
        file = self._open.get(base)
        if file is None:
            if len(self._open) >= _OPEN_MAX:
                self.close()
            try:
                file = os.open(segment_path(self._journal, base), os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                raise SegmentGoneError from None
            if os.pread(file, _SHOWN_AT, 0) != _HEAD.pack(_MAGIC, self._log, base, 0)[:_SHOWN_AT]:
                os.close(file)
                return None
            self._open[base] = file
        return _Segment(base, file)

    def _base(self, address: int) -> int | None:
        at = bisect_right(self._bases, address) - 1
        # The newest segment that we know of may have been followed by another.
        if at == len(self._bases) - 1 and at >= 0:
            base = self._bases[at]
            file = self._open.get(base)
            if file is None or address - base >= os.fstat(file).st_size:
                self._list()
                at = bisect_right(self._bases, address) - 1
        return self._bases[at] if at >= 0 else None

    def _list(self) -> None:
        """See which segments there are. Those that retention removed are closed, so that the disk has their room."""
        self._bases = segment_bases(self._journal)
        for base in self._open.keys() - set(self._bases):
            os.close(self._open.pop(base))

    def _end(self, segment: _Segment, shown: bool) -> int:
        """The address at which a segment ends."""
        end = segment.base + os.fstat(segment.file).st_size
        shown_to = self.shown(segment.base) if shown else 0
        return min(end, shown_to or end)


class LogWriter:
    """Appends entries to a log. `append` is for one thread at a time, and so is `sync`, which may be another."""

    def __init__(self, journal: Path, log: bytes, end: int, unsynced_from: int) -> None:
        """Go on at address `end`. What lies behind is removed. From `unsynced_from` on the log may not be on the disk.

        On return it is, and what was cut off does not come back behind entries that are yet to be written.
        """
        bases = segment_bases(journal)
        base = max([base for base in bases if base < end])
        self._journal = journal
        #: Which log it is.
        self.name = log
        self._base = base
        #: The address behind the last entry.
        self.end = end
        self._broken = False
        self._shows = False
        #: Segments before the present one that were not synced yet.
        self._unsynced: deque[int] = deque()
        for one, following in pairwise(bases):
            if following > base:
                segment_path(journal, following).unlink()
            elif following > unsynced_from:
                self._unsynced.append(os.open(segment_path(journal, one), os.O_RDWR | os.O_CLOEXEC))
        self._file = os.open(segment_path(journal, base), os.O_RDWR | os.O_CLOEXEC)
        os.ftruncate(self._file, end - base)
        os.pwrite(self._file, bytes(8), _SHOWN_AT)
        self._new_names = True
        self.sync()

    def append(self, *parts: bytes) -> int:
        """Write an entry behind the last one; its address. Raises `JournalError`; then the log takes no more.

        `parts`: its bytes, which go to the system as they are, without being joined.
        """
        if self._broken:
            raise self._unwritable("an earlier write failed")
        try:
            if self.end - self._base >= SEGMENT_BYTES:
                self._follow()
            address = self.end
            at = address - self._base
            size = sum(map(len, parts))
            if os.pwritev(self._file, parts, at) != size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._broken = True
            self._cut()
            raise self._unwritable(error.strerror) from None
        self.end = address + size
        return address

    def sync(self) -> None:
        """Everything appended so far survives a power failure. Raises `JournalError`; then the log takes no more."""
        try:
            file = self._file
            while self._unsynced and self._unsynced[0] != file:  # `append` may begin a segment meanwhile
                os.fdatasync(self._unsynced[0])
                os.close(self._unsynced.popleft())
            os.fdatasync(file)
            if self._new_names:
                self._new_names = False
                sync_directory(self._journal)
        except OSError as error:
            self._broken = True
            raise self._unwritable(error.strerror) from None

    def show(self) -> None:
        """Let readers from outside see everything up to here, and nothing behind, until the next call.

        A node that syncs each batch calls it after the sync: no reader gets ahead of what a power failure leaves. The
        mark itself is not synced: what it names is on the disk, and more may be.
        """
        self._shows = True
        os.pwrite(self._file, self.end.to_bytes(8, "little"), _SHOWN_AT)

    def remove_before(self, address: int) -> None:
        """Remove the segments that end at `address` or before. Blocks."""
        bases = segment_bases(self._journal)
        for base, following in pairwise(bases):
            if following <= address:
                segment_path(self._journal, base).unlink(missing_ok=True)

    def close(self) -> None:
        while self._unsynced:
            os.close(self._unsynced.popleft())
        os.close(self._file)

    def _follow(self) -> None:
        """Begin the next segment."""
        file = create_segment(self._journal, self.name, self.end, shown=not self._shows)
        os.pwrite(self._file, bytes(8), _SHOWN_AT)
        self._unsynced.append(self._file)
        self._new_names = True
        self._file, self._base = file, self.end
        self.end += HEAD_BYTES

    def _cut(self) -> None:
        """Remove what a failed write left. If that fails too, the next life does it."""
        try:
            os.ftruncate(self._file, self.end - self._base)
        except OSError:
            return

    def _unwritable(self, why: str | None) -> JournalError:
        return JournalError(str(self._journal), f"cannot be written ({why})", "see that the disk has room")
