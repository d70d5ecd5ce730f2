"""Golden scenarios of all protocols: `ANTECEDE_REWRITE=1 pytest …` writes them anew, and the difference is reviewed."""

import os
from pathlib import Path

import pytest

from tests.protocols.flooding.scenario import FloodingScenario, TotalScenario
from tests.protocols.gossip.scenario import GossipScenario
from tests.protocols.locamu.scenario import LocamuScenario
from tests.protocols.plumtree.scenario import PlumtreeScenario
from tests.protocols.tno.scenario import Scenario as TnoScenario
from tests.protocols.vcube_ps.scenario import Scenario

#: What plays the scenarios of a package.
PLAYERS: dict[str, type[Scenario]] = {
    "delta_causal": FloodingScenario,
    "drscribe": FloodingScenario,
    "flooding": FloodingScenario,
    "gossip": GossipScenario,
    "locamu": LocamuScenario,
    "magnet": FloodingScenario,
    "message_history": FloodingScenario,
    "plumtree": PlumtreeScenario,
    "probabilistic_clocks": FloodingScenario,
    "propagation_tree": TotalScenario,
    "safe_links": PlumtreeScenario,
    "sequencing_atoms": TotalScenario,
    "tno": TnoScenario,
    "vcube_ps": Scenario,
}

SCENARIOS = sorted(Path(__file__).parent.glob("*/scenarios/*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_scenario(path: Path) -> None:
    play = PLAYERS[path.parts[-3]]
    scenario = play(path)
    told = scenario.run()
    if os.environ.get("ANTECEDE_REWRITE"):
        scenario.rewrite(told)
    else:
        assert told == scenario.expected
    assert told == play(path).run(), "the same scenario must happen twice in the same way"
