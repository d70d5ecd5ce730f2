"""Counts what a rule checked and what violated it, and keeps the first violation as the example."""

from collections.abc import Callable

from antecede.audit.report import Example, RuleResult
from antecede.audit.rules import NOTHING_TO_CHECK


class Tally:
    """The counts of one rule. Violations come in the order of the trace, so the example is the first that happened."""

    def __init__(self, rule: str) -> None:
        self.checked = 0
        self._rule = rule
        self._violations = 0
        self._example: Example | None = None

    def violation(self, describe: Callable[[], Example]) -> None:
        """Count a violation; call `describe` if it is the first. Describing may be slow."""
        self._violations += 1
        if self._example is None:
            self._example = describe()

    def result(self, why_nothing: str = "") -> RuleResult:
        """The outcome. `why_nothing`: a special reason to give if there was nothing to check."""
        return RuleResult(
            name=self._rule,
            checked=self.checked,
            violations=self._violations,
            example=self._example,
            reason="" if self.checked else why_nothing or NOTHING_TO_CHECK[self._rule],
        )
