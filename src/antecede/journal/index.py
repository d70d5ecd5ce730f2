"""The index of a journal's log: which part of the log has which deliveries.

The index goes by *sections* of the log: some hundred kilobytes, in whole entries, within one segment. A section has a
row with its positions and addresses, and a row for each run of sequence numbers of a source on a topic. A reader finds
the section, and reads it.

Rows are gathered in memory as batches are appended, and written some megabytes at a time (`write_rows`). The log behind
the last row is its *tail*. Whoever opens a journal reads the tail, and indexes it for itself.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from antecede.journal.batch import Run
from antecede.journal.blocks import StoredChange, decode_changes, decode_lean, encode_changes, seal_block
from antecede.journal.entries import Entry

#: No semicolon but at the end of a statement: `migration` takes them apart.
TABLES: Final = """
-- Parts of the log with the deliveries at positions first to last, from byte address to byte end. There are no holes
-- between positions. `bytes` is the size of the deliveries. Their times lie between time_from and time_to.
CREATE TABLE {schema}.sections (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, address INTEGER NOT NULL,
                       end INTEGER NOT NULL, bytes INTEGER NOT NULL, time_from INTEGER NOT NULL,
                       time_to INTEGER NOT NULL);

-- Which section (its first position) holds which messages of a source, for retransmission by sequence number.
CREATE TABLE {schema}.ranges (topic TEXT NOT NULL, source INTEGER NOT NULL, first_seq INTEGER NOT NULL,
                     last_seq INTEGER NOT NULL, at INTEGER NOT NULL,
                     PRIMARY KEY (topic, source, first_seq)) WITHOUT ROWID;
CREATE INDEX {schema}.ranges_at ON ranges (at);

-- Memberships, stops, crashes and recoveries, which stay when retention removes the log. `number` is the address of
-- their entry, `position` that of the last delivery before the batch. Publications are in the log only.
CREATE TABLE {schema}.changes (number INTEGER PRIMARY KEY, position INTEGER NOT NULL, time_us INTEGER NOT NULL,
                      membership INTEGER NOT NULL, block BLOB NOT NULL);
