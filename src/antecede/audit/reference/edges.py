"""Rule `tree-edges-once`: a message crosses an edge, from one node to another, at most once.

Tree protocols promise it as long as nothing fails. Leave the rule out for a protocol that retransmits after a loss or a
suspicion.
"""

from functools import partial

from antecede.audit import wording
from antecede.audit.reference.history import History, Send
from antecede.audit.reference.tally import Tally
from antecede.audit.report import Example, RuleResult


def judge_tree_edges_once(history: History, *, examples: int) -> RuleResult:
    """Checked: send rows that name a message. Violations: those on an edge the message had already crossed."""
    tally = Tally("tree-edges-once", examples)
    crossed: set[tuple[int, int, int]] = set()
    for send in history.sends():
        tally.checked += 1
        if send.crossing in crossed:
            tally.violation(partial(_example, history, send))
        crossed.add(send.crossing)
    return tally.result()


def _example(history: History, again: Send) -> Example:
    first = next(send for send in history.sends() if send.crossing == again.crossing)
    return wording.crossed_twice(history.keys[again.message], again.node, again.peer, first.moment, again.moment)
