"""Compares measured values with published ones and grades the difference: match, near, differs.

A difference is relative (percent of the published value); between percentages it is in percentage points. The bounds of
a match are chosen here and printed on the page. Papers give figures to two or three digits, often read off a plot, from
runs whose seeds and many of whose parameters are unknown.
"""

import enum
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from antecede.experiments.summary import Line

#: Of the published value.
MATCH_PERCENT: Final = 5.0
NEAR_PERCENT: Final = 20.0
#: Between percentages: a small percentage cannot be judged by proportion.
MATCH_POINTS: Final = 2.0
NEAR_POINTS: Final = 5.0

EXPLAINED: Final = (
    f"A value matches within {MATCH_PERCENT:g} % of the published one, and is near within {NEAR_PERCENT:g} %; "
    f"between percentages, {MATCH_POINTS:g} and {NEAR_POINTS:g} percentage points (pp) do as well."
)

_BOUND = "_upper_bound"


class Agreement(enum.StrEnum):
    MATCH = "matches"
    NEAR = "near"
    DIFFERS = "differs"

    @property
    def style(self) -> str:
        """The name of the grade in stylesheets and in `Score`."""
        return "match" if self is Agreement.MATCH else self.value


class Difference(NamedTuple):
    """`amount` is in percent of the published value, or in percentage points (`points`)."""

    amount: float
    points: bool
    agreement: Agreement

    def __str__(self) -> str:
        sign = "+" if self.amount > 0 else "−" if self.amount < 0 else "±"
        size = abs(self.amount)
        digits = 0 if size >= 100 else 1
        return f"{sign}{size:,.{digits}f} {'pp' if self.points else '%'}"


def difference(line: Line) -> Difference | None:
    """The difference between ours and the published value; None if nothing was published."""
    if line.published is None or not math.isfinite(line.ours):
        return None
    gap = line.ours - line.published
    relative = 100 * gap / abs(line.published) if line.published else None
    if is_bound(line) and gap <= 0:
        return Difference(relative or 0.0, False, Agreement.MATCH)
    if line.unit == "percent":
        agreement = _grade(abs(gap), MATCH_POINTS, NEAR_POINTS)
        if relative is not None:
            agreement = min(agreement, _grade(abs(relative), MATCH_PERCENT, NEAR_PERCENT), key=_ORDER.index)
        return Difference(gap, True, agreement)
    if relative is None:  # published as none at all
        return Difference(0.0 if gap == 0 else 100.0, False, Agreement.MATCH if gap == 0 else Agreement.DIFFERS)
    return Difference(relative, False, _grade(abs(relative), MATCH_PERCENT, NEAR_PERCENT))


def is_bound(line: Line) -> bool:
    """Whether the published value is an upper bound ("at most")."""
    return line.unit.endswith(_BOUND)


def unit_in_words(unit: str) -> str:
    plain = unit.removesuffix(_BOUND)
    return {"percent": "%", "ut": "u.t.", "ratio": "×"}.get(plain, plain)


def _grade(size: float, match: float, near: float) -> Agreement:
    return Agreement.MATCH if size <= match else Agreement.NEAR if size <= near else Agreement.DIFFERS


_ORDER = (Agreement.MATCH, Agreement.NEAR, Agreement.DIFFERS)


class Score(NamedTuple):
    """The number of published values by how near ours come."""

    match: int = 0
    near: int = 0
    differs: int = 0

    @property
    def total(self) -> int:
        return self.match + self.near + self.differs

    def __str__(self) -> str:
        return f"{self.match} match, {self.near} near, {self.differs} differ"


def scores(lines: Sequence[Line]) -> dict[str, Score]:
    """The score of each setting that has a published value to compare with."""
    found: dict[str, dict[str, int]] = {}
    for line in lines:
        gap = difference(line)
        if gap is not None:
            counts = found.setdefault(line.setting, dict.fromkeys(Score._fields, 0))
            counts[gap.agreement.style] += 1
    return {setting: Score(**counts) for setting, counts in found.items()}
