"""Rule `causal`: a node that takes both m and m′ takes m first if m came before m′.

At each take of m′ the judge looks at what the node has yet to take: nothing in it may have come before m′. Deliveries
tagged out of order are not judged, neither as m nor as m′, because the protocol told the reader so. They still count as
seen by the node: what it publishes later comes after them, and is judged so at every other node.

At the node itself, a publication that follows a delivery tagged incomplete is not judged. Its past is what the node
took before it: if it overtakes a message, so does an untagged delivery, which is judged, or the incomplete one, which
told that messages before it are missing.
"""

from collections.abc import Iterator
from functools import partial

from antecede.audit import wording
from antecede.audit.reference.chain import links_between
from antecede.audit.reference.happened_before import pasts
from antecede.audit.reference.history import History, Take
from antecede.audit.reference.takes import Marks, find_take, first_takes
from antecede.audit.reference.tally import Tally
from antecede.audit.report import Example, RuleResult


def judge_causal(history: History, *, across_topics: bool, examples: int) -> RuleResult:
    """Checked: first takes that are judged. Violations: those that happened before a take of something earlier."""
    tally = Tally("causal", examples)
    past = pasts(history, across_topics=across_topics)
    in_order = Marks(history)
    for take in _judged_takes(history):
        in_order.add(take.node, take.message)
    to_come = in_order.bitsets()
    for take in _judged_takes(history):
        tally.checked += 1
        # The message itself leaves first: in a circle it is in its own past.
        rest = to_come[take.node] = to_come[take.node] ^ 1 << take.message
        overtaken = past[take.message] & rest
        if overtaken:
            tally.violation(partial(_example, history, take, _lowest_bit(overtaken), across_topics))
    return tally.result()


def _judged_takes(history: History) -> Iterator[Take]:
    """First takes, without tagged deliveries, and without publications after an incomplete one at their node."""
    told = set()
    for take in first_takes(history):
        if take.incomplete:
            told.add(take.node)
        if take.tagged:
            continue
        if not (take.published and take.node in told):
            yield take


def _lowest_bit(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _example(history: History, early: Take, overtaken: int, across_topics: bool) -> Example:
    late = find_take(first_takes(history), early.node, overtaken)
    links = links_between(history, overtaken, early.message, across_topics=across_topics)
    return wording.overtaking(history.at(early), history.at(late), wording.chain(links))
