"""Brings the tables of an earlier version up to this one, step by step.

Each step and the version it leads to are one transaction: a process that is killed in the middle leaves the journal as
it was, and the next one begins the step again. Steps know the formats of their time by themselves, not through classes
that have moved on since.

    1  kept records stored as pairs (name of the Python class, record)
    2  kept records stored by their tags alone; where the tables end is written beside them; age is running time
    3  blocks may be packed (`blocks`)
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from antecede.core.errors import JournalError
from antecede.journal.blocks import DamagedError, open_block, seal_block

#: Of the tables in `schema`. Stored as SQLite's `user_version`.
VERSION: Final = 3

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
            _STEPS[version](connection)
            version += 1
            connection.execute(f"PRAGMA user_version={version}")
        except BaseException as error:
            connection.execute("ROLLBACK")
            if isinstance(error, DamagedError | msgspec.DecodeError):
                problem = f"cannot be brought up from version {version} ({error})"
                raise JournalError(str(path), problem, "use the antecede that wrote it") from None
            raise
        connection.execute("COMMIT")


def _to_2(connection: sqlite3.Connection) -> None:
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


def _to_3(connection: sqlite3.Connection) -> None:
    """2 to 3: blocks stay as they are. The number keeps an earlier antecede from taking packed ones for damaged."""


def _tagged(name: str, record: msgspec.Raw) -> object:
    if name not in _UNTAGGED:
        return record
    return [_UNTAGGED[name], *msgspec.msgpack.decode(record, type=list[object])]


#: By the version they start from.
_STEPS: Final[dict[int, Callable[[sqlite3.Connection], None]]] = {1: _to_2, 2: _to_3}
