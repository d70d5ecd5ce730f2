"""Retention: removes deliveries by age and by size, and keeps what readers and peers still need.

Whole batches are removed, oldest first. The file of a segment goes when all of it was removed, and the kept records in
it are in the table (`Journal.compact_kept`). A named cursor holds back what its reader has not read; the node holds
back what its peers may still ask for (`needed_from`). When age or size call for more, the answer names what held it
back and at which position: a reader that never comes back is for an operator to decide.

A node that publishes in partitions which it does not take has publications in its log and no deliveries: nothing that a
reader is given. Their segments go by the same bounds (`_pass_publications`).

Age is the time that the node has been running since the delivery. A wrong clock ages nothing, and neither does a time
for which the node was off. Each call notes the running time and the last position; what was there `age_us` ago by these
notes may go.
"""

import sqlite3
from collections.abc import Iterator
from typing import Final

import msgspec

from antecede.journal.blocks import DamagedError
from antecede.journal.entries import Entry
from antecede.journal.fetched import retain_fetched
from antecede.journal.index import Gathering, Section, insert_rows
from antecede.journal.joins import forget_joins
from antecede.journal.segments import NO_END, LogReader, SegmentGoneError
from antecede.journal.topics import forget_spans

#: Notes of age that are kept: deliveries stay longer than asked by up to this part of the age.
_NOTES: Final = 256


