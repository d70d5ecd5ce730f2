"""Every scenario in `scenarios/`: the verdicts as written by hand, and the report word for word."""

import os
from pathlib import Path

import pytest

from antecede.audit import Verdict

from .scenario import read_scenario

PATHS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    scenario = read_scenario(path)
    report = scenario.audit()
    for verdict in (Verdict.VIOLATED, Verdict.UNKNOWN):
        assert {rule.name for rule in report.rules if rule.verdict is verdict} == scenario.expected[verdict]
    assert report.ok == (not scenario.expected["violated"])
    if os.environ.get("ANTECEDE_REWRITE"):
        scenario.rewrite(str(report))
        scenario = read_scenario(path)
    assert str(report) == scenario.report


def test_the_triangle_is_there() -> None:
    assert PATHS[0].stem == "01_triangle"
