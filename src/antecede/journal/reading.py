"""Reads a journal from outside, beside the node that writes it: for tables, exports and other bulk readers.

Nothing is written and no lock is taken: SQLite's WAL gives a reader the state of the last commit. A reader takes
*chunks* of some megabytes, each in a transaction of its own; an open one would keep the node from checkpointing.
Retention may remove what comes next between two chunks, which the reader notices (`GapError`).
"""

import sqlite3
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from antecede.core.errors import GapError, JournalError
from antecede.journal.blocks import DamagedError, LeanBlock, decode_lean, plain_block
from antecede.journal.cuts import end_of, first_of, frontier_at, holes
from antecede.journal.lookup import StreamName, locate
from antecede.journal.schema import open_for_reading
from antecede.journal.topics import candidates

T = TypeVar("T")

#: The journal in a node's directory.
FILE_NAME: Final = "journal.db"

#: Bytes of blocks taken at a time, about: enough to forget the cost of a statement, little beside a worker's memory.
CHUNK_BYTES: Final = 4 * 1024 * 1024


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
        self._connection = open_for_reading(self.path, None)
        try:
            facts = dict(self._connection.execute("SELECT name, value FROM facts").fetchall())
        except sqlite3.Error as error:
            self._connection.close()
            raise self._unreadable(error) from None
        self.cluster = str(facts.get("cluster", ""))
        #: −1: it has none yet.
        self.node = int(facts.get("node", -1))

    def __enter__(self) -> "JournalFile":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def extent(self) -> Extent:
        """As of now."""
        ((removed, last),) = self._rows(
            "SELECT (SELECT value FROM facts WHERE name = 'removed'), (SELECT max(last) FROM deliveries)"
        )
        return Extent(removed, removed if last is None else last)

    def before(self, time_us: int) -> int:
        """The position to read on from, for everything delivered at `time_us` or later.

        Clocks may be set: where times go back and forth, it lies before the first delivery of that time or later. So a
        reader may get earlier deliveries too, and misses none.
        """
        ((first,),) = self._rows("SELECT min(first) FROM deliveries WHERE time_us >= ?", time_us)
        return self.extent().position if first is None else first - 1

    def within(self, after: int, last: int, bytes_max: int) -> int:
        """The position up to which there are about `bytes_max` bytes behind `after`: whole batches, at most `last`."""
        size = 0
        reached = after
        try:
            for end, length in self._connection.execute(
                f"SELECT last, length(block) {_FROM} ORDER BY first", (after + 1,)
            ):
                if reached >= last or (reached > after and size + length > bytes_max):
                    break
                if end > after:
                    size += length
                    reached = end
        except sqlite3.Error as error:
            raise self._unreadable(error) from None
        return min(reached, last)

    def mean_size(self) -> int:
        """About how many bytes a stored message takes, by the last thousand batches."""
        ((size, count),) = self._rows(
            "SELECT coalesce(sum(length(block)), 0), coalesce(sum(last - first + 1), 0) FROM "
            "(SELECT first, last, block FROM deliveries ORDER BY first DESC LIMIT 1000)"
        )
        return size // max(1, count)

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

        def read(connection: sqlite3.Connection) -> tuple[list[Sealed], int]:
            self._check_range(after, last)
            chunk: list[Sealed] = []
            size = 0
            ranges, end = candidates(connection, after, last, filters)
            for begin, wanted in ranges:
                with closing(_blocks(connection, begin, wanted, partitions)) as rows:
                    for row in map(_plain, rows):
                        chunk.append(row)
                        size += len(row.block)
                        if size >= CHUNK_BYTES:
                            return chunk, min(last, row.last)
            return chunk, end

        return self._reading(read) if after < last else ([], after)

    def _check_range(self, after: int, last: int) -> None:
        removed, position = self.extent()
        if after < removed:
            raise GapError(after, removed + 1)
        if position < last:
            problem = f"ends at position {position}, before {last}"
            raise JournalError(str(self.path), problem, "name the journal that was read")

    def locate(self, wanted: Mapping[StreamName, int]) -> dict[StreamName, tuple[int, int]]:
        """`lookup.locate`."""
        return self._reading(lambda connection: locate(connection, wanted))

    def frontier_at(self, position: int, present: Mapping[StreamName, int]) -> dict[StreamName, int]:
        """`cuts.frontier_at`."""
        return self._reading(lambda connection: frontier_at(connection, position, present))

    def first_of(self, wanted: Mapping[StreamName, int], last: int) -> int:
        """`cuts.first_of`."""
        return self._reading(lambda connection: first_of(connection, wanted, last))

    def end_of(self, wanted: Mapping[StreamName, int]) -> int:
        """`cuts.end_of`."""
        return self._reading(lambda connection: end_of(connection, wanted))

    def holes(self, stream: StreamName, after: int, last: int) -> list[tuple[int, int]]:
        """`cuts.holes`."""
        return self._reading(lambda connection: holes(connection, *stream, after, last))

    def _reading(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """Call `read` with one state of the file: the node goes on writing and removing meanwhile."""
        try:
            self._connection.execute("BEGIN")
            try:
                return read(self._connection)
            finally:
                self._connection.execute("COMMIT")
        except (sqlite3.Error, DamagedError) as error:
            raise self._unreadable(error) from None

    def _rows(self, query: str, *values: int) -> list[tuple[int, ...]]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> JournalError:
        return JournalError(str(self.path), f"cannot be read ({error})", "read the journal of another node")


def _blocks(
    connection: sqlite3.Connection, after: int, last: int, partitions: Collection[str]
) -> Generator[tuple[int, int, int, bytes], None, None]:
    """The rows of deliveries behind position `after` up to `last`, of these partitions if any are named."""
    if not partitions:
        rows = connection.execute(
            f"SELECT first, last, time_us, block {_FROM} AND first <= ? AND last > ? ORDER BY first",
            (after + 1, last, after),
        )
        with closing(rows):
            yield from rows
        return
    begin = connection.execute("SELECT max(first) FROM deliveries WHERE first <= ?", (after + 1,)).fetchone()[0]
    marks = ", ".join("?" * len(partitions))
    places = connection.execute(
        f"SELECT DISTINCT at FROM ranges WHERE at >= ? AND at <= ? AND topic IN ({marks}) ORDER BY at",
        (begin or 0, last, *partitions),
    )
    with closing(places):
        for (place,) in places:
            row = connection.execute(
                "SELECT first, last, time_us, block FROM deliveries WHERE first = ? AND last > ?", (place, after)
            ).fetchone()
            if row is not None:
                yield row


def _plain(row: tuple[int, int, int, bytes]) -> Sealed:
    """A row of deliveries, its block not packed."""
    first, last, time_us, block = row
    return Sealed(first, last, time_us, plain_block(block))


#: From the batch that holds a position on.
_FROM: Final = "FROM deliveries WHERE first >= coalesce((SELECT max(first) FROM deliveries WHERE first <= ?), 0)"
