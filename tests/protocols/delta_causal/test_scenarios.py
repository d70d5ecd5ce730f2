"""Golden scenarios: `ANTECEDE_REWRITE=1 pytest …` writes them anew, and the difference is reviewed."""

import os
from pathlib import Path

import pytest

from tests.protocols.flooding.scenario import FloodingScenario

SCENARIOS = sorted(Path(__file__).with_name("scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    scenario = FloodingScenario(path)
    told = scenario.run()
    if os.environ.get("ANTECEDE_REWRITE"):
        scenario.rewrite(told)
    else:
        assert told == scenario.expected
    assert told == FloodingScenario(path).run(), "the same scenario must happen twice in the same way"
