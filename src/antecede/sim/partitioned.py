"""A workload of many topics of which each node takes a few: what interest costs, and how far dependencies spread."""

import random
from itertools import accumulate

from antecede.sim.engine import Simulation
from antecede.sim.workload import Count, Members, NotNegative, Positive, SeveralTopics


class Partitioned(SeveralTopics, frozen=True, kw_only=True):
    """Each node takes `taken` of the topics, drawn at random, and publishes at exponential intervals, on any topic."""

    word = "p"
    first = 0
    count: Count = 64
    taken: Count = 8
    messages: Count = 100
    #: Mean time between two publications of a node.
    interval: Positive = 1000.0
    #: Share of the publications on any topic, taken or not. The others are on topics that the node takes.
    outside: NotNegative = 0.5

    def members(self, nodes: int, rng: random.Random) -> Members:
        """At least one node takes each topic."""
        taken: dict[str, set[int]] = {topic: {rng.randrange(nodes)} for topic in self.topics}
        for node in range(nodes):
            own = sum(node in members for members in taken.values())
            others = [topic for topic in self.topics if node not in taken[topic]]
            for topic in rng.sample(others, max(0, min(self.taken - own, len(others)))):
                taken[topic].add(node)
        return {topic: sorted(members) for topic, members in taken.items()}

    def start(self, simulation: Simulation, members: Members, rng: random.Random) -> None:
        topics = self.topics
        for node in sorted(simulation.processes):
            own = [topic for topic in topics if node in members[topic]] or topics
            for time in accumulate(rng.expovariate(1 / self.interval) for _ in range(self.messages)):
                topic = rng.choice(topics if rng.random() < self.outside else own)
                self._publish_at(simulation, time, node, topic)
