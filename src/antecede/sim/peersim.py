"""The time model of the VCube-PS authors' own simulator (PeerSim), found from its code and its runs.

Time goes in steps of one u.t. A node has one send queue for all packets, acknowledgements included, and sends one
packet from it at each step. Within a step the order of events is random, so a packet put into an empty queue leaves in
this step or in the next, each with probability ½. If several events of a step happen at a node, the node has one moment
to send among them: of n such events, b of them before it, the next one is before it with probability (b + 1) / (n + 2).
There is no processing time, and propagation is 99 or 100 (a truncated 100) with equal probability. Hence the mean time
of a hop is 99 + the packet's place in the queue.

`express_bytes` is the authors' variant in which acknowledgements bypass the queue: they are the short packets.
"""

import random
from array import array
from collections import defaultdict
from typing import Protocol

from antecede.sim.units import TICKS


class Events(Protocol):
    """The engine, which counts the events it has handled."""

    steps: int


class StepQueues:
    """Send queues that release one packet a step and node. They can record each packet's place and delay."""

    def __init__(self, rng: random.Random, *, propagation: int, express_bytes: int = 0) -> None:
        self.weighs = express_bytes > 0
        #: Tells one event of a step from the next. Without it, all packets a node sends in a step count as one event's.
        self.events: Events | None = None
        self._bits = rng.getrandbits
        self._random = rng.random
        self._propagation = propagation
        self._express_bytes = express_bytes
        self._queues: defaultdict[int, _Queue] = defaultdict(_Queue)
        self._now = self._step = -1
        self._on_a_step = False
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
        if now != self._now:  # many packets are sent at the same moment
            self._now = now
            self._step, beyond = divmod(now, TICKS)
            self._on_a_step = not beyond
        step = self._step
        propagation = self._propagation - self._bits(1)
        if 0 < size <= self._express_bytes:
            place, arrival = 0, now + propagation * TICKS
        else:
            queue = self._queues[sender]
            leaves = queue.last + 1
            if self._on_a_step and self._before_its_turn(queue, step):
                if queue.free:
                    queue.free = False
                    leaves = step
                place = leaves - step + 1
            else:
                if leaves <= step:
                    leaves = step + 1
                place = leaves - step
            if leaves > queue.last:
                queue.last = leaves
            arrival = (leaves + propagation) * TICKS
        if self._places is not None and self._delays is not None:
            self._places.append(place)
            self._delays.append(arrival - now)
        return (arrival,)

    def _before_its_turn(self, queue: "_Queue", step: int) -> bool:
        """Does the current event come before the node's moment to send in this step?"""
        event = 0 if self.events is None else self.events.steps
        if queue.step != step:
            queue.step, queue.event, queue.seen = step, event, 1
            queue.free = queue.last < step
            queue.is_before = self._bits(1) == 1
            queue.before = int(queue.is_before)
        elif queue.event != event:
            queue.event = event
            queue.is_before = self._random() * (queue.seen + 2) < queue.before + 1
            queue.seen += 1
            queue.before += queue.is_before
        return queue.is_before


class _Queue:
    """The queue of one node: when its last packet leaves, and the events of the step in which it last added one."""

    __slots__ = ("before", "event", "free", "is_before", "last", "seen", "step")

    def __init__(self) -> None:
        self.last = self.step = self.event = -1
        #: Events of the step, and those of them before the turn to send; which the last of them is.
        self.seen = self.before = 0
        self.is_before = False
        #: Does nothing leave in that step yet?
        self.free = False
