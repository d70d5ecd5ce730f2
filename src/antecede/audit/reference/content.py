"""Rule `same-content`: a message has one content, wherever it is published or delivered.

A source that lost its counter (a directory restored from a backup, copied, or cut) gives one sequence number to two
messages, and nodes then deliver different contents under one name. The content of a message is that of its first
publish row with a digest; without one, that of its first deliver row with a digest. Rows without a digest are not
judged.
"""

from functools import partial

from antecede.audit import wording
from antecede.audit.reference.history import History, Take
from antecede.audit.reference.tally import Tally
from antecede.audit.report import RuleResult


def judge_same_content(history: History, *, examples: int) -> RuleResult:
    """Checked: publish and deliver rows with a digest. Violations: those with another content than the message's."""
    tally = Tally("same-content", examples)
    content: dict[int, Take] = {}
    for take in history.takes():
        if take.digest >= 0:
            known = content.get(take.message)
            if known is None or (take.published and not known.published):
                content[take.message] = take
    for take in history.takes():
        if take.digest < 0:
            continue
        tally.checked += 1
        first = content[take.message]
        if take.digest != first.digest:
            tally.violation(partial(wording.two_contents, history.at(first), history.at(take)))
    return tally.result()
