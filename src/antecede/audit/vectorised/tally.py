"""Counts a rule over a part of a run. Counts of several parts add up; the first violation is kept as the example."""

import msgspec

from antecede.audit.report import Example


class Tally(msgspec.Struct, kw_only=True):
    """What a rule checked, and what violated it."""

    checked: int = 0
    violations: int = 0
    #: The first violation found so far. Violations of one rule are compared by `order`, normally the row.
    order: tuple[int, ...] = ()
    example: Example | None = None

    def add(self, other: "Tally") -> None:
        self.checked += other.checked
        self.violations += other.violations
        if other.example is not None:
            self.violation(other.example, *other.order)

    def violation(self, example: Example, *order: int) -> None:
        """Keep the example if it comes before the one that is kept. The caller counts."""
        if self.comes_first(*order):
            self.order, self.example = order, example

    def comes_first(self, *order: int) -> bool:
        """Tell whether a violation of this order would be kept, before the caller describes it."""
        return self.example is None or order < self.order
