"""Narrows a run of any size to what explains one violation: the nodes its messages came through, and when.

A tree is shallow, so the way of two messages to one node is a handful of nodes even where the run has thousands.
"""

from collections.abc import Iterable

from antecede.report.scene import Choice, Key
from antecede.report.violation import Violation
from antecede.trace import Event, Row


def focus(rows: Iterable[Row], violation: Violation) -> Choice:
    """The rows must be those the violation was found in."""
    wanted = set(violation.messages)
    came_from: dict[tuple[Key, int], int] = {}
    publisher: dict[Key, int] = {}
    tried: set[int] = set()
    times = []
    for index, row in enumerate(rows):
        if index in violation.rows:
            times.append(row.time_us)
        key = (row.topic, row.source, row.seq)
        if key not in wanted:
            continue
        if row.event is Event.PUBLISH:
            publisher.setdefault(key, row.node)
            times.append(row.time_us)
        elif row.event is Event.RECEIVE:
            came_from.setdefault((key, row.node), row.peer)
            if row.node in violation.nodes:
                times.append(row.time_us)
        elif row.event is Event.SEND and row.peer in violation.nodes:
            tried.add(row.node)  # also if it never arrived, which may be the point
            times.append(row.time_us)
    nodes = set(violation.nodes) | set(publisher.values()) | tried
    ends = {*violation.nodes, *tried, *publisher.values()}
    for key in wanted:
        for end in ends:
            nodes.update(_way(came_from, key, end))
    first, last = min(times, default=0), max(times, default=0)
    margin = max(1, (last - first) // 20)
    return Choice(nodes=frozenset(nodes), messages=frozenset(wanted), from_us=first - margin, until_us=last + margin)


def _way(came_from: dict[tuple[Key, int], int], key: Key, node: int) -> list[int]:
    """The nodes a message came through to reach `node`, as far back as it is known."""
    way: list[int] = []
    while (key, node) in came_from and node not in way:
        way.append(node)
        node = came_from[key, node]
    return [*way, node] if way else []
