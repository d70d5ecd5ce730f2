"""Publishers that load the network up to its capacity and no further: how throughput is measured (LoCaMu IV and V).

The paper's "maximum throughput" does not say what happens to messages that exceed the capacity. Publishers that go on
regardless fill queues without end. What they publish depends on old messages only, so clocks would look smaller the
worse the congestion is. Here an ideal flow control holds publishers back: a message is published at the first moment at
which no interface on its way is booked for more than a short queue. The busiest interface is then used to its capacity,
none is overloaded, and publishers share it evenly, since each asks again only after its turn.

The cost of a message at a node is estimated from the last messages of its topic there, and from what the node sends
besides (acknowledgements). A slow beginning (`warm_up`) provides these estimates before they matter.
"""

import random
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Annotated, Literal, TypeAlias

import numpy as np
from msgspec import Meta

from antecede.core import Message, Packet, UsageError
from antecede.overlay.graph import BaseGraph
from antecede.overlay.graph_shapes import complete_tree
from antecede.sim.engine import Simulation
from antecede.sim.network import PacketSwitched
from antecede.sim.units import ticks
from antecede.sim.workload import TOPIC, Count, Members, NotNegative, WorkloadChoice

#: Copies that may queue at an interface. Without a few in its queue it would idle whenever another one is busier.
_QUEUE = 16

#: The weight of a packet relative to the next one: about the last ten matter.
_FADING = 0.9

_Numbers: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"
_Reals: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.float64]]"


class Saturating(WorkloadChoice, frozen=True, kw_only=True):
    """On a tree of given degree, some nodes publish as fast as the network allows, or up to a rate of their own."""

    payload: Annotated[int, Meta(ge=0)] = 32
    #: How many nodes publish: node 0, and others drawn at random; 0: all.
    publishers: Annotated[int, Meta(ge=0)] = 1
    #: Least time between two messages of one publisher.
    interval: NotNegative = 0.0
    #: They begin one after the other within this time, or within the interval if that is longer.
    within: NotNegative = 0.0
    #: Messages of all publishers together.
    messages: Count = 400
    #: U.t. before that with one further message each, by one publisher after the other.
    warm_up: Annotated[int, Meta(ge=0)] = 0
    #: Neighbours of an inner node, as in the protocol's graph.
    degree: Annotated[int, Meta(ge=2)] = 3
    #: One group of all nodes; or one for every subtree, and a publisher chooses one of its own for each message.
    groups: Literal["one", "subtrees"] = "one"

    def members(self, nodes: int, rng: random.Random) -> Members:
        if self.subscribers < 1 or self.aside:
            raise UsageError(
                "workload", "saturating", "every node takes part", "leave subscribers and aside as they are"
            )
        return {TOPIC: range(nodes)} if self.groups == "one" else subtrees(nodes, self.degree)

    def start(self, simulation: Simulation, members: Members, rng: random.Random) -> None:
        wire = simulation.wire
        if not isinstance(wire, PacketSwitched) or not wire.weighs:
            raise UsageError(
                "workload", "saturating", "this network has no limit of bandwidth", "use shared-bandwidth:mbps=100"
            )
        nodes = len(simulation.processes)
        everyone = sorted(set().union(*members.values()))
        if self.publishers > len(everyone):
            raise UsageError("publishers", self.publishers, f"there are {len(everyone)}", "choose at most as many")
        first, *others = everyone
        chosen = [first, *sorted(rng.sample(others, (self.publishers or len(everyone)) - 1))]
        bookings = _Bookings(complete_tree(nodes, self.degree), members, wire.ticks_per_byte)
        load = _Load(self, simulation, bookings)
        for node in chosen:
            topics = [topic for topic, taken in members.items() if node in taken]
            begin = ticks(self.warm_up + rng.uniform(0, max(self.interval, self.within)))
            simulation.at(begin, load.asker(node, _chooser(topics, rng)))
        for number in range(self.warm_up):
            node = chosen[number % len(chosen)]
            self._publish_at(simulation, number, node, next(topic for topic in members if node in members[topic]))


