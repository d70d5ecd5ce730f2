"""Counts of a rule over a part of a run, which add up; the offence that came first stays."""

import msgspec

from antecede.audit.report import Example


class Offence(msgspec.Struct, frozen=True, kw_only=True):
    """What was wrong. Offences of one rule are compared by `order`: normally the row."""

    order: tuple[int, ...]
    example: Example


class Tally(msgspec.Struct, kw_only=True):
    """What a rule looked at, and what was wrong."""

    checked: int = 0
    violations: int = 0
    first: Offence | None = None

    def add(self, other: "Tally") -> None:
        self.checked += other.checked
        self.violations += other.violations
        if other.first is not None:
            self.offence(other.first)

    def offence(self, offence: Offence) -> None:
        """Keep it if it came before what is kept. Counting is the caller's."""
        if self.first is None or offence.order < self.first.order:
            self.first = offence

    def comes_first(self, *order: int) -> bool:
        """Would an offence of this order be kept? Asked before the trouble of describing it."""
        return self.first is None or order < self.first.order
