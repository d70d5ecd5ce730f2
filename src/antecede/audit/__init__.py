"""The independent judge: decides from a trace alone whether order held.

It shares no code with the protocols it judges. It imports the trace's columns (`antecede.trace`), the errors
(`antecede.core.errors`) and the standard library, nothing else; a test holds it to that.

    report = audit(recorder.rows())
    if not report.ok:
        print(report)

A rule is `held`, `violated`, or `unknown` when the trace holds nothing it could be judged by. A trace that contradicts
itself (a delivery without a topic, a node whose time goes backwards) is refused with a `UsageError` that names the row.
Rows count from 0, as in the table.
"""

from antecede.audit.reference.history import MESSAGES_MAX, OUT_OF_ORDER
from antecede.audit.reference.judge import ALL_RULES, DEFAULT_RULES, audit
from antecede.audit.report import Example, Report, RuleResult, Verdict

__all__ = [
    "ALL_RULES",
    "DEFAULT_RULES",
    "MESSAGES_MAX",
    "OUT_OF_ORDER",
    "Example",
    "Report",
    "RuleResult",
    "Verdict",
    "audit",
]
