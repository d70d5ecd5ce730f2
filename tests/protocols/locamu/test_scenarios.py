"""Golden scenarios: `ANTECEDE_REWRITE=1 pytest …` writes them anew, and the difference is reviewed."""

import os
from pathlib import Path

import pytest

from antecede.protocols.locamu.options import LoCaMuOptions
from antecede.protocols.options import Founders, GroupOptions, MakeProcess
from tests.protocols.locamu.mutations import NumbersTooNear, make_mutant
from tests.protocols.locamu.scenario import LocamuScenario

SCENARIOS = sorted(Path(__file__).with_name("scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    scenario = LocamuScenario(path)
    told = scenario.run()
    if os.environ.get("ANTECEDE_REWRITE"):
        scenario.rewrite(told)
    else:
        assert told == scenario.expected
    assert told == LocamuScenario(path).run(), "the same scenario must happen twice in the same way"


class _TooNear(LocamuScenario):
    """The same with numbers given f + 1 far only, as printed."""

    def chosen(self) -> GroupOptions:
        chosen = super().chosen()
        assert isinstance(chosen, LoCaMuOptions)
        return _TooNearOptions(**{name: getattr(chosen, name) for name in chosen.__struct_fields__})


class _TooNearOptions(LoCaMuOptions, frozen=True, kw_only=True):
    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        members = {topic: list(taken) for topic, taken in founders.items()}
        return make_mutant(NumbersTooNear)(self.base_graph(nodes), members, self.f)


def test_numbering_f_plus_one_far_is_not_enough() -> None:
    """L11: of the same run of three arms, the end is then another."""
    told = _TooNear(Path(__file__).with_name("scenarios") / "numbered_four_far.txt").run()
    assert "node 6 delivered all/3.1" in told.splitlines()[-1]
    assert "before all/2.1" in told.splitlines()[-1]
