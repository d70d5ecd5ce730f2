"""Golden scenarios with an error put back: another end."""

from pathlib import Path

from antecede.protocols.locamu import LoCaMu
from antecede.protocols.locamu.options import LoCaMuOptions
from antecede.protocols.options import Founders, GroupOptions, MakeProcess
from tests.protocols.locamu.mutations import DuplicatesWait, NumbersTooNear, mutants
from tests.protocols.locamu.scenario import LocamuScenario


class _Mutated(LocamuScenario):
    """The same with an error put back."""

    def __init__(self, name: str, mutant: type[LoCaMu]) -> None:
        super().__init__(Path(__file__).with_name("scenarios") / f"{name}.txt")
        self._mutant = mutant

    def chosen(self) -> GroupOptions:
        chosen = super().chosen()
        assert isinstance(chosen, LoCaMuOptions)
        values = {name: getattr(chosen, name) for name in chosen.__struct_fields__}
        return _MutatedOptions(mutant=self._mutant, **values)


class _MutatedOptions(LoCaMuOptions, frozen=True, kw_only=True):
    mutant: type[LoCaMu]

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        return mutants(self.mutant, self.base_graph(nodes), founders, self.f)


def test_numbering_f_plus_one_far_is_not_enough() -> None:
    """Of the same run of three arms, the end is then another."""
    told = _Mutated("numbered_four_far", NumbersTooNear).run()
    assert "node 6 delivered all/3.1" in told.splitlines()[-1]
    assert "before all/2.1" in told.splitlines()[-1]


def test_a_duplicate_that_waits_does_so_for_ever() -> None:
    """Which the search cannot show, for it happens only where something is lost with its publisher.

    There the search asks for order alone. Where nothing is lost, somebody has what it waits for, and sends it.
    """
    told = _Mutated("a_duplicate_does_not_wait", DuplicatesWait).run()
    assert "held: {2: 1}" in told.splitlines()[-1]
