"""Judges a run by its trace alone: did causal order hold, did every message arrive once, was anything made up?

    report = audit(recorder.rows())
    if not report.ok:
        print(report)

Three judges apply one set of rules (`rules`) and say it in the same words (`wording`):

    reference/    plain Python on rows, for small traces: this `audit`, the definition of every rule
    vectorised/   NumPy on Arrow columns, for large traces, whole or in buckets; needs `antecede[lab]`
    online.py     one node's deliveries as they happen, in bounded memory; `answers.py`: by it, answers of a broker's
                  records that were shown before their questions

The audit shares no code with the protocols it judges. It imports the trace's columns (`antecede.trace`) and the errors
(`antecede.core.errors`); a test holds it to that.

A rule is `held`, `violated`, or `unknown` if the trace has nothing to judge it by. A trace that contradicts itself (a
delivery without a topic, a node whose time goes backwards) is refused with a `UsageError` that names the row. Rows
count from 0, as in the table.
"""

from antecede.audit.reference.history import MESSAGES_MAX
from antecede.audit.reference.judge import audit
from antecede.audit.report import Example, Report, RuleResult, Verdict
from antecede.audit.rules import ALL_RULES, DEFAULT_RULES, INCOMPLETE, OUT_OF_ORDER, Question

__all__ = [
    "ALL_RULES",
    "DEFAULT_RULES",
    "INCOMPLETE",
    "MESSAGES_MAX",
    "OUT_OF_ORDER",
    "Example",
    "Question",
    "Report",
    "RuleResult",
    "Verdict",
    "audit",
]
