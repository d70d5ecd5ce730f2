"""Members join and leave while others publish (thesis 5.6.6).

Session times are exponential, so the moments at which members leave are a Poisson process of rate size / session. For
every member that leaves, another node, drawn from those outside, joins: the group keeps its size. Messages are
published by members drawn at random, on average one every `interval`.
"""

import random
from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

from antecede.core import UsageError
from antecede.sim.engine import Simulation
from antecede.sim.units import ticks
from antecede.sim.workload import TOPIC, Count, Members, NotNegative, Positive, WorkloadChoice, ignore


class Churn(WorkloadChoice, frozen=True, kw_only=True):
    """Members leave and others join at a steady rate, while random members publish."""

    messages: Count = 128
    #: Mean time between two messages of any members; exponential.
    interval: Positive = 500.0
    #: Mean time a member stays; 0: for ever.
    session: NotNegative = 0.0
    #: Members of the group; 0: the share `subscribers` of the nodes.
    size: Annotated[int, Meta(ge=0)] = 0
    #: Are the first members there from the beginning? If not they subscribe at time 0, each with its own wave.
    founders: bool = True
    #: When the first message is published.
    begin: NotNegative = 0.0

    def members(self, nodes: int, rng: random.Random) -> Members:
        return {TOPIC: self._first(nodes, rng)} if self.founders else {TOPIC: ()}

    def start(self, simulation: Simulation, members: Members, rng: random.Random) -> None:
        nodes = len(simulation.processes)
        inside = list(members[TOPIC] or self._first(nodes, rng))
        outside = sorted(set(range(nodes)) - set(inside))
        if not self.founders:
            for node in inside:
                simulation.at(0, _change(simulation.subscribe, node))
        end = self._publish(simulation, inside, rng)
        if self.session:
            self._churn(simulation, inside, outside, end, rng)

    def _first(self, nodes: int, rng: random.Random) -> list[int]:
        size = self.size or max(1, round(self.subscribers * nodes))
        if size > nodes or (self.session and size == nodes):
            raise UsageError(
                "workload",
                f"churn with {size} members",
                f"there are {nodes} nodes",
                "leave some outside, to join later",
            )
        return sorted(rng.sample(range(nodes), size))

    def _publish(self, simulation: Simulation, inside: list[int], rng: random.Random) -> float:
        """Schedules the messages; returns when the last is published."""
        payload = bytes(self.payload)

        def publish() -> None:
            ignore(simulation.publish(inside[rng.randrange(len(inside))], TOPIC, payload))

        time = self.begin
        for _ in range(self.messages):
            time += rng.expovariate(1 / self.interval)
            simulation.at(ticks(time), publish)
        return time

    def _churn(
        self, simulation: Simulation, inside: list[int], outside: list[int], end: float, rng: random.Random
    ) -> None:
        def replace() -> None:
            leaver, joiner = rng.randrange(len(inside)), rng.randrange(len(outside))
            inside[leaver], outside[joiner] = outside[joiner], inside[leaver]
            simulation.unsubscribe(outside[joiner], TOPIC)
            simulation.subscribe(inside[leaver], TOPIC)

        time = self.begin
        while (time := time + rng.expovariate(len(inside) / self.session)) < end:
            simulation.at(ticks(time), replace)


def _change(change: Callable[[int, str], None], node: int) -> Callable[[], None]:
    return lambda: change(node, TOPIC)
