"""Rule `total`, for protocols that promise it: two nodes deliver the messages that both deliver in one order.

For two nodes, list the messages that both delivered in the order of the first node, with the rows of the second. The
orders agree exactly if each row is higher than the one before it. So a pair of nodes costs one walk over their
deliveries, and a trace one walk for every pair of nodes. This is meant for small traces.
"""

from functools import partial
from itertools import combinations, pairwise

from antecede.audit import wording
from antecede.audit.reference.history import History, Take
from antecede.audit.reference.takes import first_deliveries
from antecede.audit.reference.tally import Tally
from antecede.audit.report import Example, RuleResult


def judge_total(history: History, *, examples: int) -> RuleResult:
    """Checked: pairs of nodes with two deliveries in common, without a tag. Violations: pairs that disagree.

    The example is about the first such pair by node number.
    """
    tally = Tally("total", examples)
    took: dict[int, dict[int, Take]] = {}
    for take in first_deliveries(history):
        if not take.tagged:
            took.setdefault(take.node, {})[take.message] = take
    for one, other in combinations(sorted(took), 2):
        common = [message for message in took[one] if message in took[other]]  # in the order of `one`
        if len(common) < 2:
            continue
        tally.checked += 1
        there = took[other]
        turned = next(((m, n) for m, n in pairwise(common) if there[m].row > there[n].row), None)
        if turned is not None:
            tally.violation(partial(_example, history, took[one], there, turned))
    return tally.result()


def _example(history: History, here: dict[int, Take], there: dict[int, Take], turned: tuple[int, int]) -> Example:
    first, then = turned
    return wording.disagreement(
        (history.at(here[first]), history.at(here[then])), (history.at(there[then]), history.at(there[first]))
    )
