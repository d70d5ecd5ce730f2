"""A journal as its readers see it: the tables, and the tail of the log that is not indexed yet, at one moment.

A view indexes the tail into tables of its own, in memory, and puts them behind those of the file. So readers ask for
`ranges` and `changes`, and get both parts. Journals of versions 1 to 3, which have no log, look the same through it.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from antecede.journal.blocks import DamagedError, StoredChange, decode_changes, open_block, seal_block
from antecede.journal.entries import Entry
from antecede.journal.index import TABLES, Gathering, Section, insert_rows
from antecede.journal.references import refers, resolve
from antecede.journal.segments import NO_END, LogReader

_TAIL: Final = "tail_index"

_VIEWS: Final = f"""
ATTACH ':memory:' AS {_TAIL};
{TABLES.format(schema=_TAIL)}
CREATE TEMP VIEW ranges AS SELECT * FROM main.ranges UNION ALL SELECT * FROM {_TAIL}.ranges;
CREATE TEMP VIEW changes AS SELECT * FROM main.changes UNION ALL SELECT * FROM {_TAIL}.changes;
"""

#: The first version with a log.
_LOG_VERSION: Final = 4

_OLD_SECTIONS: Final = """
CREATE TEMP VIEW sections AS SELECT first, last, first AS address, last AS end, length(block) AS bytes,
                                    time_us AS time_from, time_us AS time_to FROM main.deliveries;
