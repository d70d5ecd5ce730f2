"""Words the examples that need the whole run: which message was overtaken and why it came before; who has a lost one.

Each is made once per rule and run, and only if the rule is violated, so plain loops are fast enough.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from antecede.audit import wording
from antecede.audit.filters import matches
from antecede.audit.report import MessageKey
from antecede.audit.vectorised.columns import Ints, integers_of
from antecede.audit.vectorised.graph import Graph
from antecede.audit.vectorised.ledger import NEVER, Ledger
from antecede.audit.vectorised.source import Source
from antecede.audit.vectorised.survey import Bucket, Survey
from antecede.audit.vectorised.tally import Tally
from antecede.audit.wording import At, Moment

# -- causal -----------------------------------------------------------------------------------------------------------


def explain_causal(tally: Tally, bucket: Bucket, ledger: Ledger, graph: Graph, mentions: dict[MessageKey, int]) -> None:
    """Word the first violation, whose order is (row, node, message) of the take that was too early."""
    row, number, early = tally.order
    node = next(each for each in bucket.each(ledger) if each.node == number)
    rows = node.in_order[: graph.count]
    past = graph.past(early)
    overtaken = past[(rows[past] > row) & (past != early)]
    first = _first_mentioned(overtaken, ledger, mentions)
    late = int(rows[first])
    times = dict(zip(node.row.tolist(), node.time.tolist(), strict=True))
    published = {
        int(each): int(time) for each, time in zip(ledger.publications.row, ledger.publications.time, strict=True)
    }

    def at(message: int, its_row: int) -> At:
        time_us = times[its_row] if its_row in times else published[its_row]
        return At(number, bucket.key(message), Moment(its_row, time_us), its_row not in times)

    why = wording.chain(_links(bucket, ledger, graph, first, early))
    tally.example = wording.overtaking(at(early, row), at(first, late), why)


def _first_mentioned(messages: Ints, ledger: Ledger, mentions: dict[MessageKey, int]) -> int:
    """Which of them the trace mentions first: normally the one that was published first."""

    def mention(message: int) -> tuple[int, int]:
        row = int(ledger.published_at[message])
        found = [(row, 0)] if row != NEVER else []
        named = np.flatnonzero(ledger.dependency == message)
        if len(named):
            by = int(ledger.dependent[named[0]])
            position = int(named[0] - np.searchsorted(ledger.dependent, by))
            found.append((int(ledger.first.row[by]), 1 + position))
        key = ledger.messages.key(message, ledger.topics)
        if key in mentions:
            found.append((mentions[key], 0))
        return min(found)

    return int(min(messages.tolist(), key=mention))


def _links(bucket: Bucket, ledger: Ledger, graph: Graph, first: int, last: int) -> list[str]:
    """The chain from `first` to `last` in words; none in a graph with circles."""
    if graph.point is not None:
        return []
    return [_link_in_words(bucket, ledger, before, after) for before, after in _chain(graph, first, last)]


def _chain(graph: Graph, first: int, last: int) -> list[tuple[int, int]]:
    """The shortest path from `first` to `last` in the graph, edge by edge."""
    into = np.searchsorted(graph.dst, np.arange(graph.count + 1))
    leads_to = {last: -1}
    todo = deque([last])
    while first not in leads_to:
        here = todo.popleft()
        for before in graph.src[into[here] : into[here + 1]].tolist():
            if before not in leads_to:
                leads_to[before] = here
                todo.append(before)
    chain = []
    while first != last:
        chain.append((first, leads_to[first]))
        first = leads_to[first]
    return chain


def _link_in_words(bucket: Bucket, ledger: Ledger, before: int, after: int) -> str:
    node = int(ledger.first.node[after])
    publication = At(node, bucket.key(after), ledger.first.moment(after), True)
    earlier = wording.name(bucket.key(before))
    if ((ledger.dependency == before) & (ledger.dependent == after)).any():
        return f"{publication} names {earlier} as a dependency"
    rows, messages = ledger.published_by(node)
    verb = "published" if before in messages[rows < ledger.first.row[after]] else "delivered"
    return f"node {node} {verb} {earlier} and then published {publication}"


# -- loss -------------------------------------------------------------------------------------------------------------


def explain_loss(tally: Tally, rule: str, source: Source, ledger: Ledger, surveys: Sequence[Survey]) -> None:
    """Word the first loss, whose order is (message, node that never took it)."""
    if tally.example is None:
        return
    message, node = tally.order
    key = ledger.messages.key(message, ledger.topics)
    published = ledger.first.moment(message)
    opened = ledger.subscriptions.get(node, {}).items()
    since = [row for pattern, row in opened if row < published.row and matches(pattern, key[0])]
    tally.example = wording.loss(
        node,
        key,
        published,
        _witness(source, ledger, message, surveys) if rule == "agreement" else None,
        min(since, default=-1),
        back=node in ledger.went_down,
    )


def _witness(source: Source, ledger: Ledger, message: int, surveys: Sequence[Survey]) -> tuple[int, Moment]:
    """The first delivery at a node that is up at the end and not the publisher; if there is none, the publication."""
    rows_of = [(int(found.witness[message]), bucket) for bucket, found in enumerate(surveys)]
    row, bucket = min([each for each in rows_of if each[0] != NEVER], default=(NEVER, 0))
    if row == NEVER:
        return int(ledger.first.node[message]), ledger.first.moment(message)
    rows = source.part("deliveries", bucket, ["row", "node", "time_us"])
    index = int(np.flatnonzero(integers_of(rows["row"].chunks, rows["row"].type) == row)[0])
    return rows["node"][index].as_py(), Moment(row, rows["time_us"][index].as_py())
