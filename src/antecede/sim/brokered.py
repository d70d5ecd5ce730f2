"""Groups that overlap, with brokers that publish and subscribers that read (Kim & Ahn 2, 3).

The first nodes are brokers; node n beyond them begins at broker n mod `brokers`, as in the gossip protocols. Every node
takes each group with probability `overlap`, and at least one. A broker publishes to groups that it or one of its
subscribers takes: to one of them, now and then to several, or to all (`several` = 1, which gossip-rounds needs).
"""

import random
from itertools import combinations

from antecede.core import UsageError
from antecede.protocols.gossip.groups import groups_of, together
from antecede.sim.engine import Simulation
from antecede.sim.units import ticks
from antecede.sim.workload import Count, Members, NotNegative, Positive, SeveralTopics, ignore


class Brokered(SeveralTopics, frozen=True, kw_only=True):
    """Brokers, drawn at random for each message, publish to overlapping groups; the other nodes read."""

    word = "g"
    brokers: Count = 8
    count: Count = 1
    overlap: NotNegative = 0.5
    #: Share of the messages that go to more than one group; 1: to all groups of the broker.
    several: NotNegative = 0.0
    messages: Count = 100
    #: Mean time between two publications of any brokers; exponential.
    interval: Positive = 100.0

    def members(self, nodes: int, rng: random.Random) -> Members:
        if self.brokers > nodes or self.aside >= nodes:
            raise UsageError("brokers", self.brokers, f"there are {nodes} nodes", f"choose 1 … {nodes}")
        takers: dict[str, list[int]] = {group: [] for group in self.topics}
        for node in range(self.aside, nodes):
            taken = [group for group in self.topics if rng.random() < self.overlap]
            for group in taken or [rng.choice(self.topics)]:
                takers[group].append(node)
        found: dict[str, list[int]] = dict(takers)
        for topic in sorted(self._addressed(takers)):
            found[topic] = sorted({node for group in groups_of(topic) for node in takers[group]})
        return found

    def start(self, simulation: Simulation, members: Members, rng: random.Random) -> None:
        relayed = self._relayed({group: members[group] for group in self.topics})
        payload, time = bytes(self.payload), 0.0
        brokers = [broker for broker in sorted(relayed) if relayed[broker]]
        for _ in range(self.messages):
            time += rng.expovariate(1 / self.interval)
            broker = rng.choice(brokers)
            groups = sorted(relayed[broker])
            if self.several < 1:
                count = 2 if rng.random() < self.several else 1
                groups = rng.sample(groups, min(count, len(groups)))

            def publish(broker: int = broker, topic: str = together(groups)) -> None:
                ignore(simulation.publish(broker, topic, payload))

            simulation.at(ticks(time), publish)

    def _relayed(self, takers: Members) -> dict[int, set[str]]:
        """By broker: its own groups and those of its subscribers."""
        relayed: dict[int, set[str]] = {broker: set() for broker in range(self.brokers)}
        for group, nodes in takers.items():
            for node in nodes:
                relayed[node % self.brokers].add(group)
        return relayed

    def _addressed(self, takers: Members) -> set[str]:
        """The topics of several groups that a broker may publish on."""
        relayed = self._relayed(takers).values()
        if self.several >= 1:
            return {together(groups) for groups in relayed if len(groups) > 1}
        if self.several == 0:
            return set()
        return {together(pair) for groups in relayed for pair in combinations(sorted(groups), 2)}
