"""Rules `complete` and `agreement`: nobody who is owed a message goes without it.

A message is owed to every *steady* subscriber: subscribed to its topic before it was published and until the trace
ends, and up at the end. A node that crashed and came back is still owed everything.

Two things are not in a trace. Whether the publisher already knew of a subscription: it counts from its own row. And
what was still on its way when the trace ends: it counts as lost, so let a run come to rest before it is judged.
"""

from collections.abc import Collection, Iterator
from functools import partial

from antecede.audit.filters import matches
from antecede.audit.reference.history import History, Take
from antecede.audit.reference.takes import Marks
from antecede.audit.reference.tally import Tally
from antecede.audit.report import Example, RuleResult


def judge_complete(history: History, *, broadcast_to: Collection[int]) -> RuleResult:
    """Every steady subscriber took it. Speaks of publishers that never crashed: others may take a message with them.

    Checked: what was owed, message by node. Violations: what never came.
    """
    tally = Tally("complete")
    took = _taken(history)
    for published, owed in _owed(history, broadcast_to):
        if published.node in history.crashed:
            continue
        tally.checked += len(owed)
        for node in owed:
            if not took.has(node, published.message):
                tally.offence(partial(_loss, history, published, node, None))
    return tally.result(if_nothing=_why_nothing(history, broadcast_to))


def judge_agreement(history: History, *, broadcast_to: Collection[int]) -> RuleResult:
    """If a subscriber that is up at the end has it, every steady subscriber has, whatever became of its publisher.

    Whoever delivered a message takes its topic and is a witness. A publisher delivers to itself whether it subscribes
    or not, so it is one only if it is a steady subscriber too.
    Checked: what was owed because somebody has it. Violations: what never came.
    """
    tally = Tally("agreement")
    took = _taken(history)
    elsewhere = _delivered_elsewhere(history)
    for published, owed in _owed(history, broadcast_to):
        witness = elsewhere.get(published.message, published if published.node in owed else None)
        if witness is None:
            continue
        tally.checked += len(owed)
        for node in owed:
            if not took.has(node, published.message):
                tally.offence(partial(_loss, history, published, node, witness))
    return tally.result(if_nothing=_why_nothing(history, broadcast_to))


def _taken(history: History) -> Marks:
    took = Marks(history)
    for take in history.takes():
        took.add(take.node, take.message)
    return took


def _delivered_elsewhere(history: History) -> dict[int, Take]:
    """By message: its first delivery at a node up at the end other than the publisher."""
    first: dict[int, Take] = {}
    for take in history.takes():
        published = history.publication[take.message]
        if take.published or published is None or take.node == published.node or take.node in history.down:
            continue
        first.setdefault(take.message, take)
    return first


def _owed(history: History, broadcast_to: Collection[int]) -> Iterator[tuple[Take, list[int]]]:
    """Every message's publication with the nodes it is owed to, in order of publication."""
    steady: dict[str, list[tuple[int, int]]] = {}
    for take in history.takes():
        if take != history.publication[take.message]:  # a delivery, or published once more
            continue
        topic = history.topic(take.message)
        if topic not in steady:
            steady[topic] = _steady_subscribers(history, broadcast_to, topic)
        yield take, [node for node, since_row in steady[topic] if since_row < take.row]


def _steady_subscribers(history: History, broadcast_to: Collection[int], topic: str) -> list[tuple[int, int]]:
    """Nodes up at the end that take the topic to the end, and the row since which they do (−1: from the start)."""
    found = []
    for node in sorted({*history.subscriptions, *broadcast_to} - history.down):
        since = [row for pattern, row in history.subscriptions.get(node, {}).items() if matches(pattern, topic)]
        if node in broadcast_to:
            since.append(-1)
        if since:
            found.append((node, min(since)))
    return found


def _loss(history: History, published: Take, node: int, witness: Take | None) -> Example:
    message = published.message
    topic = history.topic(message)
    open_rows = history.subscriptions.get(node, {}).items()
    since = [row for pattern, row in open_rows if row < published.row and matches(pattern, topic)]
    had_it = f", which node {witness.node} has (since {witness.when})" if witness else ""
    steady = f"has subscribed to {topic} since row {min(since)}" if since else "takes every message"
    back = ", crashed and came back," if node in history.crashed else ""
    return Example(
        words=f"node {node} never delivered {history.name(message)} (published at {published.when}){had_it}, "
        f"though node {node} {steady}{back} and is up at the end",
        nodes=(node, witness.node) if witness else (node,),
        messages=(history.keys[message],),
        rows=(published.row, witness.row) if witness else (published.row,),
    )


def _why_nothing(history: History, broadcast_to: Collection[int]) -> str:
    if history.subscribe_rows or broadcast_to:
        return "nothing was owed to anyone"
    return "there are no subscribe rows, so nothing says who was owed what"
