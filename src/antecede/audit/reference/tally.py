"""Counts what a rule looked at and what was wrong with it, and keeps the first offence."""

from collections.abc import Callable

from antecede.audit.report import Example, RuleResult


class Tally:
    """A rule in the making. Offences come in the order of the trace, so the first told is the first that happened."""

    def __init__(self, rule: str) -> None:
        self.checked = 0
        self._rule = rule
        self._violations = 0
        self._example: Example | None = None

    def offence(self, describe: Callable[[], Example]) -> None:
        """Count one more; have it described if it is the first. Describing may be slow, it happens once."""
        self._violations += 1
        if self._example is None:
            self._example = describe()

    def result(self, *, if_nothing: str) -> RuleResult:
        """The outcome; `if_nothing` is the reason to give if there was nothing to check."""
        return RuleResult(
            name=self._rule,
            checked=self.checked,
            violations=self._violations,
            example=self._example,
            reason="" if self.checked else if_nothing,
        )