#: When the node had run for `ran_us`, the segment that begins at `base` was there: what lies before it is older. Made
#: with the first row. Versions that do not know it ignore it.
_SEGMENTS: Final = "CREATE TABLE IF NOT EXISTS segments (base INTEGER PRIMARY KEY, ran_us INTEGER NOT NULL)"


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of a journal. None: no bound of that kind."""

    #: Of running time.
    age_us: int | None = None
    #: Of the stored deliveries; the files are larger by tables, kept records, and up to a segment that was removed.
    bytes_max: int | None = None


class Retained(msgspec.Struct, frozen=True, kw_only=True):
    """What a call of `retain` did."""

    #: The last position removed, now or before.
    removed: int
    #: Deliveries and bytes removed now.
    deliveries: int
    bytes: int
    #: Bytes of deliveries that are left.
    bytes_left: int
    #: What held back a removal, and the last position it allows to remove: cursors by name, and "node".
    held_back: dict[str, int]


def retain(
    connection: sqlite3.Connection,
    log: LogReader,
    wanted: Retention,
    ran_us: int,
    needed_from: int | None,
    stored_bytes: int,
) -> Retained:
    """Remove what `wanted` calls for, within a transaction; all of it is indexed. `ran_us`: how long the node has run.

    Raises `DamagedError`.
    """
    cut = max(_cut_by_age(connection, wanted, ran_us), _cut_by_size(connection, log, wanted, stored_bytes))
    holders = dict(connection.execute("SELECT name, position FROM cursors").fetchall())
    if needed_from is not None:
        holders["node"] = needed_from - 1
    held_back = {name: position for name, position in sorted(holders.items()) if position < cut}
    allowed = min([cut, *held_back.values()])
    (before,) = connection.execute("SELECT value FROM facts WHERE name = 'removed'").fetchone()
    removed, freed = _remove(connection, log, allowed)
    if removed is None:
        removed = before
    else:
        forget_joins(connection, removed)
        forget_spans(connection, removed)
        connection.execute("PRAGMA incremental_vacuum(4000)").fetchall()  # in steps: the file shrinks over time
    _pass_publications(connection, log, wanted, ran_us)
    before_us = None if wanted.age_us is None else ran_us - wanted.age_us
    room = None if wanted.bytes_max is None else max(0, wanted.bytes_max - stored_bytes + freed)
    retain_fetched(connection, before_us, room)
    return Retained(
        removed=removed,
        deliveries=removed - before,
        bytes=freed,
        bytes_left=stored_bytes - freed,
        held_back=held_back,
    )


def _remove(connection: sqlite3.Connection, log: LogReader, allowed: int) -> tuple[int | None, int]:
    """Remove the batches that end at position `allowed` or before; the last position removed, and their bytes."""
    removed: int | None = None
    freed = 0
    address = 0
    whole: Section | None = None
    for section in list(_sections(connection, allowed)):
        if section.last <= allowed:
            whole, removed, freed = section, section.last, freed + section.bytes
            continue
        left = Gathering(section.address, section.first - 1)
        for entry in _entries(log, section):
            if entry.last <= allowed and entry.block:
                removed, address, freed = entry.last, entry.end, freed + len(entry.block)
                left = Gathering(entry.end, entry.last)
            else:
                left.add_entry(entry)
        if address > section.address:  # the rest becomes a section of its own
            connection.execute("DELETE FROM sections WHERE first = ?", (section.first,))
            connection.execute("DELETE FROM ranges WHERE at = ?", (section.first,))
            insert_rows(connection, left.take()._replace(changes=[]))
    if whole is not None and removed == whole.last:  # publications may follow the last delivery
        address = next(entry.end for entry in reversed(_entries(log, whole)) if entry.block)
    if removed is not None:
        connection.execute("DELETE FROM sections WHERE last <= ?", (removed,))
        connection.execute("DELETE FROM ranges WHERE at <= ?", (removed,))
        connection.execute("UPDATE facts SET value = ? WHERE name = 'removed'", (removed,))
        connection.execute("UPDATE facts SET value = ? WHERE name = 'log_from'", (address,))
    return removed, freed


def _pass_publications(connection: sqlite3.Connection, log: LogReader, wanted: Retention, ran_us: int) -> None:
    """Let the log begin behind segments without deliveries that are old enough, or more than there may be."""
    facts = dict(
        connection.execute("SELECT name, value FROM facts WHERE name IN ('log_from', 'indexed_to')").fetchall()
    )
    (first,) = connection.execute("SELECT min(address) FROM sections").fetchone()
    end = facts["indexed_to"] if first is None else first
    bases = [base for base in log.bases() if facts["log_from"] < base <= end]
    if not bases:
        return
    connection.execute(_SEGMENTS)
    connection.executemany("INSERT OR IGNORE INTO segments VALUES (?, ?)", [(base, ran_us) for base in bases])
    begun = dict(connection.execute("SELECT base, ran_us FROM segments").fetchall())
    passed = [
        base
        for base in bases
        if (wanted.age_us is not None and begun[base] <= ran_us - wanted.age_us)
        or (wanted.bytes_max is not None and end - base >= wanted.bytes_max)
    ]
    begin = max([facts["log_from"], *passed])
    connection.execute("UPDATE facts SET value = ? WHERE name = 'log_from'", (begin,))
    connection.execute("DELETE FROM segments WHERE base <= ?", (begin,))


def needed_address(connection: sqlite3.Connection) -> int:
    """The address before which neither deliveries nor kept records are needed from the log."""
    rows = connection.execute("SELECT value FROM facts WHERE name IN ('log_from', 'kept_from')").fetchall()
    return min([int(address) for (address,) in rows])


def _cut_by_age(connection: sqlite3.Connection, wanted: Retention, ran_us: int) -> int:
    """The last position old enough to be removed; 0: none. Notes how far the journal is by now."""
    connection.execute("UPDATE facts SET value = ? WHERE name = 'ran_us'", (ran_us,))
    if wanted.age_us is None:
        return 0
    (noted,) = connection.execute("SELECT max(ran_us) FROM ages").fetchone()
    if noted is None or ran_us - noted >= wanted.age_us // _NOTES:
        connection.execute("INSERT OR REPLACE INTO ages SELECT ?, position FROM tail", (ran_us,))
    old, cut = connection.execute(
        "SELECT max(ran_us), coalesce(max(position), 0) FROM ages WHERE ran_us <= ?", (ran_us - wanted.age_us,)
    ).fetchone()
    connection.execute("DELETE FROM ages WHERE ran_us < ?", (old,))
    return int(cut)


def _cut_by_size(connection: sqlite3.Connection, log: LogReader, wanted: Retention, stored_bytes: int) -> int:
    if wanted.bytes_max is None:
        return 0
    excess = stored_bytes - wanted.bytes_max
    cut = 0
    if excess > 0:
        for section in _sections(connection, NO_END):
            if section.bytes < excess:
                cut, excess = section.last, excess - section.bytes
                continue
            for entry in _entries(log, section):
                cut, excess = entry.last, excess - len(entry.block)
                if excess <= 0:
                    return cut
    return cut


def _sections(connection: sqlite3.Connection, last: int) -> Iterator[Section]:
    """The sections that begin at position `last` or before, oldest first."""
    rows = connection.execute(
        "SELECT first, last, address, end, bytes, time_from, time_to FROM sections WHERE first <= ? ORDER BY first",
        (last,),
    )
    return (Section(*row) for row in rows)


def _entries(log: LogReader, section: Section) -> list[Entry]:
    try:
        found = list(log.scan(section.address, section.first, section.end))
    except SegmentGoneError:
        raise DamagedError("a part of its log is missing") from None
    if not found or found[-1].end != section.end:
        raise DamagedError("a part of its log is not whole")
    return found
