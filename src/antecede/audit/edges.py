"""Rule `tree-edges-once`: a message crosses an edge, from one node to another, at most once.

Tree protocols promise it where nothing fails. One that sends again after a loss or a suspicion does not; leave the rule
out for those.
"""

from antecede.audit.history import History, Send
from antecede.audit.report import Example, RuleResult


def judge_tree_edges_once(history: History) -> RuleResult:
    """Checked: send rows that name a message. Violations: those on an edge the message had already crossed."""
    crossed: set[tuple[int, int, int]] = set()
    checked = violations = 0
    example = None
    for send in history.sends():
        checked += 1
        crossing = (send.message, send.node, send.peer)
        if crossing not in crossed:
            crossed.add(crossing)
            continue
        violations += 1
        if example is None:
            example = _example(history, send)
    return RuleResult(
        name="tree-edges-once",
        checked=checked,
        violations=violations,
        example=example,
        reason="no send rows that name a message",
    )


def _example(history: History, again: Send) -> Example:
    first = next(send for send in history.sends() if send[2:] == again[2:])
    return Example(
        words=f"{history.name(again.message)} crossed the edge from node {again.node} to node {again.peer} twice, "
        f"first at row {first.row}, time_us {first.time_us}, again at row {again.row}, time_us {again.time_us}",
        nodes=(again.node, again.peer),
        messages=(history.keys[again.message],),
        rows=(first.row, again.row),
    )
