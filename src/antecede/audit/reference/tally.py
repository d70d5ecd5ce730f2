"""Counts what a rule checked and what violated it, and keeps the first violations as examples."""

from collections.abc import Callable

from antecede.audit.report import Example, RuleResult
from antecede.audit.rules import NOTHING_TO_CHECK


class Tally:
    """The counts of one rule. Violations come in the order of the trace, so the examples are the first that happened.

    `examples`: how many to keep.
    """

    def __init__(self, rule: str, examples: int) -> None:
        self.checked = 0
        self._examples_max = examples
        self._rule = rule
        self._violations = 0
        self._examples: list[Example] = []

    def violation(self, describe: Callable[[], Example]) -> None:
        """Count a violation; call `describe` if it is kept. Describing may be slow."""
        self._violations += 1
        if len(self._examples) < self._examples_max:
            self._examples.append(describe())

    def result(self, why_nothing: str = "") -> RuleResult:
        """The outcome. `why_nothing`: a special reason to give if there was nothing to check."""
        return RuleResult(
            name=self._rule,
            checked=self.checked,
            violations=self._violations,
            example=self._examples[0] if self._examples else None,
            more=tuple(self._examples[1:]),
            reason="" if self.checked else why_nothing or NOTHING_TO_CHECK[self._rule],
        )
