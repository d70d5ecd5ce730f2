"""Sources and detectors: each source publishes on a topic of its own, a few nodes take them all (MIDLAB 9/2011, 6.2).

The load of the paper's test of pattern detection: five publishers, five topics, two subscribers. A source takes its own
topic, since a publisher subscribes to its topic; all other nodes only forward messages.
"""

import random

from antecede.core import UsageError
from antecede.sim.engine import Simulation
from antecede.sim.workload import Count, Members, Positive, WorkloadChoice


class Detectors(WorkloadChoice, frozen=True, kw_only=True):
    """Several sources, and nodes that look for patterns in the order of their messages."""

    #: Sources, each with its topic.
    sources: Count = 5
    #: Nodes that take all topics: the last ones. The first ones are the sources.
    detectors: Count = 2
    #: Messages of a source.
    messages: Count = 60
    #: Mean time between two messages of a source; exponential.
    interval: Positive = 200.0

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(f"topic-{number}" for number in range(1, self.sources + 1))

    def members(self, nodes: int, rng: random.Random) -> Members:
        least = self.sources + self.detectors
        if nodes < least:
            raise UsageError("nodes", nodes, "sources and detectors are different nodes", f"choose at least {least}")
        watching = range(nodes - self.detectors, nodes)
        return {topic: (source, *watching) for source, topic in enumerate(self.topics)}

    def start(self, simulation: Simulation, members: Members, rng: random.Random) -> None:
        for source, topic in enumerate(self.topics):
            time = 0.0
            for _ in range(self.messages):
                time += rng.expovariate(1 / self.interval)
                self._publish_at(simulation, time, source, topic)
