"""Network models: when does a packet that is sent now arrive? (Faults are in `sim.faults`.)

The papers' packet-switched model (thesis 4.5.1, after Kurose and Ross): a packet takes t_pc + t_q + t_t + t_pp.
Processing t_pc is a pure delay at the sender. Then the packet queues (t_q) behind the packets the node still has to put
on its one wire. Transmission t_t occupies that wire, for a fixed time or for as long as the packet's bytes take.
Propagation t_pp is drawn for the packet, fixed for the link, or read from a matrix of measured latencies.

A queue costs no event: when a packet is sent, the time at which the wire becomes free is known.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias

#: Propagation time in ticks from one node to another.
Propagation: TypeAlias = Callable[[int, int], int]


class Network(Protocol):
    """Packet in, arrival times out: none if it is lost, two if it is duplicated."""

    #: Do sizes matter? If not, the engine does not compute them.
    weighs: bool

    def arrivals(self, now: int, sender: int, to: int, size: int) -> Sequence[int]: ...


class PacketSwitched:
    """One FIFO send queue a node, shared by all its links."""

    def __init__(
        self, propagation: Propagation, *, processing: int = 0, transmission: int = 0, ticks_per_byte: float = 0.0
    ) -> None:
        self.weighs = ticks_per_byte > 0
        #: How long a byte occupies the wire.
        self.ticks_per_byte = ticks_per_byte
        #: Ticks that packets spent queueing, over all nodes: t_q summed.
        self.queued = 0
        self._propagation = propagation
        self._processing = processing
        self._transmission = transmission
        self._wire_free: dict[int, int] = {}

    def arrivals(self, now: int, sender: int, to: int, size: int) -> tuple[int, ...]:
        start = now + self._processing
        free = self._wire_free.get(sender, start)
        if free > start:
            self.queued += free - start
            start = free
        leaves = start + self._transmission
        if self.ticks_per_byte:
            leaves += round(size * self.ticks_per_byte)
        self._wire_free[sender] = leaves
        return (leaves + self._propagation(sender, to),)


# -- propagation ------------------------------------------------------------------------------------------------------


def constant(delay: int) -> Propagation:
    return lambda sender, to: delay


def normal(rng: random.Random, mean: int, deviation: int, least: int) -> Propagation:
    """Drawn anew for every packet; packets on one link may overtake each other."""

    def delays() -> Iterator[int]:
        """Draw what `rng.gauss` would, number for number: two numbers from each Box-Muller transform."""
        uniform = rng.random
        while True:
            angle = uniform() * math.tau
            radius = math.sqrt(-2.0 * math.log(1.0 - uniform()))
            yield max(least, int(mean + math.cos(angle) * radius * deviation))
            yield max(least, int(mean + math.sin(angle) * radius * deviation))

    draw = delays().__next__
    return lambda sender, to: draw()


def heavy_tailed(rng: random.Random, mean: int, shape: float) -> Propagation:
    """Pareto: most packets are fast, a few very late. Tests use it to provoke every kind of overtaking."""
    scale = mean * (shape - 1) / shape
    return lambda sender, to: int(scale * rng.paretovariate(shape))


def fixed_per_link(seed: str, draw: Callable[[random.Random], int]) -> Propagation:
    """One draw for each direction of a link. It does not depend on when, or in which order, links are first used."""
    delays: dict[tuple[int, int], int] = {}

    def look_up(sender: int, to: int) -> int:
        link = (sender, to)
        delay = delays.get(link)
        if delay is None:
            delay = delays[link] = draw(random.Random(f"{seed}/{sender}>{to}"))
        return delay

    return look_up


def from_matrix(one_way: list[list[int]]) -> Propagation:
    return lambda sender, to: one_way[sender][to]
