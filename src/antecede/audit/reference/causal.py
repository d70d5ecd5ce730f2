"""Rule `causal`: no node takes m′ before m when m came before m′ and it takes both (DESIGN, guarantee 1).

At each take of m′ at a node, nothing that came before m′ may be among what the node has yet to take. Publishing counts
as the publisher's own delivery. Deliveries tagged out of order are not judged, neither as m nor as m′ (guarantee 5:
the reader was told); they count as seen by the node all the same, so what it publishes later comes after them.
"""

from functools import partial

from antecede.audit.reference.chain import chain_in_words
from antecede.audit.reference.happened_before import pasts
from antecede.audit.reference.history import History, Take
from antecede.audit.reference.takes import Marks, find_take, first_takes
from antecede.audit.reference.tally import Tally
from antecede.audit.report import Example, RuleResult


def judge_causal(history: History, *, across_topics: bool) -> RuleResult:
    """Checked: first takes not tagged. Violations: those of them that came before something they come after."""
    tally = Tally("causal")
    past = pasts(history, across_topics=across_topics)
    in_order = Marks(history)
    for take in first_takes(history):
        if not take.tagged:
            in_order.add(take.node, take.message)
    to_come = in_order.bitsets()
    for take in first_takes(history):
        if take.tagged:
            continue
        tally.checked += 1
        # The message itself leaves first: in a circle it is in its own past.
        rest = to_come[take.node] = to_come[take.node] ^ 1 << take.message
        overtaken = past[take.message] & rest
        if overtaken:
            tally.offence(partial(_example, history, take, _lowest_bit(overtaken), across_topics))
    return tally.result(if_nothing="nothing was published or delivered")


def _lowest_bit(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _example(history: History, early: Take, overtaken: int, across_topics: bool) -> Example:
    late = find_take(first_takes(history), early.node, overtaken)
    first, then = history.name(overtaken), history.name(early.message)
    why = chain_in_words(history, overtaken, early.message, across_topics=across_topics)
    verb = "published" if early.published else "delivered"
    return Example(
        words=f"node {early.node} {verb} {then} ({early.when}) before {first} ({late.when}), "
        f"but {first} came before {then}: {why}",
        nodes=(early.node,),
        messages=(history.keys[overtaken], history.keys[early.message]),
        rows=(early.row, late.row),
    )
