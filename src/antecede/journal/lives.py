"""Whose journal it is, and the lives of its node: each opening is one, counted by the incarnation.

A life ends with a stop, written when the journal is closed, or with a crash, written when it is opened the next time.
"""

import sqlite3
from pathlib import Path
from typing import NamedTuple

from antecede.core.errors import JournalError
from antecede.journal.blocks import SEAL_BYTES, StoredChange, encode_changes
from antecede.journal.entries import encode_entry
from antecede.journal.index import Gathering
from antecede.journal.schema import REPLACE_NODE
from antecede.journal.segments import LogWriter


class Identity(NamedTuple):
    """Whose journal it is."""

    cluster: str
    #: The node's slot; −1 until it has one.
    node: int
    #: Drawn at random by the node when it was new, and told to its cluster: what makes the slot its own. −1: none yet.
    key: int
    #: How often this journal was opened.
    incarnation: int


def begin_life(connection: sqlite3.Connection, path: Path, cluster: str) -> tuple[Identity, int]:
    """Count a life; the address at which the last one stopped its log, 0: it did not.

    Committed to the disk itself: an incarnation is used once.
    """
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
    connection.executemany(
        "INSERT OR REPLACE INTO facts VALUES (?, ?)",
        [("cluster", cluster), ("incarnation", incarnation), ("clean", 0)],
    )
    connection.execute("COMMIT")
    return Identity(cluster, int(facts.get("node", -1)), int(facts.get("key", -1)), incarnation), int(facts["clean"])


def beginning(incarnation: int, *, clean: bool) -> list[StoredChange]:
    """The changes with which a life begins; `clean`: the one before ended with a stop."""
    if incarnation == 1:
        return []
    return [StoredChange(0, what, "") for what in (("recover",) if clean else ("crash", "recover"))]


def append_changes(log: LogWriter, index: Gathering, time_us: int, changes: list[StoredChange]) -> None:
    """Append changes of a life, as a batch of their own behind the last delivery."""
    block = encode_changes(changes)
    entry = encode_entry(index.position + 1, 0, time_us, b"", block[:-SEAL_BYTES], b"")
    address = log.append(entry)
    index.add(address, address + len(entry), index.position + 1, time_us, (), 0, block)


def end_life(connection: sqlite3.Connection, end: int, ran_us: int) -> None:
    """Note a clean stop, which ends the log at address `end`, within a transaction."""
    connection.execute("UPDATE facts SET value = ? WHERE name = 'clean'", (end,))
    connection.execute("UPDATE facts SET value = ? WHERE name = 'ran_us'", (ran_us,))
