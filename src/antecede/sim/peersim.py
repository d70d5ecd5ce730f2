"""The time model of the VCube-PS authors' own simulator (PeerSim), found from its code and its runs (SPEC part 2).

Time goes in steps of one u.t. A node has one send queue for everything, acknowledgements included, and takes one packet
out of it at each step. Within a step the order of events is random, so a packet put into an empty queue leaves in this
step or in the next, each with probability ½. There is no processing time, and propagation is 99 or 100 (a truncated
100) with equal probability. Hence the mean of a hop is 99 + the packet's place in the queue.

`express_bytes` is the authors' variant in which acknowledgements bypass the queue: they are the short packets.
"""

import random
from array import array
from collections import defaultdict

from antecede.sim.units import TICKS


class StepQueues:
    """One packet a step and node. Can record where each packet stood in its queue and how long it took."""

    def __init__(self, rng: random.Random, *, propagation: int, express_bytes: int = 0) -> None:
        self.weighs = express_bytes > 0
        self._bits = rng.getrandbits
        self._propagation = propagation
        self._express_bytes = express_bytes
        # By sender: the step in which its last packet leaves.
        self._last: defaultdict[int, int] = defaultdict(lambda: -1)
        # By sender: the step it last put something in, and whether that step's packet was gone by then (0 or 1).
        self._step: defaultdict[int, int] = defaultdict(lambda: -1)
        self._gone: dict[int, int] = {}
        self._places: array[int] | None = None
        self._delays: array[int] | None = None

    def record(self) -> None:
        """From now on keep the place and the delay of every packet, in the order they are sent."""
        self._places = array("I")
        self._delays = array("q")

    @property
    def places(self) -> "array[int]":
        """For each packet sent, its place in its sender's queue, from 1; 0 where it bypassed the queue."""
        assert self._places is not None, "call record() before the run"
        return self._places

    @property
    def delays(self) -> "array[int]":
        """For each packet sent, ticks until it arrived."""
        assert self._delays is not None, "call record() before the run"
        return self._delays

    def arrivals(self, now: int, sender: int, to: int, size: int) -> tuple[int, ...]:
        step, rest = divmod(now, TICKS)
        propagation = self._propagation - self._bits(1)
        if 0 < size <= self._express_bytes:
            place, arrival = 0, now + propagation * TICKS
        else:
            if rest:
                first = step + 1
            elif self._step[sender] == step:
                first = step + self._gone[sender]
            else:
                self._step[sender] = step
                self._gone[sender] = gone = self._bits(1)
                first = step + gone
            leaves = self._last[sender] + 1
            if leaves < first:
                leaves = first
            self._last[sender] = leaves
            place, arrival = leaves - first + 1, (leaves + propagation) * TICKS
        if self._places is not None and self._delays is not None:
            self._places.append(place)
            self._delays.append(arrival - now)
        return (arrival,)
