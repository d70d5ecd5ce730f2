"""Counts what the header says: how many published values match, how many runs held."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from antecede.experiments.summary import Line
from antecede.report.agreement import Agreement, difference
from antecede.report.contents import AuditRow


class Score(NamedTuple):
    """Published values by how near ours come."""

    match: int = 0
    near: int = 0
    differs: int = 0

    @property
    def total(self) -> int:
        return self.match + self.near + self.differs


def score(lines: Iterable[Line]) -> Score:
    found = dict.fromkeys(Agreement, 0)
    for line in lines:
        gap = difference(line)
        if gap is not None:
            found[gap.agreement] += 1
    return Score(found[Agreement.MATCH], found[Agreement.NEAR], found[Agreement.DIFFERS])


def scores(lines: Sequence[Line]) -> dict[str, Score]:
    """By setting, of those that have a published value to compare with."""
    by_setting = {
        setting: score(line for line in lines if line.setting == setting)
        for setting in dict.fromkeys(line.setting for line in lines)
    }
    return {setting: found for setting, found in by_setting.items() if found.total}


class RuleTally(NamedTuple):
    """One rule over all audited runs."""

    rule: str
    held: int
    violated: int
    unknown: int
    checked: int
    violations: int


def rule_tallies(rows: Sequence[AuditRow]) -> list[RuleTally]:
    tallies = []
    for rule in dict.fromkeys(row.rule for row in rows if row.rule):
        of_rule = [row for row in rows if row.rule == rule]
        verdicts = [row.verdict for row in of_rule]
        tallies.append(
            RuleTally(
                rule,
                verdicts.count("held"),
                verdicts.count("violated"),
                verdicts.count("unknown"),
                sum(row.checked for row in of_rule),
                sum(row.violations for row in of_rule),
            )
        )
    return tallies
