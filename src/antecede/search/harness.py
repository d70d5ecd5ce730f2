"""What a random search is: a function of a seed that makes a run, has it judged, and says what it found.

"No violation in ten thousand runs" is a claim about such a function. It runs in a test's loop, under hypothesis and as
tasks on Spark (`antecede search`), and the seed alone brings a failure back. The searches there are stand in
`experiments.searches`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from antecede.audit import Report
from antecede.sim.engine import Simulation
from antecede.sim.units import TICKS, ticks


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one seed."""

    seed: int
    #: By what was violated, a rule of the audit or what a trace does not say ("blocked"): the first offence in words.
    offences: dict[str, str]
    messages: int
    deliveries: int
    packets: int

    @property
    def ok(self) -> bool:
        return not self.offences

    @property
    def violated(self) -> tuple[str, ...]:
        return tuple(self.offences)

    @property
    def words(self) -> str:
        return "\n".join(f"{rule}: {offence}" for rule, offence in self.offences.items())


#: Equal seeds give equal verdicts, in any process.
SearchSeed: TypeAlias = Callable[[int], Verdict]


class Search(NamedTuple):
    """A search as the command line lists it."""

    summary: str
    run: SearchSeed


def run_to_rest(simulation: Simulation, step: float, events_max: int) -> None:
    """Run, `step` u.t. at a time, until nothing is left to happen; or, if that does not come, for so many events."""
    while simulation.pending and simulation.steps < events_max:
        simulation.run(until=simulation.now + ticks(step))


def offences(report: Report, simulation: Simulation, more: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """What the judge found, whether things came to rest, and what else was looked at, by name."""
    found = {rule.name: rule.example.words for rule in report.rules if rule.example is not None}
    if simulation.pending:
        found["restless"] = f"{simulation.pending} events pending at {simulation.now / TICKS:.0f} u.t."
    return found | {name: "; ".join(words) for name, words in more.items() if words}
