"""Holds the judge of arrays to `antecede.audit`, the judge of rows, verdict by verdict."""

from collections.abc import Sequence

from antecede.audit import Question, Report, audit
from antecede.audit.vectorised.verdict import Outcome
from antecede.core import UsageError
from antecede.trace import Row


def same_verdict(rows: Sequence[Row], asked: Question, outcome: Outcome) -> Report | None:
    """Assert that `outcome` is what `audit` says of `rows`, numbers, examples and words; give what it says.

    Only the chain in a causal example may differ: there are several true ones.
    """
    expected = _audited(rows, asked)
    if isinstance(expected, str):
        assert outcome.refused == expected
        return None
    assert outcome.refused is None
    found = outcome.report
    assert found is not None
    for name in ("rows", "nodes", "messages", "deliveries", "tagged"):
        assert getattr(found, name) == getattr(expected, name), name
    assert [rule.name for rule in found.rules] == [rule.name for rule in expected.rules]
    for ours, theirs in zip(found.rules, expected.rules, strict=True):
        assert (ours.name, ours.checked, ours.violations, ours.reason) == (
            theirs.name,
            theirs.checked,
            theirs.violations,
            theirs.reason,
        )
        assert (ours.example is None) == (theirs.example is None)
        if ours.example is None or theirs.example is None:
            continue
        assert (ours.example.nodes, ours.example.messages, ours.example.rows) == (
            theirs.example.nodes,
            theirs.example.messages,
            theirs.example.rows,
        ), ours.name
        words = [
            example.words.partition(": ")[0] if ours.name == "causal" else example.words
            for example in (ours.example, theirs.example)
        ]
        assert words[0] == words[1]
    return expected


def _audited(rows: Sequence[Row], asked: Question) -> Report | str:
    try:
        return audit(rows, across_topics=asked.across_topics, rules=asked.rules, broadcast_to=asked.broadcast_to)
    except UsageError as error:
        return str(error)
