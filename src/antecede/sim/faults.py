"""Faults of the network, as functions around a network that compose in any order, and crashes as scheduled events."""

import random
from collections.abc import Callable, Collection, Sequence

from antecede.sim.engine import Simulation
from antecede.sim.network import Network


class _Around:
    """A network with a fault: it may change the arrivals of each packet."""

    def __init__(self, network: Network, change: Callable[[int, int, int, Sequence[int]], Sequence[int]]) -> None:
        self.weighs = network.weighs
        self._network = network
        self._change = change

    def arrivals(self, now: int, sender: int, to: int, size: int) -> Sequence[int]:
        return self._change(now, sender, to, self._network.arrivals(now, sender, to, size))


def losing(network: Network, share: float, rng: random.Random) -> Network:
    """Each arrival is lost with probability `share`."""
    return _Around(network, lambda now, sender, to, times: [t for t in times if rng.random() >= share])


def duplicating(network: Network, share: float, rng: random.Random, spread: int) -> Network:
    """Each arrival happens a second time with probability `share`, up to `spread` ticks later."""

    def change(now: int, sender: int, to: int, times: Sequence[int]) -> Sequence[int]:
        found = []
        for t in times:
            found.append(t)
            if rng.random() < share:
                found.append(t + rng.randrange(spread + 1))
        return found

    return _Around(network, change)


def partitioned(network: Network, side: Collection[int], begin: int, end: int) -> Network:
    """From `begin` to `end` packets between `side` and the other nodes are lost."""
    inside = frozenset(side)

    def change(now: int, sender: int, to: int, times: Sequence[int]) -> Sequence[int]:
        return () if begin <= now < end and (sender in inside) != (to in inside) else times

    return _Around(network, change)


def crashing(simulation: Simulation, node: int, at: int, back: int | None = None) -> None:
    """`node` crashes at `at` and, if `back` is given, starts again then from its kept records."""
    simulation.at(at, lambda: simulation.crash(node))
    if back is not None:
        simulation.at(back, lambda: simulation.recover(node))


def noticing(simulation: Simulation, node: int, at: int, *, down: bool) -> None:
    """At `at` the failure detectors of all other nodes that are up suspect `node`, or trust it again.

    A node that is back finds out, too, which others are down.
    """

    def tell() -> None:
        for other in sorted(simulation.processes):
            if other != node:
                (simulation.suspect if down else simulation.trust)(other, node)
        if not down:
            for other in simulation.down:
                simulation.suspect(node, other)

    simulation.at(at, tell)
