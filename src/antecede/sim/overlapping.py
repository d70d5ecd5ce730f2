"""Subscriptions that overlap: many topics, each node takes some of them (MIDLAB 9/2011, 6.1).

Topics are drawn by rank, for subscriptions and for publications: uniformly, by a power law, or, for publications,
always the last of them, which is the worst case for an order of topics in which it comes last.

The power law is Pareto with minimum 1, rounded down to a rank. With shapes of 0.269 and 0.901 the first 400 and the
first 5 ranks have 80 % of it, as the paper says of 40 % and 0.5 % of 1,000 topics. The paper does not mention ranks
beyond the last, 16 % and 0.2 % of the law. They are drawn again here, which makes it 95 % and 80 %.
"""

import random
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from msgspec import Meta

from antecede.core import UsageError
from antecede.sim.engine import Simulation
from antecede.sim.units import ticks
from antecede.sim.workload import Count, Members, NotNegative, Positive, WorkloadChoice


class Overlapping(WorkloadChoice, frozen=True, kw_only=True):
    """One stream of publications over many topics, of which every node takes several."""

    #: Topics, named by their rank.
    count: Count = 8
    #: Topics a node takes; all when there are no more.
    taken: Count = 4
    #: How those are drawn; series: a topic drawn uniformly and those of the next ranks, so that interests are alike.
    subscription: Literal["uniform", "power", "series"] = "uniform"
    #: How the topic of a publication is drawn; worst: always the last.
    publication: Literal["uniform", "power", "worst"] = "uniform"
    #: Shape of the power law.
    shape: Positive = 0.901
    messages: Count = 200
    #: Mean time between two publications of any nodes; exponential.
    interval: Positive = 50.0
    #: Only the first so many subscribers of a topic publish on it; 0: all.
    publishers: Annotated[int, Meta(ge=0)] = 0
    #: When the topics change their ranks among publications, at random; 0: never.
    shuffle: NotNegative = 0.0
    #: Do subscriptions change with the ranks? Each node then gives up its topics for those that have taken their ranks.
    follow: bool = False
    #: Mean time between two changes of subscriptions: a node gives up a topic and takes another; 0: never.
    change: NotNegative = 0.0

    @property
    def topics(self) -> tuple[str, ...]:
        digits = len(str(self.count))
        return tuple(f"topic-{rank:0{digits}}" for rank in range(1, self.count + 1))

    def members(self, nodes: int, rng: random.Random) -> Members:
        if self.aside >= nodes:
            raise UsageError("aside", self.aside, f"there are {nodes} nodes", f"choose 0 … {nodes - 1}")
        topics = self.topics
        takers: dict[str, list[int]] = {topic: [] for topic in topics}
        for node in range(self.aside, nodes):
            for rank in self._some(rng):
                takers[topics[rank]].append(node)
        return takers

    def start(self, simulation: Simulation, members: Members, rng: random.Random) -> None:
        topics, time, shuffled = self.topics, 0.0, not self.shuffle
        for _ in range(self.messages):
            rank = self.count - 1 if self.publication == "worst" else self._one(rng, self.publication)
            time += rng.expovariate(1 / self.interval)
            if time >= self.shuffle and not shuffled:
                topics, shuffled = tuple(rng.sample(topics, self.count)), True
                if self.follow:
                    members = self._follow(simulation, members, topics)
            while not members[topics[rank]]:  # without subscribers: take the next topic that has some
                rank = (rank + 1) % self.count
            takers = members[topics[rank]]
            publisher = rng.choice(takers[: self.publishers] if self.publishers else takers)
            self._publish_at(simulation, time, publisher, topics[rank])
        if self.change:
            self._change(simulation, members, time, random.Random(rng.random()))

    def _follow(self, simulation: Simulation, members: Members, topics: Sequence[str]) -> Members:
        """At `shuffle` the takers of each topic take the topic that has got its rank instead."""
        after = {new: members[old] for old, new in zip(self.topics, topics, strict=True)}

        def move() -> None:
            for topic in self.topics:
                for node in sorted(set(members[topic]) - set(after[topic])):
                    simulation.unsubscribe(node, topic)
                for node in sorted(set(after[topic]) - set(members[topic])):
                    simulation.subscribe(node, topic)

        simulation.at(ticks(self.shuffle), move)
        return after

    def _change(self, simulation: Simulation, members: Members, end: float, rng: random.Random) -> None:
        """Until `end`, nodes give up a topic on which they do not publish and take another, one node at a time."""
        if not self.publishers:
            raise UsageError("change", self.change, "every subscriber publishes", "set publishers to 1 or more")
        taken: dict[int, set[str]] = {}
        for topic, nodes in members.items():
            for node in nodes:
                taken.setdefault(node, set()).add(topic)
        free = {(node, topic) for topic, nodes in members.items() for node in nodes[self.publishers :]}
        time = 0.0
        while (time := time + rng.expovariate(1 / self.change)) < end:
            node, old = rng.choice(sorted(free))
            others = sorted(set(self.topics) - taken[node])
            if others:
                new = rng.choice(others)
                taken[node] = taken[node] - {old} | {new}
                free = free - {(node, old)} | {(node, new)}
                simulation.at(ticks(time), _move(simulation, node, old, new))

    def _some(self, rng: random.Random) -> list[int]:
        if self.taken >= self.count:
            return list(range(self.count))
        if self.subscription == "uniform":
            return rng.sample(range(self.count), self.taken)
        if self.subscription == "series":
            first = rng.randrange(self.count)
            return sorted((first + step) % self.count for step in range(self.taken))
        chosen: set[int] = set()
        while len(chosen) < self.taken:
            chosen.add(self._one(rng, "power"))
        return sorted(chosen)

    def _one(self, rng: random.Random, how: str) -> int:
        if how == "uniform":
            return rng.randrange(self.count)
        rank = self.count + 1
        while rank > self.count:
            rank = int(rng.paretovariate(self.shape))
        return rank - 1


def _move(simulation: Simulation, node: int, old: str, new: str) -> Callable[[], None]:
    def move() -> None:
        simulation.unsubscribe(node, old)
        simulation.subscribe(node, new)

    return move