"""

#: Bytes of the log in a section, at least. A look-up reads a section; each costs some rows.
SECTION_BYTES: Final = 256 * 1024

#: The journal indexes its tail when the tail has so many deliveries, or so many bytes. A longer tail costs each reader
#: that opens the journal more time: some milliseconds with these. A shorter one is indexed more often, and each time
#: costs a sync of the log and a transaction: about a millisecond.
TAIL_DELIVERIES: Final = 16_384
TAIL_BYTES: Final = 8 * 1024 * 1024


class Named(Protocol):
    """What the index needs of a message."""

    @property
    def topic(self) -> str: ...
    @property
    def source(self) -> int: ...
    @property
    def seq(self) -> int: ...


class Section(NamedTuple):
    first: int
    last: int
    address: int
    end: int
    bytes: int
    time_from: int
    time_to: int


class Rows(NamedTuple):
    """What to write into the index, for the log up to address `end`, which has the deliveries up to `position`."""

    begin: int
    end: int
    position: int
    sections: list[Section]
    ranges: list[tuple[str, int, int, int, int]]
    changes: list[tuple[int, int, int, bytes]]


class Gathering:
    """Gathers the rows of entries that follow each other, from address `end` and behind `position` on."""

    def __init__(self, end: int, position: int) -> None:
        self._begin = self.end = end
        self._indexed = position
        #: The position of the last delivery.
        self.position = position
        self._sections: list[Section] = []
        self._ranges: list[tuple[str, int, int, int, int]] = []
        self._changes: list[tuple[int, int, int, bytes]] = []
        # The section that gathers; None: no delivery since the last one.
        self._section: Section | None = None
        self._runs: dict[tuple[str, int], tuple[int, int]] = {}

    @property
    def due(self) -> bool:
        """Is there enough to be written?"""
        return self.end - self._begin >= TAIL_BYTES or self.position - self._indexed >= TAIL_DELIVERIES

    def add(
        self,
        address: int,
        end: int,
        first: int,
        time_us: int,
        messages: Sequence[Named],
        size: int,
        changes: bytes,
        runs: Sequence[Run] = (),
    ) -> None:
        """Take an entry.

        `size`: bytes of its deliveries; `changes`: those to index, sealed; empty: there are none. `runs`: where they
        make up all deliveries, these are not looked at one by one.
        """
        if changes:
            self._changes.append((address, first - 1, time_us, changes))
        section = self._section
        if section is not None and (address != section.end or section.end - section.address >= SECTION_BYTES):
            self._close()
            section = None
        self.end = end
        last = self.position = first + len(messages) - 1
        if section is not None:
            begin, _, address, _, before, time_from, time_to = section
            if messages:
                time_from, time_to = min(time_from, time_us), max(time_to, time_us)
            self._section = Section(begin, last, address, end, before + size, time_from, time_to)
        elif messages:
            self._section = section = Section(first, last, address, end, size, time_us, time_us)
        if messages:
            assert section is not None
            if sum([run.length for run in runs]) == len(messages):
                for run in runs:
                    one = messages[run.after]
                    self._add_run((one.topic, one.source), one.seq, one.seq + run.length - 1, section.first)
            else:
                self._add_runs(messages, section.first)

    def add_entry(self, entry: Entry) -> None:
        """`add`, from an entry of the log. Raises `DamagedError`."""
        messages = decode_lean(entry.block).messages if entry.block else ()
        changes = b""
        if entry.changes:
            changes = membership_block(decode_changes(seal_block(entry.changes)))
        self.add(entry.address, entry.end, entry.first, entry.time_us, messages, len(entry.block), changes)

    def take(self) -> Rows:
        """The rows gathered since the last call."""
        self._close()
        rows = Rows(self._begin, self.end, self.position, self._sections, self._ranges, self._changes)
        self._begin, self._indexed = self.end, self.position
        self._sections, self._ranges, self._changes = [], [], []
        return rows

    def _close(self) -> None:
        if self._section is not None:
            self._sections.append(self._section)
            at = self._section.first
            self._ranges += [(*stream, *run, at) for stream, run in self._runs.items()]
            self._section = None
            self._runs.clear()

    def _add_runs(self, messages: Sequence[Named], at: int) -> None:
        """Runs of consecutive sequence numbers. Messages in order make them long."""
        topic, source, first, last = messages[0].topic, messages[0].source, messages[0].seq, messages[0].seq - 1
        for message in messages:
            if message.seq == last + 1 and message.source == source and message.topic == topic:
                last += 1
                continue
            self._add_run((topic, source), first, last, at)
            topic, source, first = message.topic, message.source, message.seq
            last = first
        self._add_run((topic, source), first, last, at)

    def _add_run(self, stream: tuple[str, int], first: int, last: int, at: int) -> None:
        run = self._runs.get(stream)
        if run is not None:
            if first == run[1] + 1:
                first = run[0]
            else:
                self._ranges.append((*stream, *run, at))
        self._runs[stream] = (first, last)


def membership_block(changes: Sequence[StoredChange]) -> bytes:
    """The changes that are no publications, as a sealed block; empty: there are none."""
    found = [change for change in changes if change.what != "publish"]
    return encode_changes(found) if found else b""


def insert_rows(connection: sqlite3.Connection, rows: Rows, schema: str = "main") -> None:
    """Write the rows into the tables of `schema`, within a transaction."""
    if rows.sections:
        connection.executemany(f"INSERT INTO {schema}.sections VALUES (?, ?, ?, ?, ?, ?, ?)", rows.sections)
        connection.executemany(f"INSERT OR REPLACE INTO {schema}.ranges VALUES (?, ?, ?, ?, ?)", rows.ranges)
    if rows.changes:
        connection.executemany(f"INSERT INTO {schema}.changes VALUES (?, ?, ?, 1, ?)", rows.changes)


def write_rows(connection: sqlite3.Connection, rows: Rows) -> None:
    """Write the rows, and how far the index reaches, within a transaction. The log must be on the disk up to there."""
    (begin,) = connection.execute("SELECT value FROM facts WHERE name = 'indexed_to'").fetchone()
    assert begin == rows.begin, "an earlier part of the log was not indexed"
    insert_rows(connection, rows)
    connection.execute("UPDATE facts SET value = ? WHERE name = 'indexed_to'", (rows.end,))
    connection.execute(
        "UPDATE tail SET position = ?, changes = coalesce((SELECT max(number) FROM main.changes), 0)", (rows.position,)
    )
