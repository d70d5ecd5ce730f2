"""Examples that take the whole run to tell: what was overtaken and why it came before, and who had what was lost.

Made once a rule and run, and only where something is wrong, so that plain loops do.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

import numpy as np

from antecede.audit.filters import matches
from antecede.audit.report import Example, MessageKey
from antecede.audit.vectorised.columns import Ints, Topics, columns
from antecede.audit.vectorised.graph import Graph
from antecede.audit.vectorised.ledger import LATE, NEVER, Ledger
from antecede.audit.vectorised.source import Source
from antecede.audit.vectorised.survey import Bucket, Survey
from antecede.audit.vectorised.tally import Offence, Tally

#: Links shown of a chain; a longer one is cut in the middle, as `audit.chain` does.
LINKS_SHOWN_MAX: Final = 6


# -- causal -----------------------------------------------------------------------------------------------------------


def explain_causal(tally: Tally, bucket: Bucket, ledger: Ledger, graph: Graph, mentions: dict[MessageKey, int]) -> None:
    """Put into words the offence that came first: (row, node, message) of the take that was too early."""
    assert tally.first is not None
    row, number, early = tally.first.order
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
    verb = "delivered" if row in times else "published"

    def when(at: int) -> str:
        return f"row {at}, time_us {times.get(at, published.get(at))}"

    names = [bucket.name(message) for message in (first, early)]
    example = Example(
        words=f"node {number} {verb} {names[1]} ({when(row)}) before {names[0]} ({when(late)}), "
        f"but {names[0]} came before {names[1]}: {_chain_in_words(bucket, ledger, graph, first, early)}",
        nodes=(number,),
        messages=(bucket.key(first), bucket.key(early)),
        rows=(row, late),
    )
    tally.first = Offence(order=tally.first.order, example=example)


def _first_mentioned(messages: Ints, ledger: Ledger, mentions: dict[MessageKey, int]) -> int:
    """Which of them the trace mentions first: normally the one published first."""

    def place(message: int) -> tuple[int, int]:
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

    return int(min(messages.tolist(), key=place))


def _chain_in_words(bucket: Bucket, ledger: Ledger, graph: Graph, first: int, last: int) -> str:
    if graph.point is not None:
        return "by way of messages that were delivered before they were published"
    links = [_link_in_words(bucket, ledger, before, after) for before, after in _chain(graph, first, last)]
    if len(links) > LINKS_SHOWN_MAX:
        half = LINKS_SHOWN_MAX // 2
        links[half:-half] = [f"(then {len(links) - 2 * half} more)"]
    return "; ".join(links)


def _chain(graph: Graph, first: int, last: int) -> list[tuple[int, int]]:
    """The shortest way from `first` to `last` in the graph, link by link."""
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
    publication = f"{bucket.name(after)} (row {ledger.first.row[after]}, time_us {ledger.first.time[after]})"
    if ((ledger.dependency == before) & (ledger.dependent == after)).any():
        return f"{publication} names {bucket.name(before)} as a dependency"
    node = int(ledger.first.node[after])
    rows, messages = ledger.published_by(node)
    verb = "published" if before in messages[rows < ledger.first.row[after]] else "delivered"
    return f"node {node} {verb} {bucket.name(before)} and then published {publication}"


# -- loss -------------------------------------------------------------------------------------------------------------


def explain_loss(tally: Tally, rule: str, source: Source, ledger: Ledger, surveys: Sequence[Survey]) -> None:
    """Put into words the loss that came first: (message, node that never took it)."""
    if tally.first is None:
        return
    message, node = tally.first.order
    key = ledger.messages.key(message, ledger.topics)
    topic = key[0]
    row = int(ledger.first.row[message])
    had_it = ""
    nodes: tuple[int, ...] = (node,)
    rows: tuple[int, ...] = (row,)
    if rule == "agreement":
        witness, its_row, its_time = _witness(source, ledger, message, surveys)
        had_it = f", which node {witness} has (since row {its_row}, time_us {its_time})"
        nodes, rows = (node, witness), (row, its_row)
    open_rows = ledger.subscriptions.get(node, {}).items()
    since = [at for pattern, at in open_rows if at < row and matches(pattern, topic)]
    steady = f"has subscribed to {topic} since row {min(since)}" if since else "takes every message"
    back = ", crashed and came back," if node in ledger.crashed else ""
    example = Example(
        words=f"node {node} never delivered {topic}/{key[1]}.{key[2]} "
        f"(published at row {row}, time_us {ledger.first.time[message]}){had_it}, "
        f"though node {node} {steady}{back} and is up at the end",
        nodes=nodes,
        messages=(key,),
        rows=rows,
    )
    tally.first = Offence(order=tally.first.order, example=example)


def _witness(source: Source, ledger: Ledger, message: int, surveys: Sequence[Survey]) -> tuple[int, int, int]:
    """Node, row and time of the first delivery elsewhere at a node that is up at the end; else the publication."""
    row, bucket = min((int(found.witness[message]), bucket) for bucket, found in enumerate(surveys))
    if row == LATE:
        return int(ledger.first.node[message]), int(ledger.first.row[message]), int(ledger.first.time[message])
    rows = columns(source.part("deliveries", bucket), Topics(ledger.topics.names))
    at = int(np.flatnonzero(rows.row == row)[0])
    return int(rows.node[at]), row, int(rows.time[at])
