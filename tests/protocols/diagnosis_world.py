"""A world of nothing but diagnosis: who changed their mind about whom, in which round."""

from collections.abc import Collection
from math import ceil
from typing import NamedTuple

from antecede.protocols.diagnosis.process import Diagnosis
from antecede.sim.engine import Simulation
from antecede.sim.network import Network, PacketSwitched, constant
from antecede.sim.units import TICKS

INTERVAL, TIMEOUT, DELAY = 1000 * TICKS, 400 * TICKS, 100 * TICKS


class Change(NamedTuple):
    time: int
    node: int
    about: int
    up: bool


class World:
    """Nodes that diagnose each other at rounds 1000 u.t. apart, the first at time 0."""

    def __init__(self, nodes: int, rounds: int, network: Network | None = None) -> None:
        self.nodes = nodes
        self.changes: list[Change] = []
        self.simulation = Simulation(self._make(rounds), range(nodes), network or PacketSwitched(constant(DELAY)))

    def _make(self, rounds: int):  # type: ignore[no-untyped-def]
        def make(node: int) -> Diagnosis:
            def tell(about: int, up: bool) -> None:
                self.changes.append(Change(self.simulation.now, node, about, up))

            return Diagnosis(node, self.nodes, interval_us=INTERVAL, timeout_us=TIMEOUT, rounds=rounds, tell=tell)

        return make

    def down_at(self, node: int) -> frozenset[int]:
        process = self.simulation.processes[node]
        assert isinstance(process, Diagnosis)
        return process.down

    def agreed(self, down: Collection[int]) -> bool:
        """Does every node that is up know exactly who is down?"""
        return all(self.down_at(node) == frozenset(down) for node in self.simulation.processes)

    def rounds_to_know(self, about: int, since: int, up: bool = False) -> list[int]:
        """For each node that is up: how many rounds after `since` its last change of mind about `about` was."""
        last: dict[int, int] = {}
        for change in self.changes:
            if change.about == about and change.up == up and change.time >= since:
                last[change.node] = change.time
        first_round = ceil(since / INTERVAL) * INTERVAL
        return [(last[node] - first_round) // INTERVAL + 1 for node in self.simulation.processes if node in last]


def crash_and_count(nodes: int, down: Collection[int], rounds: int) -> tuple[World, dict[int, list[int]]]:
    """All of `down` stop just before a round; rounds until each survivor knows, by node that stopped."""
    world = World(nodes, rounds + 1)
    when = INTERVAL - TICKS
    for node in down:
        world.simulation.at(when, lambda node=node: world.simulation.crash(node))
    world.simulation.run()
    return world, {node: world.rounds_to_know(node, when) for node in down}
