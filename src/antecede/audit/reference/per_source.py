"""Rules `fifo` and `exactly-once`: one source's messages come in its order, and each of them once."""

from functools import partial

from antecede.audit.reference.history import History, Take
from antecede.audit.reference.takes import Marks, find_take, first_deliveries
from antecede.audit.reference.tally import Tally
from antecede.audit.report import Example, RuleResult


def judge_fifo(history: History) -> RuleResult:
    """A node delivers the messages of one source on one topic in increasing seq. Holes are not its business.

    Checked: first deliveries not tagged. Violations: those with a seq below one the node already had.
    """
    tally = Tally("fifo")
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
            tally.offence(partial(_out_of_turn, history, before, take))
    return tally.result(if_nothing="nothing was delivered")


def judge_exactly_once(history: History) -> RuleResult:
    """Nobody delivers a message twice, tagged or not. Checked: deliveries. Violations: those after the first."""
    tally = Tally("exactly-once")
    seen = Marks(history)
    for take in history.takes():
        if take.published:
            continue
        tally.checked += 1
        if not seen.add(take.node, take.message):
            tally.offence(partial(_twice, history, take))
    return tally.result(if_nothing="nothing was delivered")


def _out_of_turn(history: History, before: Take, late: Take) -> Example:
    return Example(
        words=f"node {late.node} delivered {history.name(before.message)} ({before.when}) "
        f"before {history.name(late.message)} ({late.when}) of the same source",
        nodes=(late.node,),
        messages=(history.keys[late.message], history.keys[before.message]),
        rows=(before.row, late.row),
    )


def _twice(history: History, again: Take) -> Example:
    first = find_take(first_deliveries(history), again.node, again.message)
    return Example(
        words=f"node {again.node} delivered {history.name(again.message)} twice, "
        f"first at {first.when}, again at {again.when}",
        nodes=(again.node,),
        messages=(history.keys[again.message],),
        rows=(first.row, again.row),
    )
