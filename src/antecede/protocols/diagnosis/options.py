"""Options of VCube's diagnosis, alone or below another protocol."""

from collections.abc import Callable
from typing import Annotated, Final

from msgspec import Meta

from antecede.protocols.diagnosis.diagnosed import Diagnosed
from antecede.protocols.diagnosis.process import Diagnosis, Tell
from antecede.protocols.options import TICKS, Founders, GroupOptions, MakeProcess

#: Probes before a suspicion, below a protocol whose links lose packets. At 5 % loss one test in ten fails; seven in a
#: row failed in none of 100 runs of 20 rounds and 32 nodes. A crash is noticed after 1.6 rounds instead of 0.4.
TRIES: Final = 7


class DiagnosisOptions(GroupOptions, frozen=True, kw_only=True):
    """VCube's diagnosis alone."""

    #: How many rounds; 0: no end.
    rounds: Annotated[int, Meta(ge=0)] = 20
    #: How many probes in a row a node must leave unanswered to be suspected. The thesis has 1; links that lose packets
    #: need more.
    tries: Annotated[int, Meta(ge=1)] = 1
    #: A round, in units of time. A test waits up to 0.4 of it for its answer.
    round: Annotated[float, Meta(gt=0)] = 1000.0

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        diagnose = _diagnosis(nodes, self.rounds, self.round, self.tries)
        return lambda node: diagnose(node)(None)


def diagnosed(make: MakeProcess, nodes: int, rounds: int, round_: float) -> MakeProcess:
    """Processes with a diagnosis that tells them which nodes are down."""
    diagnose = _diagnosis(nodes, rounds, round_, TRIES)
    return lambda node: Diagnosed(make(node), diagnose(node))


def _diagnosis(
    nodes: int, rounds: int, round_: float, tries: int
) -> Callable[[int], Callable[[Tell | None], Diagnosis]]:
    """By node, then by listener: the diagnosis."""
    interval_us, timeout_us = round(round_ * TICKS), round(0.4 * round_ * TICKS)
    return lambda node: (
        lambda tell: Diagnosis(
            node, nodes, interval_us=interval_us, timeout_us=timeout_us, tries=tries, rounds=rounds, tell=tell
        )
    )
