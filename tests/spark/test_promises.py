"""A sweep's runs are judged by what their protocol promises, unless something else was asked for."""

from antecede.audit import DEFAULT_RULES, Question
from antecede.spark.audit_targets import AuditTarget
from antecede.spark.verdicts import _question


def test_a_run_is_asked_what_it_promises() -> None:
    kept = ("causal", "complete")
    promising = AuditTarget(name="a", promises=kept)
    assert _question(promising, Question(), None).rules == kept
    assert _question(AuditTarget(name="b"), Question(), None).rules == DEFAULT_RULES
    asked = Question(rules=("tree-edges-once",))
    assert _question(promising, asked, None).rules == asked.rules


def test_order_is_asked_for_where_it_is_promised() -> None:
    within = AuditTarget(name="a", across_topics=False)
    assert not _question(within, Question(), None).across_topics
    assert _question(within, Question(), True).across_topics
    assert _question(AuditTarget(name="b"), Question(), None).across_topics