"""


class StoredBatch(NamedTuple):
    """The deliveries of a batch as they are stored, at positions `first` to `last`."""

    first: int
    last: int
    time_us: int
    block: bytes


class KeptBlocks(NamedTuple):
    """Blocks of kept records: those of the table, and those of the log from address `begin` to `end`."""

    blocks: list[bytes]
    begin: int
    end: int
    #: The position of the last delivery before `end`.
    position: int
    #: Does this part of the log have neither deliveries nor publications?
    only: bool


class View:
    """Open one on a connection of its own. For one thread at a time."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, committed: Callable[[], int] = lambda: NO_END
    ) -> None:
        """`committed`: says up to which address the log may be read."""
        self.path = path
        self.execute = connection.execute
        self._connection = connection
        self.committed = committed
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        self._log: LogReader | None = None
        #: The last position removed by retention, and the last there is.
        self.removed = self.position = 0
        #: The address at which the log that retention has left begins.
        self.log_from = 0
        self._tail: list[Section] = []
        self._indexed_to = -1
        self._gathering = Gathering(0, 0)
        if version < _LOG_VERSION:
            connection.executescript(_OLD_SECTIONS)
            return
        connection.executescript(_VIEWS)
        (log,) = connection.execute("SELECT value FROM facts WHERE name = 'log'").fetchone()
        self._log = LogReader(path, bytes.fromhex(log))

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
        self._connection.close()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One state of the journal, while the node goes on writing and removing."""
        self.execute("BEGIN")
        try:
            self._look()
            yield
        finally:
            self.execute("COMMIT")

    def _look(self) -> None:
        facts = dict(self.execute("SELECT name, value FROM facts WHERE name IN ('removed', 'indexed_to', 'log_from')"))
        self.removed = int(facts["removed"])
        if self._log is None:
            (last,) = self.execute("SELECT max(last) FROM main.deliveries").fetchone()
            self.position = self.removed if last is None else int(last)
            return
        self.log_from = int(facts["log_from"])
        if facts["indexed_to"] != self._indexed_to:
            self._indexed_to = int(facts["indexed_to"])
            for table in ("sections", "ranges", "changes"):
                self.execute(f"DELETE FROM {_TAIL}.{table}")
            self._tail = []
            (self.position,) = self.execute("SELECT position FROM tail").fetchone()
            self._gathering = Gathering(self._indexed_to, self.position)
        begin = self._gathering.end
        for entry in self._log.scan(begin, self.position + 1, self.committed(), check=True, shown=True):
            self._gathering.add_entry(entry)
            self.position = entry.last
        rows = self._gathering.take()
        insert_rows(self._connection, rows, _TAIL)
        self._tail += rows.sections

    # -- sections ------------------------------------------------------------------------------------------------------

    def sections(self, after: int, last: int) -> Iterator[Section]:
        """The sections that hold positions behind `after` up to `last`."""
        for row in self.execute(
            "SELECT first, last, address, end, bytes, time_from, time_to FROM sections WHERE first >= coalesce("
            "(SELECT max(first) FROM sections WHERE first <= ?), 0) AND first <= ? ORDER BY first",
            (after + 1, last),
        ):
            section = Section(*row)
            if section.last > after:
                yield section
        for section in self._tail:
            if section.last > after and section.first <= last:
                yield section

    def section_at(self, position: int) -> Section | None:
        """The section that holds `position`."""
        return next(self.sections(position - 1, position), None)

    def newest_sections(self, count: int) -> list[Section]:
        """The last sections, newest first."""
        newest = self._tail[: -count - 1 : -1]
        rows = self.execute(
            "SELECT first, last, address, end, bytes, time_from, time_to FROM sections ORDER BY first DESC LIMIT ?",
            (count - len(newest),),
        )
        return newest + [Section(*row) for row in rows]

    def first_since(self, time_us: int) -> Section | None:
        """The first section with deliveries of this time or later."""
        row = self.execute(
            "SELECT first, last, address, end, bytes, time_from, time_to FROM sections WHERE time_to >= ?"
            " ORDER BY first LIMIT 1",
            (time_us,),
        ).fetchone()
        if row is not None:
            return Section(*row)
        return next((section for section in self._tail if section.time_to >= time_us), None)

    # -- deliveries, changes, kept records -----------------------------------------------------------------------------

    def batches(self, after: int, last: int) -> Iterator[StoredBatch]:
        """The batches that hold positions behind `after` up to `last`. Raises `DamagedError`, `SegmentGoneError`."""
        if self._log is None:
            for row in self.execute(
                "SELECT first, last, time_us, block FROM main.deliveries WHERE first >= coalesce((SELECT max(first) "
                "FROM main.deliveries WHERE first <= ?), 0) AND first <= ? AND last > ? ORDER BY first",
                (after + 1, last, after),
            ):
                yield StoredBatch(*row)
            return
        for section in self.sections(after, last):
            for entry in self._entries(section.address, section.first, section.end):
                if entry.first > last:
                    return
                if entry.block and entry.last > after:
                    yield StoredBatch(entry.first, entry.last, entry.time_us, entry.block)

    def changes(self) -> Iterator[tuple[int, int, StoredChange]]:
        """All changes in order: the position of the last delivery before it, the time, the change."""
        before = NO_END if self._log is None else self.log_from
        for position, time_us, block in self.execute(
            "SELECT position, time_us, block FROM main.changes WHERE number < ? ORDER BY number", (before,)
        ):
            for change in decode_changes(block):
                yield position + change.after, time_us, change
        if self._log is not None:
            for entry in self._entries(self.log_from, self.removed + 1, self._gathering.end, blocks=False):
                if entry.changes:
                    for change in decode_changes(seal_block(entry.changes), partial(self._kept_of, entry)):
                        yield entry.first - 1 + change.after, entry.time_us, change

    def kept(self) -> "KeptBlocks":
        """All kept records, oldest first."""
        blocks = [block for (block,) in self.execute("SELECT block FROM kept ORDER BY number")]
        facts = dict(self.execute("SELECT name, value FROM facts WHERE name IN ('kept_from', 'kept_at')"))
        begin, end, only = facts["kept_from"], self._gathering.end, True
        for entry in self._entries(begin, facts["kept_at"], end, blocks=False):
            if entry.kept:
                blocks.append(self._kept_of(entry))
            changes = decode_changes(seal_block(entry.changes)) if entry.changes else ()
            only = only and entry.last < entry.first and all(change.what != "publish" for change in changes)
        return KeptBlocks(blocks, begin, end, self.position, only)

    def _kept_of(self, entry: Entry) -> bytes:
        """The kept records of an entry without references, sealed. Reads its deliveries if they are needed."""
        kept = open_block(seal_block(entry.kept))
        if refers(kept) and not entry.block:
            (entry,) = self._entries(entry.address, entry.first, entry.end)
        return seal_block(resolve(kept, entry.block))

    def _entries(self, address: int, first: int, end: int, *, blocks: bool = True) -> Iterator[Entry]:
        """The entries of the log from `address` to `end`, all of which must be there."""
        assert self._log is not None
        reached = address
        for entry in self._log.scan(address, first, end, blocks=blocks):
            reached = entry.end
            yield entry
        if reached != end:
            raise DamagedError(f"its log is not whole at byte {reached}, and was written up to {end}")
