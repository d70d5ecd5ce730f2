"""What may go wrong, as functions around a network that compose in any order, and crashes as scheduled events."""

import random
from collections.abc import Callable, Collection, Iterable

from antecede.sim.engine import Simulation
from antecede.sim.network import Network


class _Around:
    """A fault around a network: packets go through it, and it may change what comes of them."""

    def __init__(self, network: Network, change: Callable[[int, int, int, Iterable[int]], Iterable[int]]) -> None:
        self.weighs = network.weighs
        self._network = network
        self._change = change

    def arrivals(self, now: int, sender: int, to: int, size: int) -> Iterable[int]:
        return self._change(now, sender, to, self._network.arrivals(now, sender, to, size))


def losing(network: Network, share: float, rng: random.Random) -> Network:
    """Each arrival is lost with probability `share`."""
    return _Around(network, lambda now, sender, to, times: [t for t in times if rng.random() >= share])


def duplicating(network: Network, share: float, rng: random.Random, spread: int) -> Network:
    """Each arrival happens a second time with probability `share`, up to `spread` ticks later."""

    def change(now: int, sender: int, to: int, times: Iterable[int]) -> Iterable[int]:
        for t in times:
            yield t
            if rng.random() < share:
                yield t + rng.randrange(spread + 1)

    return _Around(network, change)


def partitioned(network: Network, side: Collection[int], begin: int, end: int) -> Network:
    """From `begin` to `end` nothing sent crosses between `side` and the rest."""
    inside = frozenset(side)

    def change(now: int, sender: int, to: int, times: Iterable[int]) -> Iterable[int]:
        return () if begin <= now < end and (sender in inside) != (to in inside) else times

    return _Around(network, change)


def crashing(simulation: Simulation, node: int, at: int, back: int | None = None) -> None:
    """`node` stops at `at` and, unless it is gone for good, starts again from what it kept at `back`."""
    simulation.at(at, lambda: simulation.crash(node))
    if back is not None:
        simulation.at(back, lambda: simulation.recover(node))


def noticing(simulation: Simulation, node: int, at: int, *, down: bool) -> None:
    """At `at` the failure detectors of all other nodes that are up say that `node` is down, or that it is back."""

    def tell() -> None:
        for other in sorted(simulation.processes):
            if other != node:
                (simulation.suspect if down else simulation.trust)(other, node)

    simulation.at(at, tell)
