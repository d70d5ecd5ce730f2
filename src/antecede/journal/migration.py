"""Brings the tables of an earlier version up to this one, step by step.

Each step and the version it leads to are one transaction: a process that is killed in the middle leaves the journal as
it was, and the next one begins the step again. Steps know the formats of their time by themselves, not through classes
that have moved on since.

    1  kept records stored as pairs (name of the Python class, record)
    2  kept records stored by their tags alone; where the tables end is written beside them; age is running time
    3  blocks may be packed (`blocks`)
    4  batches are in a log beside the tables (`segments`), which hold its index; kept records since compaction, too
    5  kept records in the log may refer to deliveries of their batch (`references`)
    6  kept records in the log may be packed with a dictionary (`words`)
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from antecede.core.errors import JournalError
from antecede.journal.blocks import DamagedError, open_block, seal_block
from antecede.journal.entries import decode_entries, encode_entry
from antecede.journal.index import TABLES as INDEX
from antecede.journal.index import Gathering, write_rows
from antecede.journal.segments import HEAD_BYTES, LogWriter, create_segment, segment_bases, segment_path

#: Of the tables in `schema`. Stored as SQLite's `user_version`.
VERSION: Final = 6

#: Tables of version 2.
TAIL_AND_AGES: Final = """
-- One row: where the tables above end, written with them. A table that ends elsewhere has lost rows.
CREATE TABLE tail (position INTEGER NOT NULL, kept_first INTEGER NOT NULL, kept INTEGER NOT NULL,
                   changes INTEGER NOT NULL);

-- When the node had run for `ran_us`, the deliveries up to `position` were there: retention by age goes by it.
CREATE TABLE ages (ran_us INTEGER PRIMARY KEY, position INTEGER NOT NULL);
"""

_encode = msgspec.msgpack.Encoder().encode
_pairs = msgspec.msgpack.Decoder(list[tuple[str, msgspec.Raw]])

#: Records that version 1 stored without a tag, by the name it gave them. All others began with their tag already.
_UNTAGGED: Final = {"Life": "diagnosis.life"}


def bring_up(connection: sqlite3.Connection, path: Path) -> None:
    """Take every step from the journal's version to this one. Raises `JournalError`, and `sqlite3.Error`."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    while version < VERSION:
        connection.execute("BEGIN IMMEDIATE")
        try:
            _STEPS[version](connection, path)
            version += 1
            connection.execute(f"PRAGMA user_version={version}")
        except BaseException as error:
            connection.execute("ROLLBACK")
            if isinstance(error, DamagedError | msgspec.DecodeError):
                problem = f"cannot be brought up from version {version} ({error})"
                raise JournalError(str(path), problem, "use the antecede that wrote it") from None
            raise
        connection.execute("COMMIT")
        connection.execute("PRAGMA incremental_vacuum").fetchall()


def _to_2(connection: sqlite3.Connection, path: Path) -> None:
    """1 to 2: drop the class names, give records without a tag theirs; add the new tables as things stand."""
    numbers = [number for (number,) in connection.execute("SELECT number FROM kept ORDER BY number")]
    for number in numbers:  # one block at a time: all of them may be more than fits memory
        (block,) = connection.execute("SELECT block FROM kept WHERE number = ?", (number,)).fetchone()
        records = [_tagged(name, record) for name, record in _pairs.decode(open_block(block))]
        connection.execute("UPDATE kept SET block = ? WHERE number = ?", (seal_block(_encode(records)), number))
    for statement in TAIL_AND_AGES.split(";"):
        connection.execute(statement)
    connection.execute(
        "INSERT INTO tail SELECT coalesce((SELECT max(last) FROM deliveries), (SELECT value FROM facts WHERE name ="
        " 'removed')), (SELECT coalesce(min(number), 1) FROM kept), (SELECT coalesce(max(number), 0) FROM kept),"
        " (SELECT coalesce(max(number), 0) FROM changes)"
    )
    connection.execute("INSERT INTO facts VALUES ('ran_us', 0)")


