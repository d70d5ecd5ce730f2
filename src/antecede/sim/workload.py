"""A workload decides which nodes take part, and which publish what and when. Times are in units of time (u.t.)."""

import random
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, TypeAlias

from msgspec import Meta

from antecede.core import Message, UsageError
from antecede.core.choices import Choice
from antecede.sim.engine import Simulation
from antecede.sim.units import ticks

Count = Annotated[int, Meta(ge=1)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(gt=0, le=1)]

#: By topic: the nodes that take it when the run begins, in ascending order.
Members: TypeAlias = Mapping[str, Sequence[int]]

TOPIC = "all"


class WorkloadChoice(Choice, frozen=True, kw_only=True):
    """What the applications do, by its parameters."""

    #: Bytes of a payload (thesis 4.5.1: 50).
    payload: Annotated[int, Meta(ge=0)] = 50
    #: Share of the nodes that take each topic, drawn at random. A broadcast has no choice: all do.
    subscribers: Share = 1.0
    #: The first so many nodes take no topic: brokers that only forward.
    aside: Annotated[int, Meta(ge=0)] = 0

    @property
    def topics(self) -> tuple[str, ...]:
        return (TOPIC,)

    def members(self, nodes: int, rng: random.Random) -> Members:
        """The nodes that take each topic when the run begins. All nodes know them without a packet."""
        if self.aside >= nodes:
            raise UsageError("aside", self.aside, f"there are {nodes} nodes", f"choose 0 … {nodes - 1}")
        able = range(self.aside, nodes)
        if self.subscribers == 1:
            return dict.fromkeys(self.topics, able)
        count = max(1, round(self.subscribers * len(able)))
        return {topic: sorted(rng.sample(able, count)) for topic in self.topics}

    @abstractmethod
    def start(self, simulation: Simulation, members: Members, rng: random.Random) -> None:
        """Schedule the publications, and whatever else happens."""

    def _publish_at(self, simulation: Simulation, time: float, node: int, topic: str = TOPIC) -> None:
        payload = bytes(self.payload)
        simulation.at(ticks(time), lambda: ignore(simulation.publish(node, topic, payload)))


class SeveralTopics(WorkloadChoice, frozen=True, kw_only=True):
    """Base of workloads over `count` topics, each named by a word and a number."""

    word: ClassVar[str] = "topic-"
    first: ClassVar[int] = 1
    count: Count = 8

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(f"{self.word}{number}" for number in range(self.first, self.first + self.count))


def ignore(message: Message | None) -> None:
    """A node that is down publishes nothing; the workload goes on."""
