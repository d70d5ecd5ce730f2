"""Translates between positions of one journal and frontiers, which hold at every node.

A *frontier* has, by stream, the last message up to some point. Within a journal the sequence numbers of a stream rise
with positions. So the frontier at a position is found by bisection over the index of each stream, without a look at the
messages between; and a message is found by its number.
"""

import sqlite3
from collections.abc import Mapping
from typing import Final

from antecede.journal.blocks import decode_deliveries
from antecede.journal.lookup import StreamName, locate

#: The last range of a stream that begins at or before a number.
_RANGE: Final = (
    "SELECT first_seq, last_seq, at FROM ranges WHERE topic = ? AND source = ? AND first_seq <= ? "
    "ORDER BY first_seq DESC LIMIT 1"
)
_HIGHEST: Final = (1 << 63) - 1


def frontier_at(
    connection: sqlite3.Connection, position: int, present: Mapping[StreamName, int]
) -> dict[StreamName, int]:
    """By topic and source: the last message at or before `position`. `present`: the same for the last position.

    A message may be there in number only: it was delivered before this node took the topic, or retention removed it.
    """
    row = connection.execute(
        "SELECT first, last, block FROM deliveries WHERE first <= ? ORDER BY first DESC LIMIT 1", (position,)
    ).fetchone()
    begin, split = (position, None) if row is None or row[1] <= position else (row[0] - 1, row)
    found = {stream: _last_until(connection, *stream, begin, seq) for stream, seq in present.items()}
    if split is not None:  # a block with deliveries on both sides of the position
        for message in decode_deliveries(split[2]).messages[: position - begin]:
            stream = (message.topic, message.source)
            if stream in found:
                found[stream] = max(message.seq, found[stream])
    return found


def _last_until(connection: sqlite3.Connection, topic: str, source: int, at: int, present: int) -> int:
    """The last message of a stream in blocks that begin at or before position `at`."""
    row = connection.execute(_RANGE, (topic, source, _HIGHEST)).fetchone()
    if row is None or row[2] <= at:
        return present
    (lowest,) = connection.execute(
        "SELECT min(first_seq) FROM ranges WHERE topic = ? AND source = ?", (topic, source)
    ).fetchone()
    low, high, found = int(lowest), int(row[0]) - 1, int(lowest) - 1
    while low <= high:
        middle = (low + high) // 2
        first, last, where = connection.execute(_RANGE, (topic, source, middle)).fetchone()
        if where <= at:
            found, low = max(found, int(last)), max(middle, int(last)) + 1
        else:
            high = int(first) - 1
    return found


def first_of(connection: sqlite3.Connection, wanted: Mapping[StreamName, int], last: int) -> int:
    """The position before the first of these messages, or of later ones of their streams; `last`: there are none."""
    begin = min([position for _, position in locate(connection, wanted).values()], default=last)
    row = connection.execute("SELECT block FROM deliveries WHERE first = ?", (begin + 1,)).fetchone()
    if begin >= last or row is None:
        return min(begin, last)
    messages = decode_deliveries(row[0]).messages
    unread = (at for at, one in enumerate(messages) if one.seq >= wanted.get((one.topic, one.source), _HIGHEST))
    return begin + next(unread, 0)


def end_of(connection: sqlite3.Connection, wanted: Mapping[StreamName, int]) -> int:
    """The last position of the blocks that hold these messages, or the messages before them; 0: there are none."""
    ends = [0]
    for (topic, source), seq in wanted.items():
        row = connection.execute(_RANGE, (topic, source, seq)).fetchone()
        if row is not None:
            last = connection.execute("SELECT last FROM deliveries WHERE first = ?", (row[2],)).fetchone()
            ends += [] if last is None else [int(last[0])]
    return max(ends)


def holes(connection: sqlite3.Connection, topic: str, source: int, after: int, last: int) -> list[tuple[int, int]]:
    """The first and last numbers of messages behind `after` up to `last` that are not in the journal."""
    found: list[tuple[int, int]] = []
    reached = after
    for first_seq, last_seq in connection.execute(
        "SELECT first_seq, last_seq FROM ranges WHERE topic = ? AND source = ? AND first_seq >= coalesce((SELECT "
        "max(first_seq) FROM ranges WHERE topic = ? AND source = ? AND first_seq <= ?), 0) AND first_seq <= ? "
        "ORDER BY first_seq",
        (topic, source, topic, source, after + 1, last),
    ):
        if first_seq > reached + 1:
            found.append((reached + 1, int(first_seq) - 1))
        reached = max(reached, int(last_seq))
    return [*found, (reached + 1, last)] if reached < last else found
