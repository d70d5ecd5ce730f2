"""Golden scenarios: `ANTECEDE_REWRITE=1 pytest …` writes them anew, and the difference is reviewed."""

import os
from pathlib import Path

import pytest

from tests.protocols.plumtree.scenario import PlumtreeScenario

SCENARIOS = sorted(Path(__file__).with_name("scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    scenario = PlumtreeScenario(path)
    told = scenario.run()
    if os.environ.get("ANTECEDE_REWRITE"):
        scenario.rewrite(told)
    else:
        assert told == scenario.expected
    assert told == PlumtreeScenario(path).run(), "the same scenario must happen twice in the same way"
