"""The workloads that a user chooses by name. Times are in units of time (u.t.)."""

import random
from abc import abstractmethod
from bisect import bisect
from collections.abc import Callable
from itertools import accumulate
from typing import Annotated

from msgspec import Meta

from antecede.core import Message
from antecede.sim.brokered import Brokered
from antecede.sim.churn import Churn
from antecede.sim.detectors import Detectors
from antecede.sim.engine import Simulation
from antecede.sim.mobile import Mobile
from antecede.sim.overlapping import Overlapping
from antecede.sim.partitioned import Partitioned
from antecede.sim.saturation import Saturating
from antecede.sim.units import ticks
from antecede.sim.workload import (
    TOPIC,
    Count,
    Members,
    NotNegative,
    Positive,
    SeveralTopics,
    Share,
    WorkloadChoice,
    ignore,
)


class _Timed(WorkloadChoice, frozen=True, kw_only=True):
    """Every node (or a share of them, drawn at random) publishes `messages` times, at times drawn independently."""

    messages: Count = 1
    #: Share of the members that publish.
    publishers: Share = 1.0

    def start(self, simulation: Simulation, members: Members, rng: random.Random) -> None:
        chosen = members[TOPIC]
        if self.publishers < 1:
            chosen = sorted(rng.sample(chosen, max(1, round(self.publishers * len(chosen)))))
        for node in chosen:
            for time in self._times(rng):
                self._publish_at(simulation, time, node)

    @abstractmethod
    def _times(self, rng: random.Random) -> list[float]: ...


class Uniform(_Timed, frozen=True, kw_only=True):
    """Publication times uniform over a window. 440 u.t. is the window that explains the thesis's figures."""

    window: Positive = 440.0

    def _times(self, rng: random.Random) -> list[float]:
        return [rng.uniform(0, self.window) for _ in range(self.messages)]


class Exponential(_Timed, frozen=True, kw_only=True):
    """A Poisson process at each node: exponential intervals with this mean (thesis 4.5.1, read literally)."""

    mean: Positive = 1000.0

    def _times(self, rng: random.Random) -> list[float]:
        return list(accumulate(rng.expovariate(1 / self.mean) for _ in range(self.messages)))


class Poisson(_Timed, frozen=True, kw_only=True):
    """Intervals that are themselves Poisson distributed numbers of u.t.: the other literal reading."""

    mean: Positive = 1000.0

    def _times(self, rng: random.Random) -> list[float]:
        return list(accumulate(_poisson(rng, self.mean) for _ in range(self.messages)))


class One(WorkloadChoice, frozen=True, kw_only=True):
    """One member, drawn at random, publishes; with several messages, one every `interval` (thesis 5.6.2)."""

    messages: Count = 1
    interval: NotNegative = 0.0
    #: A node that does not publish, for instance a root, so that messages travel to it first.
    never: int = -1

    def start(self, simulation: Simulation, members: Members, rng: random.Random) -> None:
        node = rng.choice([node for node in members[TOPIC] if node != self.never] or members[TOPIC])
        for number in range(self.messages):
            self._publish_at(simulation, number * self.interval, node)


class Quiet(WorkloadChoice, frozen=True, kw_only=True):
    """No node publishes: shows what a protocol does by itself."""

    def start(self, simulation: Simulation, members: Members, rng: random.Random) -> None:
        """Schedule nothing."""


class Rate(WorkloadChoice, frozen=True, kw_only=True):
    """One stream of publications at a steady mean rate, each by a node drawn at random (thesis Figures 3.1 and 4.8)."""

    messages: Count = 1000
    #: Mean time between two publications of any nodes.
    interval: Positive = 1.0

    def start(self, simulation: Simulation, members: Members, rng: random.Random) -> None:
        time = 0.0
        for _ in range(self.messages):
            time += rng.expovariate(1 / self.interval)
            self._publish_at(simulation, time, members[TOPIC][rng.randrange(len(members[TOPIC]))])


class Discussion(WorkloadChoice, frozen=True, kw_only=True):
    """A conversation: a few nodes begin; a node answers when it has read `wait` messages since it last spoke."""

    begin: Count = 1
    wait: Count = 1
    #: How often each node may speak.
    messages: Count = 1
    #: Longest pause before an answer; pauses are uniform.
    pause: NotNegative = 0.0
    #: The messages that begin it are spread uniformly over this time.
    opening: NotNegative = 0.0

    def start(self, simulation: Simulation, members: Members, rng: random.Random) -> None:
        everyone = members[TOPIC]
        left = dict.fromkeys(everyone, self.messages)
        read = dict.fromkeys(everyone, 0)
        payload = bytes(self.payload)

        def speak(node: int) -> Callable[[], None]:
            return lambda: ignore(simulation.publish(node, TOPIC, payload))

        def react(node: int, message: Message) -> None:
            if message.source == node:
                read[node] = 0
                return
            read[node] += 1
            if read[node] >= self.wait and left[node]:
                left[node] -= 1
                read[node] = 0
                simulation.at(simulation.now + ticks(rng.uniform(0, self.pause)), speak(node))

        simulation.on_delivery = react
        for node in sorted(rng.sample(everyone, min(self.begin, len(everyone)))):
            left[node] -= 1
            simulation.at(ticks(rng.uniform(0, self.opening)) if self.opening else 0, speak(node))


class Zipf(SeveralTopics, frozen=True, kw_only=True):
    """Several topics of unequal popularity: the k-th is chosen with weight k^−exponent (thesis 5.6.5: 0.825)."""

    exponent: Annotated[float, Meta(ge=0)] = 0.825
    messages: Count = 1
    window: Positive = 1000.0
    #: Mean time between two publications of a node; 0: they are spread over the window instead.
    interval: NotNegative = 0.0

    def start(self, simulation: Simulation, members: Members, rng: random.Random) -> None:
        topics = self.topics
        weights = list(accumulate(rank**-self.exponent for rank in range(1, self.count + 1)))
        taken: dict[int, set[str]] = {}
        for topic, nodes in members.items():
            for node in nodes:
                taken.setdefault(node, set()).add(topic)
        for node in sorted(taken):
            time = 0.0
            for _ in range(self.messages):
                topic = topics[bisect(weights, rng.random() * weights[-1])]
                while topic not in taken[node]:
                    topic = topics[bisect(weights, rng.random() * weights[-1])]
                time = time + rng.expovariate(1 / self.interval) if self.interval else rng.uniform(0, self.window)
                self._publish_at(simulation, time, node, topic)


def _poisson(rng: random.Random, mean: float) -> int:
    """Knuth's product of uniforms, in steps small enough not to underflow."""
    total = 0
    while mean > 0:
        step = min(mean, 500.0)
        mean -= step
        limit = 2.718281828459045**-step
        product = rng.random()
        while product > limit:
            total += 1
            product *= rng.random()
    return total


WORKLOADS: dict[str, type[WorkloadChoice]] = {
    "uniform": Uniform,
    "one": One,
    "exponential": Exponential,
    "poisson": Poisson,
    "rate": Rate,
    "discussion": Discussion,
    "zipf": Zipf,
    "overlapping": Overlapping,
    "partitioned": Partitioned,
    "detectors": Detectors,
    "brokered": Brokered,
    "churn": Churn,
    "mobile": Mobile,
    "quiet": Quiet,
    "saturating": Saturating,
}