def _to_3(connection: sqlite3.Connection, path: Path) -> None:
    """2 to 3: blocks stay as they are. The number keeps an earlier antecede from taking packed ones for damaged."""


def _to_4(connection: sqlite3.Connection, path: Path) -> None:
    """3 to 4: write deliveries and changes as a log, and its index in place of their tables.

    The log is on the disk before the transaction ends. A process that is killed in between leaves segments that no
    table knows; the next one writes them anew.
    """
    facts = dict(connection.execute("SELECT name, value FROM facts WHERE name IN ('removed', 'clean')").fetchall())
    removed = int(facts["removed"])
    for base in segment_bases(path):
        segment_path(path, base).unlink()
    name = os.urandom(16)
    os.close(create_segment(path, name, 0))
    log = LogWriter(path, name, HEAD_BYTES, 0)
    index = Gathering(HEAD_BYTES, removed)
    try:
        for first, count, time_us, changes, block in _batches_3(connection, removed):
            data = encode_entry(first, count, time_us, b"", changes, block)
            (entry,) = decode_entries(data, log.append(data), first)
            index.add_entry(entry)
        log.sync()
    finally:
        log.close()
    rows = index.take()
    # Memberships from before what retention left come before the log.
    old = connection.execute(
        "SELECT number - 1 - (SELECT max(number) FROM changes), position, time_us, membership, block FROM changes "
        "WHERE position < ? ORDER BY number",
        (removed,),
    ).fetchall()
    for table in ("deliveries", "ranges", "changes"):
        connection.execute(f"DROP TABLE {table}")
    for statement in INDEX.format(schema="main").split(";")[:-1]:
        connection.execute(statement)
    connection.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", old)
    end = rows.end
    connection.executemany(
        "INSERT OR REPLACE INTO facts VALUES (?, ?)",
        [
            ("clean", end if facts["clean"] else 0),
            ("log", name.hex()),
            ("indexed_to", HEAD_BYTES),
            ("log_from", HEAD_BYTES),
            ("kept_from", end),
            ("kept_at", rows.position + 1),
        ],
    )
    write_rows(connection, rows)


def _to_5(connection: sqlite3.Connection, path: Path) -> None:
    """4 to 5: the log stays as it is. The number keeps an earlier antecede from taking references for damage."""


def _to_6(connection: sqlite3.Connection, path: Path) -> None:
    """5 to 6: the log stays as it is. The number keeps an earlier antecede from taking packed records for damage."""


def _batches_3(connection: sqlite3.Connection, removed: int) -> Iterator[tuple[int, int, int, bytes, bytes]]:
    """Batches of version 3 in order: first position, deliveries, time, changes without their seal, sealed deliveries.

    Changes go before the deliveries of their batch: their positions do not depend on it.
    """
    changes = connection.execute(
        "SELECT position, time_us, block FROM changes WHERE position >= ? ORDER BY number", (removed,)
    )
    change = changes.fetchone()
    position = removed
    for first, last, time_us, block in connection.execute(
        "SELECT first, last, time_us, block FROM deliveries ORDER BY first"
    ):
        while change is not None and change[0] < first:
            yield first, 0, change[1], change[2][:-4], b""
            change = changes.fetchone()
        yield first, last - first + 1, time_us, b"", block
        position = last
    while change is not None:
        yield position + 1, 0, change[1], change[2][:-4], b""
        change = changes.fetchone()


def _tagged(name: str, record: msgspec.Raw) -> object:
    if name not in _UNTAGGED:
        return record
    return [_UNTAGGED[name], *msgspec.msgpack.decode(record, type=list[object])]


#: By the version they start from.
_STEPS: Final[dict[int, Callable[[sqlite3.Connection, Path], None]]] = {
    1: _to_2,
    2: _to_3,
    3: _to_4,
    4: _to_5,
    5: _to_6,
}
