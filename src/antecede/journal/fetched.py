"""Messages that a node fetched from others: the past of partitions of which it became a home.

They were delivered elsewhere before this node took the partition, so they have no position here: no replay by position
passes them, and the audit does not count them as deliveries. They are found by source and sequence number (`lookup`).

The table is made when the first message is stored. Versions that do not know it ignore it. Retention treats the time at
which a message was stored here as its age, and by size it removes fetched messages before deliveries.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

from antecede.core import Message
from antecede.journal.blocks import encode_deliveries

TABLE: Final = """
CREATE TABLE IF NOT EXISTS fetched (number INTEGER PRIMARY KEY, topic TEXT NOT NULL, source INTEGER NOT NULL,
    first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, ran_us INTEGER NOT NULL, block BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS fetched_by_seq ON fetched (topic, source, first_seq);
"""


def has_fetched(connection: sqlite3.Connection) -> bool:
    """Does the journal hold messages of this kind?"""
    row = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'fetched'").fetchone()
    return row is not None


def store_fetched(connection: sqlite3.Connection, messages: Sequence[Message], ran_us: int) -> None:
    """Store messages of one source on one topic, by sequence number, within a transaction."""
    if not has_fetched(connection):
        for statement in TABLE.split(";")[:-1]:
            connection.execute(statement)
    first, last = messages[0], messages[-1]
    connection.execute(
        "INSERT INTO fetched (topic, source, first_seq, last_seq, ran_us, block) VALUES (?, ?, ?, ?, ?, ?)",
        (first.topic, first.source, first.seq, last.seq, ran_us, encode_deliveries(list(messages), {}, pack=True)),
    )


def retain_fetched(connection: sqlite3.Connection, before_us: int | None, bytes_max: int | None) -> None:
    """Remove messages stored when the node had run for less than `before_us`, and the oldest above `bytes_max`."""
    if not has_fetched(connection):
        return
    if before_us is not None:
        connection.execute("DELETE FROM fetched WHERE ran_us < ?", (before_us,))
    if bytes_max is not None:
        (size,) = connection.execute("SELECT coalesce(sum(length(block)), 0) FROM fetched").fetchone()
        for number, length in connection.execute(
            "SELECT number, length(block) FROM fetched ORDER BY number"
        ).fetchall():
            if size <= bytes_max:
                break
            connection.execute("DELETE FROM fetched WHERE number = ?", (number,))
            size -= length
