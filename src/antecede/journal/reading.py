"""Reads a journal from outside, beside the node that writes it: for tables, exports and other bulk readers.

Nothing is written and no lock is taken: SQLite's WAL gives a reader the index of the last commit, and behind that the
log is read as far as it is whole (`view`). A reader takes *chunks* of some megabytes, each in a transaction of its own;
an open one would keep the node from checkpointing. Retention may remove what comes next between two chunks, which the
reader notices (`GapError`).
"""

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from antecede.core.errors import GapError, JournalError
from antecede.journal.blocks import DamagedError, LeanBlock, decode_lean, plain_block
from antecede.journal.cuts import end_of, first_of, frontier_at, holes
from antecede.journal.lookup import StreamName, locate
from antecede.journal.schema import open_for_reading
from antecede.journal.segments import SegmentGoneError
from antecede.journal.topics import candidates
from antecede.journal.view import StoredBatch, View

T = TypeVar("T")

#: The journal in a node's directory.
FILE_NAME: Final = "journal.db"

#: Bytes of blocks taken at a time, about: enough to forget the cost of a statement, little beside a worker's memory.
CHUNK_BYTES: Final = 4 * 1024 * 1024

#: Sections from which the mean size of a message is taken.
_NEWEST: Final = 16

#: How often a reader looks again where retention removed the log under it.
_TRIES: Final = 3


class Extent(NamedTuple):
    """The range that can be read: the deliveries after position `removed`, up to and including `position`."""

    removed: int
    position: int


class Stored(NamedTuple):
    """A batch of deliveries: the first has position `first`, and all were made at `time_us`."""

    first: int
    time_us: int
    block: LeanBlock


class Sealed(NamedTuple):
    """A batch of deliveries as it is stored, at positions `first` to `last`."""

    first: int
    last: int
    time_us: int
    block: bytes


