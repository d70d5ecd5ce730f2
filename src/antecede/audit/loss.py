"""Rules `complete` and `agreement`: nobody who is owed a message goes without it.

A message is owed to every *steady* subscriber: subscribed to its topic before it was published and until the trace
ends, and up at the end. A node that crashed and came back is still owed everything. What a subscriber in the publisher's
view means is not in a trace, so a subscription counts from its row; and what is on its way when a trace ends is lost, so
let a run come to rest before it is judged.
"""

from collections.abc import Collection, Iterator

from antecede.audit.filters import matches
from antecede.audit.history import History, Take
from antecede.audit.report import Example, RuleResult
from antecede.audit.takes import Marks


def judge_complete(history: History, *, broadcast_to: Collection[int]) -> RuleResult:
    """Every steady subscriber took it. Speaks of publishers that never crashed: others may take a message with them.

    Checked: what was owed, message by node. Violations: what never came.
    """
    checked = violations = 0
    example = None
    for published, node, took in _owed(history, broadcast_to):
        if published.node in history.crashed:
            continue
        checked += 1
        if took:
            continue
        violations += 1
        if example is None:
            example = Example(
                words=f"{_never(history, published, node)}, though {_steady(history, published, node)}",
                nodes=(node,),
                messages=(history.keys[published.message],),
                rows=(published.row,),
            )
    return _result("complete", history, broadcast_to, checked, violations, example)


def judge_agreement(history: History, *, broadcast_to: Collection[int]) -> RuleResult:
    """If a node that is up at the end delivered it, every steady subscriber took it, whatever became of its publisher.

    Checked: what was owed because somebody had it. Violations: what never came.
    """
    witness: dict[int, Take] = {}
    for take in history.takes():
        if not take.published and take.node not in history.down:
            witness.setdefault(take.message, take)
    checked = violations = 0
    example = None
    for published, node, took in _owed(history, broadcast_to):
        seen = witness.get(published.message)
        if seen is None or seen.node == node:
            continue
        checked += 1
        if took:
            continue
        violations += 1
        if example is None:
            example = Example(
                words=f"{_never(history, published, node)}, which node {seen.node} delivered ({seen.when}), "
                f"though {_steady(history, published, node)}",
                nodes=(node, seen.node),
                messages=(history.keys[published.message],),
                rows=(published.row, seen.row),
            )
    return _result("agreement", history, broadcast_to, checked, violations, example)


def _owed(history: History, broadcast_to: Collection[int]) -> Iterator[tuple[Take, int, bool]]:
    """Every publication, with each node it is owed to, and whether that node took it; in order of publication."""
    took = Marks(history)
    for take in history.takes():
        took.add(take.node, take.message)
    steady: dict[str, list[tuple[int, int]]] = {}
    for take in history.takes():
        if not take.published or history.publication[take.message] != take:
            continue
        topic = history.topic(take.message)
        if topic not in steady:
            steady[topic] = _steady_subscribers(history, broadcast_to, topic)
        for node, since_row in steady[topic]:
            if since_row < take.row:
                yield take, node, took.has(node, take.message)


def _steady_subscribers(history: History, broadcast_to: Collection[int], topic: str) -> list[tuple[int, int]]:
    """Nodes up at the end with a matching subscription open to the end, and the row since which they have it."""
    found = []
    for node in sorted(set(history.subscriptions) | set(broadcast_to)):
        rows = [row for pattern, row in history.subscriptions.get(node, {}).items() if matches(pattern, topic)]
        if node in broadcast_to:
            rows.append(-1)
        if rows and node not in history.down:
            found.append((node, min(rows)))
    return found


def _never(history: History, published: Take, node: int) -> str:
    return f"node {node} never delivered {history.name(published.message)} (published at {published.when})"


def _steady(history: History, published: Take, node: int) -> str:
    topic = history.topic(published.message)
    open_rows = history.subscriptions.get(node, {}).items()
    rows = [row for pattern, row in open_rows if matches(pattern, topic) and row < published.row]
    came_back = " and came back after a crash" if node in history.crashed else ""
    return f"it subscribed at row {min(rows)}{came_back}" if rows else f"it takes everything{came_back}"


def _result(
    name: str,
    history: History,
    broadcast_to: Collection[int],
    checked: int,
    violations: int,
    example: Example | None,
) -> RuleResult:
    told = history.subscribe_rows or broadcast_to
    reason = "nothing was owed to anyone" if told else "no subscribe rows, so nothing says who was owed what"
    return RuleResult(name=name, checked=checked, violations=violations, example=example, reason=reason)
