"""Rules `fifo` and `exactly-once`: one source's messages come in its order, and each of them once."""

from antecede.audit.history import History, Take
from antecede.audit.report import Example, RuleResult
from antecede.audit.takes import Marks, find_take, first_deliveries

_NOTHING = "nothing was delivered"


def judge_fifo(history: History) -> RuleResult:
    """A node delivers the messages of one source on one topic in increasing seq. Holes are not its business.

    Checked: first deliveries not tagged. Violations: those with a seq below one the node already had.
    """
    highest: dict[tuple[int, str, int], Take] = {}
    checked = violations = 0
    example = None
    for take in first_deliveries(history):
        if take.tagged:
            continue
        checked += 1
        topic, source, seq = history.keys[take.message]
        before = highest.setdefault((take.node, topic, source), take)
        if history.keys[before.message][2] <= seq:
            highest[take.node, topic, source] = take
            continue
        violations += 1
        if example is None:
            example = Example(
                words=f"node {take.node} delivered {history.name(before.message)} ({before.when}) "
                f"before {history.name(take.message)} ({take.when}) of the same source",
                nodes=(take.node,),
                messages=(history.keys[take.message], history.keys[before.message]),
                rows=(before.row, take.row),
            )
    return RuleResult(name="fifo", checked=checked, violations=violations, example=example, reason=_NOTHING)


def judge_exactly_once(history: History) -> RuleResult:
    """Nobody delivers a message twice, tagged or not. Checked: deliveries. Violations: those after the first."""
    seen = Marks(history)
    checked = violations = 0
    example = None
    for take in history.takes():
        if take.published:
            continue
        checked += 1
        if seen.add(take.node, take.message):
            continue
        violations += 1
        if example is None:
            first = find_take(first_deliveries(history), take.node, take.message)
            example = Example(
                words=f"node {take.node} delivered {history.name(take.message)} twice, "
                f"first at {first.when}, again at {take.when}",
                nodes=(take.node,),
                messages=(history.keys[take.message],),
                rows=(first.row, take.row),
            )
    return RuleResult(
        name="exactly-once", checked=checked, violations=violations, example=example, reason=_NOTHING
    )
