"""Rules `complete` and `agreement`: every node that is owed a message takes it.

A message is owed to every *steady* subscriber: a node that subscribed to its topic before it was published, keeps the
subscription until the trace ends, and is up at the end. A node that went down and came back is still owed everything.

A trace leaves two things open. It does not say when the publisher learned of a subscription: the subscription counts
from its own row. And it does not say what was still in flight at its end: that counts as lost, so let a run come to
rest before it is judged.
"""

from collections.abc import Collection, Iterable, Iterator
from functools import partial

from antecede.audit import wording
from antecede.audit.filters import matches
from antecede.audit.reference.history import History, Take
from antecede.audit.reference.takes import Marks
from antecede.audit.reference.tally import Tally
from antecede.audit.report import Example, RuleResult
from antecede.audit.rules import NO_SUBSCRIPTIONS


def judge_complete(history: History, *, broadcast_to: Collection[int], examples: int) -> RuleResult:
    """Every steady subscriber takes every message of a publisher that never went down: others may lose a message.

    Checked: pairs of a message and a node that is owed it. Violations: pairs without a take.
    """
    judged = (
        (published, owed, None)
        for published, owed in _owed(history, broadcast_to)
        if published.node not in history.went_down
    )
    return _judge("complete", history, broadcast_to, judged, examples)


def judge_agreement(history: History, *, broadcast_to: Collection[int], examples: int) -> RuleResult:
    """If a subscriber that is up at the end has a message, so has every steady subscriber, whatever its publisher did.

    A node that delivered the message is the witness. The publisher delivers to itself whether it subscribes or not, so
    it is a witness only if it is a steady subscriber.
    Checked: pairs of a message with a witness and a node that is owed it. Violations: pairs without a take.
    """
    elsewhere = _delivered_elsewhere(history)
    judged = (
        (published, owed, witness)
        for published, owed in _owed(history, broadcast_to)
        if (witness := elsewhere.get(published.message, published if published.node in owed else None)) is not None
    )
    return _judge("agreement", history, broadcast_to, judged, examples)


def _judge(
    rule: str,
    history: History,
    broadcast_to: Collection[int],
    judged: Iterable[tuple[Take, list[int], Take | None]],
    examples: int,
) -> RuleResult:
    """Count the takes that are missing. `judged`: publications, the nodes that are owed each, and a witness."""
    tally = Tally(rule, examples)
    took = Marks(history)
    for take in history.takes():
        took.add(take.node, take.message)
    for published, owed, witness in judged:
        tally.checked += len(owed)
        for node in owed:
            if not took.has(node, published.message):
                tally.violation(partial(_loss, history, published, node, witness))
    return tally.result("" if history.subscribe_rows or broadcast_to else NO_SUBSCRIPTIONS)


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
    """Every message's first publish row with the nodes that are owed it, in order of publication."""
    steady: dict[str, list[tuple[int, int]]] = {}
    for take in history.takes():
        if take != history.publication[take.message]:  # a delivery, or published once more
            continue
        topic = history.topic(take.message)
        if topic not in steady:
            steady[topic] = _steady_subscribers(history, broadcast_to, topic)
        yield take, [node for node, since_row in steady[topic] if since_row < take.row]


def _steady_subscribers(history: History, broadcast_to: Collection[int], topic: str) -> list[tuple[int, int]]:
    """Nodes up at the end that subscribe to the topic until the end, and the row since which they do (−1: always)."""
    found = []
    for node in sorted({*history.subscriptions, *broadcast_to} - history.down):
        since = [row for pattern, row in history.subscriptions.get(node, {}).items() if matches(pattern, topic)]
        if node in broadcast_to:
            since.append(-1)
        if since:
            found.append((node, min(since)))
    return found


def _loss(history: History, published: Take, node: int, witness: Take | None) -> Example:
    key = history.keys[published.message]
    open_rows = history.subscriptions.get(node, {}).items()
    since = [row for pattern, row in open_rows if row < published.row and matches(pattern, key[0])]
    return wording.loss(
        node,
        key,
        published.moment,
        (witness.node, witness.moment) if witness else None,
        min(since, default=-1),
        back=node in history.went_down,
    )
