"""Rules `fifo` and `exactly-once`: a node delivers the messages of one source in their order, each of them once."""

from functools import partial

from antecede.audit import wording
from antecede.audit.reference.history import History, Take
from antecede.audit.reference.takes import Marks, find_take, first_deliveries
from antecede.audit.reference.tally import Tally
from antecede.audit.report import Example, RuleResult


def judge_fifo(history: History, *, examples: int) -> RuleResult:
    """A node delivers the messages of one source on one topic by increasing seq. Holes are left to `complete`.

    Checked: first deliveries without a tag. Violations: those with a lower seq than a delivery before them.
    """
    tally = Tally("fifo", examples)
    highest: dict[tuple[int, str, int], Take] = {}
    for take in first_deliveries(history):
        if take.tagged:
            continue
        tally.checked += 1
        topic, source, seq = history.keys[take.message]
        before = highest.get((take.node, topic, source))
        if before is None or history.keys[before.message][2] < seq:
            highest[take.node, topic, source] = take
        else:
            tally.violation(partial(wording.out_of_turn, history.at(before), history.at(take)))
    return tally.result()


def judge_exactly_once(history: History, *, examples: int) -> RuleResult:
    """No node delivers a message twice, tagged or not. Checked: deliveries. Violations: those after the first."""
    tally = Tally("exactly-once", examples)
    seen = Marks(history)
    for take in history.takes():
        if take.published:
            continue
        tally.checked += 1
        if not seen.add(take.node, take.message):
            tally.violation(partial(_twice, history, take))
    return tally.result()


def _twice(history: History, again: Take) -> Example:
    first = find_take(first_deliveries(history), again.node, again.message)
    return wording.repeated(again.node, history.keys[again.message], first.moment, again.moment)
