"""The time model of the VCube-PS authors' own simulator (PeerSim), found from its code and its runs (SPEC part 2).

Time goes in steps of one u.t. A node has one send queue for everything, acknowledgements included, and takes one packet
out of it at each step. Within a step the order of events is random, so a packet put into an empty queue leaves in this
step or in the next, each with probability ½; when j earlier events of the step came before the node's turn to send, the
next one does with probability (j + 1) / (j + 2). There is no processing time, and propagation is 99 or 100 (a truncated
100) with equal probability. Hence the mean of a hop is 99 + the packet's place in the queue.

`express_bytes` is the authors' variant in which acknowledgements bypass the queue: they are the short packets.
"""

import random
from array import array
from collections import defaultdict
from typing import Protocol

from antecede.sim.units import TICKS


class Events(Protocol):
    """Something that counts the events it has handled: the engine."""

    steps: int


class StepQueues:
    """One packet a step and node. Can record where each packet stood in its queue and how long it took."""

    def __init__(self, rng: random.Random, *, propagation: int, express_bytes: int = 0) -> None:
        self.weighs = express_bytes > 0
        #: Tells one event of a step from the next. Without, what a node sends in one step counts as one event's.
        self.events: Events | None = None
        self._bits = rng.getrandbits
        self._random = rng.random
        self._propagation = propagation
        self._express_bytes = express_bytes
        self._queues: defaultdict[int, _Queue] = defaultdict(_Queue)
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
        step = now // TICKS
        propagation = self._propagation - self._bits(1)
        if 0 < size <= self._express_bytes:
            place, arrival = 0, now + propagation * TICKS
        else:
            queue = self._queues[sender]
            if now != step * TICKS or (queue.gone and queue.step == step):
                first = step + 1
            else:
                first = step + self._gone(queue, step)
            leaves = queue.last + 1
            if leaves < first:
                leaves = first
            queue.last = leaves
            place, arrival = leaves - first + 1, (leaves + propagation) * TICKS
        if self._places is not None and self._delays is not None:
            self._places.append(place)
            self._delays.append(arrival - now)
        return (arrival,)

    def _gone(self, queue: "_Queue", step: int) -> int:
        """Had the node its turn to send in this step already? 0 or 1. It has not, as far as is known."""
        event = 0 if self.events is None else self.events.steps
        if queue.step != step:
            queue.step, queue.event, queue.before = step, event, 0
            queue.gone = self._bits(1)
        elif queue.event != event:
            queue.event = event
            queue.before += 1
            queue.gone = int(self._random() * (queue.before + 2) < 1)
        return queue.gone


class _Queue:
    """Of one node: when its last packet leaves; and of the step in which it last put one in, what happened before."""

    __slots__ = ("before", "event", "gone", "last", "step")

    def __init__(self) -> None:
        self.last = self.step = self.event = -1
        self.before = self.gone = 0
