"""The rules once more, by bare definition and without a thought for speed: what the judge is compared with.

Nothing here is shared with `antecede.audit`; sets and loops over all pairs only.
"""

from itertools import combinations
from typing import NamedTuple

from antecede.trace import Event, Row

Key = tuple[str, int, int]


class Offence(NamedTuple):
    """At `row`, `node` took `message` although it was yet to take `overtaken`."""

    row: int
    node: int
    message: Key
    overtaken: frozenset[Key]


def key(row: Row) -> Key:
    return row.topic, row.source, row.seq


def relation(rows: list[Row], across_topics: bool) -> set[tuple[Key, Key]]:
    """All (m, m′) with m before m′."""
    publish_rows: dict[Key, int] = {}
    for number, row in enumerate(rows):
        if row.event is Event.PUBLISH:
            publish_rows.setdefault(key(row), number)
    before = set()
    for message, number in publish_rows.items():
        publisher = rows[number].node
        for earlier in rows[:number]:
            if earlier.node == publisher and earlier.event in (Event.PUBLISH, Event.DELIVER):
                before.add((key(earlier), message))
        for dependency in rows[number].deps:
            before.add((dependency, message))
    if not across_topics:
        before = {(m, n) for m, n in before if m[0] == n[0]}
    while True:
        further = {(a, d) for a, b in before for c, d in before if b == c}
        if further <= before:
            return before
        before |= further


def first_mentioned(rows: list[Row], among: frozenset[Key]) -> Key:
    """The message of `among` that the trace mentions first, be it as a dependency."""
    mentions = [message for row in rows for message in (key(row), *row.deps)]
    return min(among, key=mentions.index)


def first_takes(rows: list[Row], events: tuple[Event, ...]) -> dict[int, list[tuple[int, Key, bool]]]:
    """By node: (row, message, tagged) of its first take of each message, in order."""
    takes: dict[int, list[tuple[int, Key, bool]]] = {}
    for number, row in enumerate(rows):
        if row.event in events:
            mine = takes.setdefault(row.node, [])
            if key(row) not in [message for _, message, _ in mine]:
                mine.append(
                    (number, key(row), row.event is Event.DELIVER and row.note in ("out_of_order", "incomplete"))
                )
    return takes


def causal_offences(rows: list[Row], across_topics: bool) -> list[Offence]:
    before = relation(rows, across_topics)
    found = []
    for node, takes in first_takes(rows, (Event.PUBLISH, Event.DELIVER)).items():
        # What a node publishes after an incomplete delivery repeats what it took: it is not judged there.
        told = min((row for row, _, tagged in takes if tagged and rows[row].note == "incomplete"), default=len(rows))
        ordered = [
            (row, message)
            for row, message, tagged in takes
            if not tagged and not (rows[row].event is Event.PUBLISH and row > told)
        ]
        for row, message in ordered:
            overtaken = frozenset(m for later, m in ordered if later > row and (m, message) in before)
            if overtaken:
                found.append(Offence(row, node, message, overtaken))
    return sorted(found, key=lambda offence: offence.row)


def fifo_offences(rows: list[Row]) -> set[int]:
    """Rows that deliver a message after a later one of the same source and topic."""
    return {
        later_row
        for takes in first_takes(rows, (Event.DELIVER,)).values()
        for (_, one, tagged), (later_row, other, later_tagged) in combinations(takes, 2)
        if not tagged and not later_tagged and one[:2] == other[:2] and one[2] > other[2]
    }


def total_offences(rows: list[Row]) -> set[tuple[int, int, Key, Key]]:
    """(node, other, m, n): the one delivered m before n, the other n before m."""
    takes = first_takes(rows, (Event.DELIVER,))
    pairs = {
        node: {(m, n) for (_, m, tagged), (_, n, late) in combinations(mine, 2) if not tagged and not late}
        for node, mine in takes.items()
    }
    return {
        (one, other, m, n)
        for one, other in combinations(sorted(pairs), 2)
        for m, n in pairs[one]
        if (n, m) in pairs[other]
    }


def other_contents(rows: list[Row]) -> set[int]:
    """Rows whose digest differs from that of the message's first publish row that has one, else first deliver row."""
    found = set()
    for message in {key(row) for row in rows}:
        digests = [
            (event, number, row.digest)
            for number, row in enumerate(rows)
            for event in (Event.PUBLISH, Event.DELIVER)
            if (row.event, key(row)) == (event, message) and row.digest >= 0
        ]
        found |= {number for _, number, digest in digests if digest != min(digests)[2]}
    return found


def losses(rows: list[Row]) -> set[tuple[int, Key]]:
    """(node, message) owed and never taken, of publishers that never go down. Topics without wildcards."""
    went_down = {row.node for row in rows if row.event in (Event.CRASH, Event.STOP)}
    return {
        (node, key(rows[number]))
        for number in first_publications(rows)
        for node in steady_subscribers(rows, number)
        if rows[number].node not in went_down and not took(rows, node, key(rows[number]))
    }


def disagreements(rows: list[Row]) -> set[tuple[int, Key]]:
    """(node, message) never taken, though a node up at the end delivered it: not its publisher, or a steady one."""
    found = set()
    for number in first_publications(rows):
        message, publisher = key(rows[number]), rows[number].node
        steady = steady_subscribers(rows, number)
        delivered = {row.node for row in rows if row.event is Event.DELIVER and key(row) == message}
        witnesses = {node for node in delivered - {publisher} if is_up(rows, node)} | (steady & {publisher})
        if witnesses:
            found |= {(node, message) for node in steady if not took(rows, node, message)}
    return found


def first_publications(rows: list[Row]) -> list[int]:
    published = [(key(row), number) for number, row in enumerate(rows) if row.event is Event.PUBLISH]
    return [min(number for other, number in published if other == message) for message in {m for m, _ in published}]


def steady_subscribers(rows: list[Row], publication: int) -> set[int]:
    """Up at the end, subscribed when row `publication` published, and never unsubscribed since."""
    topic = rows[publication].topic
    steady = set()
    for node in {row.node for row in rows}:
        before = [row.event for row in rows[:publication] if (row.node, row.topic) == (node, topic)]
        after = [row.event for row in rows[publication:] if (row.node, row.topic) == (node, topic)]
        changes = [event for event in before if event in (Event.SUBSCRIBE, Event.UNSUBSCRIBE)]
        if changes[-1:] == [Event.SUBSCRIBE] and Event.UNSUBSCRIBE not in after and is_up(rows, node):
            steady.add(node)
    return steady


def is_up(rows: list[Row], node: int) -> bool:
    changes = [row.event for row in rows if row.node == node and row.event in (Event.CRASH, Event.STOP, Event.RECOVER)]
    return changes[-1:] not in ([Event.CRASH], [Event.STOP])


def took(rows: list[Row], node: int, message: Key) -> bool:
    return any(row.node == node and row.event in (Event.PUBLISH, Event.DELIVER) and key(row) == message for row in rows)
