"""Rule `total`, for protocols that promise it: no two nodes deliver two messages both took in different orders.

For two nodes, write the messages both took in the one's order and look up where the other has them. The orders agree
exactly if those places rise from each message to the next: rising is transitive. So a pair of nodes costs a walk over
their deliveries, and a trace one walk for every pair of nodes. Meant for small traces.
"""

from functools import partial
from itertools import combinations, pairwise

from antecede.audit.reference.history import History, Take
from antecede.audit.reference.takes import first_deliveries
from antecede.audit.reference.tally import Tally
from antecede.audit.report import Example, RuleResult


def judge_total(history: History) -> RuleResult:
    """Checked: pairs of nodes with two messages in common, not tagged. Violations: pairs that disagree.

    The example is of the first such pair by node number.
    """
    tally = Tally("total")
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
            tally.offence(partial(_example, history, took[one], there, turned))
    return tally.result(if_nothing="no two nodes delivered two messages in common")


def _example(history: History, here: dict[int, Take], there: dict[int, Take], turned: tuple[int, int]) -> Example:
    first, then = turned
    takes = (here[first], here[then], there[then], there[first])
    words = [f"{history.name(take.message)} ({take.when})" for take in takes]
    return Example(
        words=f"node {takes[0].node} delivered {words[0]} before {words[1]}, "
        f"node {takes[2].node} delivered {words[2]} before {words[3]}",
        nodes=(takes[0].node, takes[2].node),
        messages=(history.keys[first], history.keys[then]),
        rows=tuple(take.row for take in takes),
    )
