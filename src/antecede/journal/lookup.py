"""Finding messages by source and sequence number: which are where, for readers that came from another node.

These run in the journal's reading thread. They rest on the order of a journal: of each source on a topic the sequence
numbers rise with positions, so its messages up to some number are those up to some position.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from antecede.core import Message
from antecede.journal.blocks import decode_deliveries

#: (topic, source).
StreamName: TypeAlias = tuple[str, int]


class Stretch(NamedTuple):
    """Messages of one source on one topic, by sequence number."""

    messages: list[Message]
    #: Numbers up to this one that are not among the messages are not in the journal.
    reached: int


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


#: Blocks that may hold messages with numbers from :first to :last: the table, the block's key, its first number.
_WITHIN: Final = (
    "SELECT {key}, first_seq FROM {table} WHERE topic = :topic AND source = :source AND first_seq <= :last "
    "AND last_seq >= :first AND first_seq >= coalesce((SELECT max(first_seq) FROM {table} "
    "WHERE topic = :topic AND source = :source AND first_seq <= :first), 0)"
)


def stretch(
    connection: sqlite3.Connection,
    topic: str,
    source: int,
    first: int,
    last: int,
    bytes_max: int,
    *,
    fetched: bool = False,
) -> Stretch:
    """The messages `first` to `last` of a source: about `bytes_max` bytes of payload, and at least one message.

    `fetched`: look also among those that were fetched from other nodes.
    """
    wanted = {"topic": topic, "source": source, "first": first, "last": last}
    blocks = [
        (seq, "SELECT block FROM deliveries WHERE first = ?", key)
        for key, seq in connection.execute(_WITHIN.format(key="at", table="ranges"), wanted)
    ]
    if fetched:
        blocks += [
            (seq, "SELECT block FROM fetched WHERE number = ?", key)
            for key, seq in connection.execute(_WITHIN.format(key="number", table="fetched"), wanted)
        ]
    found: dict[int, Message] = {}
    size = 0
    for _, query, key in sorted(blocks):
        row = connection.execute(query, (key,)).fetchone()
        if row is None:
            continue  # retention has just removed it
        for message in decode_deliveries(row[0]).messages:
            if message.source == source and message.topic == topic and first <= message.seq <= last:
                if size < bytes_max:
                    found[message.seq] = message
                size += len(message.payload)
        if size >= bytes_max:
            return Stretch([found[seq] for seq in sorted(found)], max(found))
    return Stretch([found[seq] for seq in sorted(found)], last)
