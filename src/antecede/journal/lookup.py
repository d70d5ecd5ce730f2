"""Finding messages by source and sequence number: which are where, for readers that came from another node.

These run in the journal's reading thread. They rest on the order of a journal: of each source on a topic the sequence
numbers rise with positions, so its messages up to some number are those up to some position.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from antecede.journal.blocks import decode_deliveries

#: (topic, source).
StreamName: TypeAlias = tuple[str, int]


def last_seqs(connection: sqlite3.Connection, streams: Iterable[StreamName]) -> dict[StreamName, int]:
    """By topic and source: the sequence number of the last message that was delivered here and is still stored."""
    found: dict[StreamName, int] = {}
    for topic, source in streams:
        row = connection.execute(
            "SELECT last_seq FROM ranges WHERE topic = ? AND source = ? ORDER BY first_seq DESC LIMIT 1",
            (topic, source),
        ).fetchone()
        if row is not None:
            found[topic, source] = int(row[0])
    return found


def first_after(connection: sqlite3.Connection, after: int, last: int) -> dict[StreamName, int]:
    """By topic and source: the lowest sequence number delivered at positions after `after`, up to about `last`."""
    rows = connection.execute(
        "SELECT first, last, block FROM deliveries WHERE first <= ? ORDER BY first DESC LIMIT 1", (after + 1,)
    ).fetchone()
    found: dict[StreamName, int] = {}
    begin = after
    if rows is not None and rows[1] > after:  # a block that holds positions on both sides
        first, begin, block = rows
        for index, message in enumerate(decode_deliveries(block).messages):
            if first + index > after:
                stream = (message.topic, message.source)
                found[stream] = min(message.seq, found.get(stream, message.seq))
    for topic, source, seq in connection.execute(
        "SELECT topic, source, min(first_seq) FROM ranges WHERE at > ? AND at <= ? GROUP BY topic, source",
        (begin, last),
    ):
        found[topic, source] = min(seq, found.get((topic, source), seq))
    return found


def locate(connection: sqlite3.Connection, wanted: Mapping[StreamName, int]) -> dict[StreamName, tuple[int, int]]:
    """By topic and source: the first message with at least this sequence number: its number, a position before it.

    A source of which there is none is left out.
    """
    found: dict[StreamName, tuple[int, int]] = {}
    for (topic, source), seq in wanted.items():
        row = connection.execute(
            "SELECT first_seq, at FROM ranges WHERE topic = ? AND source = ? AND last_seq >= ? "
            "ORDER BY first_seq LIMIT 1",
            (topic, source, seq),
        ).fetchone()
        if row is not None:
            found[topic, source] = (max(seq, row[0]), row[1] - 1)
    return found
