"""Rule `total`, for protocols that promise it: no two nodes deliver two messages both took in different orders.

For two nodes, write the messages both took in the one's order and look up where the other has them. The orders agree
exactly if those places rise from each message to the next: rising is transitive. So a pair of nodes costs a walk over
their deliveries, and a trace one walk for every pair of nodes. Meant for small traces.
"""

from itertools import combinations, pairwise

from antecede.audit.history import History, Take
from antecede.audit.report import Example, RuleResult
from antecede.audit.takes import first_deliveries


def judge_total(history: History) -> RuleResult:
    """Checked: pairs of nodes with two messages in common, not tagged. Violations: pairs that disagree."""
    took: dict[int, dict[int, Take]] = {}
    for take in first_deliveries(history):
        if not take.tagged:
            took.setdefault(take.node, {})[take.message] = take
    checked = violations = 0
    example = None
    for one, other in combinations(sorted(took), 2):
        common = [message for message in took[one] if message in took[other]]  # in the order of `one`
        if len(common) < 2:
            continue
        checked += 1
        places = took[other]
        turned = next(((m, n) for m, n in pairwise(common) if places[m].row > places[n].row), None)
        if turned is None:
            continue
        violations += 1
        if example is None:
            example = _example(history, took[one], places, turned)
    return RuleResult(
        name="total",
        checked=checked,
        violations=violations,
        example=example,
        reason="no two nodes delivered two messages in common",
    )


def _example(
    history: History, one: dict[int, Take], other: dict[int, Take], turned: tuple[int, int]
) -> Example:
    first, then = turned
    four = (one[first], one[then], other[then], other[first])
    return Example(
        words=f"node {four[0].node} delivered {history.name(first)} ({four[0].when}) "
        f"before {history.name(then)} ({four[1].when}), "
        f"node {four[2].node} delivered {history.name(then)} ({four[2].when}) "
        f"before {history.name(first)} ({four[3].when})",
        nodes=(four[0].node, four[2].node),
        messages=(history.keys[first], history.keys[then]),
        rows=tuple(take.row for take in four),
    )