def subtrees(nodes: int, degree: int) -> dict[str, Sequence[int]]:
    """A group for every subtree with more than one node: the root's of all, then smaller ones (LoCaMu IV-A)."""
    below: list[list[int]] = [[node] for node in range(nodes)]
    for node in range(nodes - 1, 0, -1):
        below[(node - 1) // (degree - 1)] += below[node]
    named = {f"below-{node}": sorted(found) for node, found in enumerate(below) if len(found) > 1}
    return dict(named) or {TOPIC: range(nodes)}


def _chooser(topics: Sequence[str], rng: random.Random) -> Callable[[], str]:
    return lambda: topics[rng.randrange(len(topics))]


class _Bookings:
    """Until when each node's interface is booked, and how often a message of a group uses each interface."""

    def __init__(self, graph: BaseGraph, members: Members, ticks_per_byte: float) -> None:
        self._ticks_per_byte = ticks_per_byte
        self._until = np.zeros(graph.nodes)
        #: By topic: how many copies of a message each node sends.
        self._copies: dict[str, _Numbers] = {}
        for topic, taken in members.items():
            inside = set(taken)
            near = [sum(other in inside for other in graph.neighbours(node)) for node in range(graph.nodes)]
            # A node forwards a message to all its neighbours but the one it came from; the publisher, to all.
            copies = [max(0, count - 1) if node in inside else 0 for node, count in enumerate(near)]
            self._copies[topic] = np.array(copies, np.int64)
        #: By topic, by node: ticks one copy occupies its interface, as estimated last time.
        self._cost: dict[str, _Reals] = {}
        self._free = np.zeros(graph.nodes)

    def book(self, topic: str, node: int, now: int) -> int:
        """Book the interfaces for what a message on `topic` took last time; return when `node` may publish it."""
        cost = self._cost.get(topic, self._free)
        used = self._copies[topic] > 0
        used[node] = True
        begin = max(now, int((self._until[used] - _QUEUE * cost[used]).max()))
        self._until[used] = np.maximum(self._until[used], begin)
        self._add(topic, node, cost)
        return begin

    def correct(self, topic: str, node: int, bytes_a_copy: _Reals) -> None:
        """Correct the last booking: a copy turned out to have this size."""
        cost = bytes_a_copy * self._ticks_per_byte
        self._add(topic, node, cost - self._cost.get(topic, self._free))
        self._cost[topic] = cost

    def _add(self, topic: str, node: int, cost: _Reals) -> None:
        self._until += self._copies[topic] * cost
        self._until[node] += cost[node]


class _Sizes:
    """How large messages of a topic are at each node that forwards them, and what the node sends besides."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._at_first: dict[tuple[str, int, int], int] = {}
        self._always_as_at_first = True
        #: By topic, by node: bytes of its last messages there, and their number; older ones count less.
        self._bytes: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * nodes)
        self._count: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * nodes)
        #: By node: bytes of packets with a message, and of all.
        self._messages = [1.0] * nodes
        self._all = [1.0] * nodes

    def hear(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None:
        self._all[node] += size
        messages = packet.messages
        if messages:
            self._messages[node] += size
            message = messages[0]
            if self._at_first.setdefault((message.topic, message.source, message.seq), size) != size:
                self._always_as_at_first = False
            bytes_, count = self._bytes[message.topic], self._count[message.topic]
            bytes_[node] = bytes_[node] * _FADING + size
            count[node] = count[node] * _FADING + 1

    def estimate(self, message: Message) -> _Reals:
        """Estimate, by node, the bytes of a copy of `message`, which was just published. A lone member sends no copy.

        Where messages do not change on their way, a copy has its present size; otherwise that of the last ones there.
        """
        at_first = self._at_first.get((message.topic, message.source, message.seq), 0)
        count = np.array(self._count[message.topic])
        sizes: _Reals = np.full(self._nodes, float(at_first))
        if not self._always_as_at_first:
            np.divide(self._bytes[message.topic], count, out=sizes, where=count > 0)
        sizes *= np.array(self._all) / np.array(self._messages)
        return sizes


class _Load:
    """The publishers. Each queues for its topic, publishes, and queues again after its interval."""

    def __init__(self, choice: Saturating, simulation: Simulation, bookings: _Bookings) -> None:
        self._simulation, self._bookings = simulation, bookings
        self._sizes = _Sizes(len(simulation.processes))
        simulation.hear_sends(self._sizes.hear)
        self._payload = bytes(choice.payload)
        self._interval, self._left = ticks(choice.interval), choice.messages
        self._lines: defaultdict[str, deque[tuple[int, Callable[[], None]]]] = defaultdict(deque)
        #: By node whose protocol lets its message wait: the action once the message is published.
        self._waiting: dict[int, Callable[[], None]] = {}

    def asker(self, node: int, choose: Callable[[], str]) -> Callable[[], None]:
        """An action that makes `node` queue for its next turn, on a topic it chooses then."""

        def ask() -> None:
            topic = choose()
            line = self._lines[topic]
            line.append((node, ask))
            if len(line) == 1:
                self._serve(topic)

        return ask

    def _serve(self, topic: str) -> None:
        """The first publisher in the queue gets a time. One at a time, so that the last message's cost is known."""
        line = self._lines[topic]
        if line and self._left:
            self._left -= 1
            begin = self._bookings.book(topic, line[0][0], self._simulation.now)
            self._simulation.at(begin, lambda: self._publish(topic))

    def _publish(self, topic: str) -> None:
        simulation = self._simulation
        node, ask = self._lines[topic].popleft()
        message = simulation.publish(node, topic, self._payload)
        if message is None:
            self._waiting[node] = ask
            simulation.on_delivery = self._hear
        else:
            self._bookings.correct(topic, node, self._sizes.estimate(message))
            simulation.at(simulation.now + self._interval, ask)
        self._serve(topic)

    def _hear(self, node: int, message: Message) -> None:
        if message.source == node and (ask := self._waiting.pop(node, None)) is not None:
            self._simulation.at(self._simulation.now + self._interval, ask)
