"""Finding messages by source and sequence number: which are where, for readers that came from another node.

These run in the journal's reading thread. They rest on the order of a journal: of each source the sequence numbers
rise with positions, so the messages of a source up to some number are those up to some position.
"""

import sqlite3
from collections.abc import Iterable, Mapping

from antecede.journal.blocks import decode_deliveries


def last_seqs(connection: sqlite3.Connection, topic: str, sources: Iterable[int]) -> dict[int, int]:
    """By source: the sequence number of the last message that was delivered here and is still stored."""
    found: dict[int, int] = {}
    for source in sources:
        row = connection.execute(
            "SELECT last_seq FROM ranges WHERE topic = ? AND source = ? ORDER BY first_seq DESC LIMIT 1",
            (topic, source),
        ).fetchone()
        if row is not None:
            found[source] = int(row[0])
    return found


def first_after(connection: sqlite3.Connection, topic: str, after: int, last: int) -> dict[int, int]:
    """By source: the lowest sequence number delivered at positions after `after`, up to about `last`."""
    rows = connection.execute(
        "SELECT first, last, block FROM deliveries WHERE first <= ? ORDER BY first DESC LIMIT 1", (after + 1,)
    ).fetchone()
    found: dict[int, int] = {}
    begin = after
    if rows is not None and rows[1] > after:  # a block that holds positions on both sides
        first, begin, block = rows
        for index, message in enumerate(decode_deliveries(block).messages):
            if first + index > after and message.topic == topic:
                found[message.source] = min(message.seq, found.get(message.source, message.seq))
    for source, seq in connection.execute(
        "SELECT source, min(first_seq) FROM ranges WHERE at > ? AND at <= ? AND topic = ? GROUP BY source",
        (begin, last, topic),
    ):
        found[source] = min(seq, found.get(source, seq))
    return found


def locate(connection: sqlite3.Connection, topic: str, wanted: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """Of each source, the first message here with at least this sequence number: its number, and a position before it.

    A source of which there is none is left out.
    """
    found: dict[int, tuple[int, int]] = {}
    for source, seq in wanted.items():
        row = connection.execute(
            "SELECT first_seq, at FROM ranges WHERE topic = ? AND source = ? AND last_seq >= ? "
            "ORDER BY first_seq LIMIT 1",
            (topic, source, seq),
        ).fetchone()
        if row is not None:
            found[source] = (max(seq, row[0]), row[1] - 1)
    return found