class JournalFile:
    """An open journal. A context manager; to be used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        """`path`: the journal, or the directory of its node. Raises `JournalError`."""
        self.path = path / FILE_NAME if path.is_dir() else path
        self._view = open_for_reading(self.path, None)
        try:
            facts = dict(self._view.execute("SELECT name, value FROM facts").fetchall())
        except sqlite3.Error as error:
            self._view.close()
            raise self._unreadable(error) from None
        self.cluster = str(facts.get("cluster", ""))
        #: −1: it has none yet.
        self.node = int(facts.get("node", -1))

    def __enter__(self) -> "JournalFile":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._view.close()

    def extent(self) -> Extent:
        """As of now."""
        return self._reading(lambda view: Extent(view.removed, view.position))

    def before(self, time_us: int) -> int:
        """The position to read on from, for everything delivered at `time_us` or later.

        Clocks may be set: where times go back and forth, it lies before the first delivery of that time or later. So a
        reader may get earlier deliveries too, and misses none.
        """

        def read(view: View) -> int:
            section = view.first_since(time_us)
            if section is None:
                return view.position
            batches = view.batches(section.first - 1, section.last)
            return next(batch.first for batch in batches if batch.time_us >= time_us) - 1

        return self._reading(read)

    def within(self, after: int, last: int, bytes_max: int) -> int:
        """The position up to which there are about `bytes_max` bytes behind `after`: whole batches, at most `last`."""

        def read(view: View) -> int:
            size = 0
            reached = after
            for batch in view.batches(after, last):
                if reached > after and size + len(batch.block) > bytes_max:
                    break
                size += len(batch.block)
                reached = batch.last
            return min(reached, last)

        return self._reading(read)

    def mean_size(self) -> int:
        """About how many bytes a stored message takes, by the newest ones."""

        def read(view: View) -> int:
            newest = view.newest_sections(_NEWEST)
            size, count = sum([one.bytes for one in newest]), sum([one.last - one.first + 1 for one in newest])
            return size // max(1, count)

        return self._reading(read)

    def blocks(self, after: int, last: int) -> Iterator[list[Stored]]:
        """The batches that hold the positions after `after` up to `last`, decoded, in chunks.

        The first batch may begin before, the last end behind. Raises `GapError` when retention has removed some, and
        `JournalError` when the journal ends before `last`.
        """
        while after < last:
            chunk, after = self.sealed(after, last)
            try:
                yield [Stored(one.first, one.time_us, decode_lean(one.block)) for one in chunk]
            except DamagedError as error:
                raise self._unreadable(error) from None

    def sealed(
        self, after: int, last: int, *, partitions: Collection[str] = (), filters: Collection[str] = ()
    ) -> tuple[list[Sealed], int]:
        """One chunk of `blocks` as they are stored, but not packed: their readers know a message by its place in the
        bytes. Returns also how far the chunk reaches.

        Blocks that hold no message of these partitions, by name, are left out; and those of which the topic index knows
        that they hold no topic that one of the filters takes. Without partitions or filters, all are wanted.
        """

        def read(view: View) -> tuple[list[Sealed], int]:
            self._check_range(view, after, last)
            chunk: list[Sealed] = []
            size = 0
            ranges, end = candidates(view.execute, after, last, filters)
            for begin, wanted in ranges:
                for batch in _batches(view, begin, wanted, partitions):
                    block = plain_block(batch.block)
                    chunk.append(Sealed(batch.first, batch.last, batch.time_us, block))
                    size += len(block)
                    if size >= CHUNK_BYTES:
                        return chunk, min(last, batch.last)
            return chunk, end

        return self._reading(read) if after < last else ([], after)

    def _check_range(self, view: View, after: int, last: int) -> None:
        if after < view.removed:
            raise GapError(after, view.removed + 1)
        if view.position < last:
            problem = f"ends at position {view.position}, before {last}"
            raise JournalError(str(self.path), problem, "name the journal that was read")

    def locate(self, wanted: Mapping[StreamName, int]) -> dict[StreamName, tuple[int, int]]:
        """`lookup.locate`."""
        return self._reading(lambda view: locate(view, wanted))

    def frontier_at(self, position: int, present: Mapping[StreamName, int]) -> dict[StreamName, int]:
        """`cuts.frontier_at`."""
        return self._reading(lambda view: frontier_at(view, position, present))

    def first_of(self, wanted: Mapping[StreamName, int], last: int) -> int:
        """`cuts.first_of`."""
        return self._reading(lambda view: first_of(view, wanted, last))

    def end_of(self, wanted: Mapping[StreamName, int]) -> int:
        """`cuts.end_of`."""
        return self._reading(lambda view: end_of(view, wanted))

    def holes(self, stream: StreamName, after: int, last: int) -> list[tuple[int, int]]:
        """`cuts.holes`."""
        return self._reading(lambda view: holes(view, *stream, after, last))

    def _reading(self, read: Callable[[View], T]) -> T:
        """Call `read` with one state of the journal: the node goes on writing and removing meanwhile."""
        for _ in range(_TRIES):
            try:
                with self._view.reading():
                    return read(self._view)
            except SegmentGoneError:
                continue
            except (sqlite3.Error, OSError, DamagedError) as error:
                raise self._unreadable(error) from None
        raise self._unreadable("a part of its log is missing")

    def _unreadable(self, error: Exception | str) -> JournalError:
        return JournalError(str(self.path), f"cannot be read ({error})", "read the journal of another node")


def _batches(view: View, after: int, last: int, partitions: Collection[str]) -> Iterator[StoredBatch]:
    """The batches behind position `after` up to `last`, of these partitions if any are named."""
    if not partitions:
        yield from view.batches(after, last)
        return
    section = view.section_at(after + 1)
    marks = ", ".join("?" * len(partitions))
    places = view.execute(
        f"SELECT DISTINCT at FROM ranges WHERE at >= ? AND at <= ? AND topic IN ({marks}) ORDER BY at",
        (after + 1 if section is None else section.first, last, *partitions),
    ).fetchall()
    for (place,) in places:
        section = view.section_at(place)
        if section is not None:
            for batch in view.batches(max(after, section.first - 1), min(last, section.last)):
                if any(one.topic in partitions for one in decode_lean(batch.block).messages):
                    yield batch
