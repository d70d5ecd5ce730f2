"""Rule `tree-edges-once`: a message crosses an edge, from one node to another, at most once.

Tree protocols promise it where nothing fails. One that sends again after a loss or a suspicion does not; leave the
rule out for those.
"""

from functools import partial

from antecede.audit.reference.history import History, Send
from antecede.audit.reference.tally import Tally
from antecede.audit.report import Example, RuleResult


def judge_tree_edges_once(history: History) -> RuleResult:
    """Checked: send rows that name a message. Violations: those on an edge the message had already crossed."""
    tally = Tally("tree-edges-once")
    crossed: set[tuple[int, int, int]] = set()
    for send in history.sends():
        tally.checked += 1
        if send.crossing in crossed:
            tally.offence(partial(_example, history, send))
        crossed.add(send.crossing)
    return tally.result(if_nothing="there are no send rows that name a message")


def _example(history: History, again: Send) -> Example:
    first = next(send for send in history.sends() if send.crossing == again.crossing)
    return Example(
        words=f"{history.name(again.message)} crossed the edge from node {again.node} to node {again.peer} twice, "
        f"first at {first.when}, again at {again.when}",
        nodes=(again.node, again.peer),
        messages=(history.keys[again.message],),
        rows=(first.row, again.row),
    )
