"""Whose journal it is, and the lives of its node: each opening is one, counted by the incarnation.

A life ends with a stop, written when the journal is closed, or with a crash, written when it is opened the next time.
"""

import sqlite3
from pathlib import Path
from typing import NamedTuple

from antecede.core.errors import JournalError
from antecede.journal.blocks import StoredChange, encode_changes
from antecede.journal.schema import REPLACE_NODE


class Identity(NamedTuple):
    """Whose journal it is."""

    cluster: str
    #: The node's slot; −1 until it has one.
    node: int
    #: Drawn at random by the node when it was new, and told to its cluster: what makes the slot its own. −1: none yet.
    key: int
    #: How often this journal was opened.
    incarnation: int


def begin_life(connection: sqlite3.Connection, path: Path, cluster: str, now_us: int) -> Identity:
    """Count a life, and note how the one before ended. Committed to the disk itself: an incarnation is used once."""
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("BEGIN IMMEDIATE")
    facts = dict(connection.execute("SELECT name, value FROM facts").fetchall())
    owner = facts.get("cluster", cluster)
    if owner != cluster:
        connection.execute("ROLLBACK")
        problem = f"belongs to cluster {owner!r}, not {cluster!r}"
        raise JournalError(str(path), problem, "name that cluster, or give this node a directory of its own")
    if "given_up" in facts:
        connection.execute("ROLLBACK")
        raise JournalError(str(path), f"was given up: {facts['given_up']}", REPLACE_NODE)
    incarnation = int(facts["incarnation"]) + 1
    if incarnation > 1:
        if not facts["clean"]:
            _note(connection, now_us, "crash")
        _note(connection, now_us, "recover")
    connection.executemany(
        "INSERT OR REPLACE INTO facts VALUES (?, ?)",
        [("cluster", cluster), ("incarnation", incarnation), ("clean", 0)],
    )
    connection.execute("COMMIT")
    return Identity(cluster, int(facts.get("node", -1)), int(facts.get("key", -1)), incarnation)


def end_life(connection: sqlite3.Connection, now_us: int, ran_us: int) -> None:
    """Note a clean stop, within a transaction."""
    _note(connection, now_us, "stop")
    connection.execute("UPDATE facts SET value = 1 WHERE name = 'clean'")
    connection.execute("UPDATE facts SET value = ? WHERE name = 'ran_us'", (ran_us,))


def _note(connection: sqlite3.Connection, time_us: int, what: str) -> None:
    """Write a change behind the last delivery that is committed."""
    (position,) = connection.execute("SELECT position FROM tail").fetchone()
    number = insert_changes(connection, position, time_us, [StoredChange(0, what, "")])
    connection.execute("UPDATE tail SET changes = ?", (number,))


def insert_changes(connection: sqlite3.Connection, position: int, time_us: int, changes: list[StoredChange]) -> int:
    """Write changes of a batch behind `position`; the number of their row, for the tail."""
    membership = any(change.what != "publish" for change in changes)
    row = connection.execute(
        "INSERT INTO changes (position, time_us, membership, block) VALUES (?, ?, ?, ?)",
        (position, time_us, membership, encode_changes(changes)),
    )
    assert row.lastrowid is not None
    return row.lastrowid
