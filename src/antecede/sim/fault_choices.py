"""The faults that a user chooses by name. Several compose, in the order given. Times are in units of time (u.t.)."""

import random
from typing import Annotated

from msgspec import Meta

from antecede.core import UsageError
from antecede.core.choices import Choice
from antecede.sim.engine import Simulation
from antecede.sim.faults import crashing, duplicating, losing, noticing, partitioned
from antecede.sim.network import Network
from antecede.sim.units import ticks

Share = Annotated[float, Meta(ge=0, le=1)]
Time = Annotated[float, Meta(ge=0)]


class FaultChoice(Choice, frozen=True, kw_only=True):
    """A fault of the network (`around`) or of a node (`schedule`)."""

    def around(self, network: Network, nodes: int, seed: str) -> Network:
        return network

    def schedule(self, simulation: Simulation, nodes: int) -> None:
        """Schedule the fault, if it is one of a node."""


class Loss(FaultChoice, frozen=True, kw_only=True):
    """Packets are lost with this probability."""

    share: Share = 0.05

    def around(self, network: Network, nodes: int, seed: str) -> Network:
        return losing(network, self.share, random.Random(seed))


class Duplication(FaultChoice, frozen=True, kw_only=True):
    """Packets arrive a second time with this probability, up to `spread` later."""

    share: Share = 0.05
    spread: Time = 100.0

    def around(self, network: Network, nodes: int, seed: str) -> Network:
        return duplicating(network, self.share, random.Random(seed), ticks(self.spread))


class Partition(FaultChoice, frozen=True, kw_only=True):
    """The first `nodes` nodes and the others cannot reach each other from `begin` to `end`."""

    nodes: Annotated[int, Meta(ge=1)]
    begin: Time = 0.0
    end: Time

    def around(self, network: Network, nodes: int, seed: str) -> Network:
        return partitioned(network, range(self.nodes), ticks(self.begin), ticks(self.end))


class Crash(FaultChoice, frozen=True, kw_only=True):
    """A node crashes, and comes back with its kept records at `back` if that is given.

    With `noticed`, the failure detectors of all other nodes notice the crash, and the return, so long after it.
    """

    node: Annotated[int, Meta(ge=0)]
    at: Time
    back: Time | None = None
    noticed: Time | None = None

    def schedule(self, simulation: Simulation, nodes: int) -> None:
        if self.node >= nodes:
            raise UsageError(
                "fault", f"crash:node={self.node}", "there is no such node", f"choose one of 0 … {nodes - 1}"
            )
        crashing(simulation, self.node, ticks(self.at), None if self.back is None else ticks(self.back))
        if self.noticed is not None:
            noticing(simulation, self.node, ticks(self.at + self.noticed), down=True)
            if self.back is not None:
                noticing(simulation, self.node, ticks(self.back + self.noticed), down=False)


FAULTS: dict[str, type[FaultChoice]] = {
    "loss": Loss,
    "duplication": Duplication,
    "partition": Partition,
    "crash": Crash,
}
