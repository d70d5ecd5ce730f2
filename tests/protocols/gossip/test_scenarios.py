"""Golden scenarios: `ANTECEDE_REWRITE=1 pytest …` writes them anew, and the difference is reviewed."""

import os
from pathlib import Path

import pytest

from tests.protocols.gossip.scenario import GossipScenario

SCENARIOS = sorted(Path(__file__).with_name("scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    scenario = GossipScenario(path)
    told = scenario.run()
    if os.environ.get("ANTECEDE_REWRITE"):
        scenario.rewrite(told)
    else:
        assert told == scenario.expected
