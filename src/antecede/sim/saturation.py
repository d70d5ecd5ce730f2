"""Publishers that ask for as much as the network carries, and no more: how throughput is measured (LoCaMu IV and V).

"Maximum throughput" does not say what becomes of that which does not fit. Publishers that go on regardless fill queues
without end, and what they publish depends on old news only, so that clocks would look smaller the worse things are.
Here they are held back instead, as by an ideal flow control: a message is published at the first moment at which no
interface on its way is promised to others for more than a short queue. The busiest is then used up to its capacity,
none is asked for more, and publishers share it evenly, for each asks again only after its turn.

What a message will cost a node is guessed from what the last ones of its topic cost it, and what it sends besides
(acknowledgements). A slow beginning (`warm_up`) shows that before it matters.
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

#: Copies that may queue at an interface. Without a few in store it would rest whenever another one is busier.
_QUEUE = 16

#: What a packet counts when the next one is weighed: about the last ten matter.
_FADING = 0.9

_Numbers: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"
_Reals: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.float64]]"


class Saturating(WorkloadChoice, frozen=True, kw_only=True):
    """On a tree of given degree, some publish as fast as the network takes it, or up to a rate of their own."""

    payload: Annotated[int, Meta(ge=0)] = 32
    #: How many publish, node 0 among them, the others drawn at random; 0: everybody.
    publishers: Annotated[int, Meta(ge=0)] = 1
    #: At least so long between two messages of one publisher.
    interval: NotNegative = 0.0
    #: They begin one after the other within this time, or within the interval if that is longer.
    within: NotNegative = 0.0
    #: How many messages there are in all.
    messages: Count = 400
    #: For so many u.t. before that one message a u.t., besides the others, by one publisher after the other.
    warm_up: Annotated[int, Meta(ge=0)] = 0
    #: Neighbours of an inner node, as in the protocol's graph.
    degree: Annotated[int, Meta(ge=2)] = 3
    #: One group of everybody; or one for every subtree, of which a publisher chooses among its own for each message.
    groups: Literal["one", "subtrees"] = "one"

    def members(self, nodes: int, rng: random.Random) -> Members:
        if self.subscribers < 1 or self.aside:
            raise UsageError(
                "workload", "saturating", "everybody takes part", "leave subscribers and aside as they are"
            )
        return {TOPIC: range(nodes)} if self.groups == "one" else subtrees(nodes, self.degree)

    def start(self, simulation: Simulation, members: Members, rng: random.Random) -> None:
        wire = simulation.wire
        if not isinstance(wire, PacketSwitched) or not wire.weighs:
            raise UsageError(
                "workload", "saturating", "this network takes any number of bytes", "use shared-bandwidth:mbps=100"
            )
        nodes = len(simulation.processes)
        everyone = sorted(set().union(*members.values()))
        if self.publishers > len(everyone):
            raise UsageError("publishers", self.publishers, f"there are {len(everyone)}", "choose at most as many")
        first, *others = everyone
        chosen = [first, *sorted(rng.sample(others, (self.publishers or len(everyone)) - 1))]
        promises = _Promises(complete_tree(nodes, self.degree), members, wire.ticks_per_byte)
        load = _Load(self, simulation, promises)
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


class _Promises:
    """Until when each node's interface is promised, and which interfaces a message of a group uses how often."""

    def __init__(self, graph: BaseGraph, members: Members, ticks_per_byte: float) -> None:
        self._ticks_per_byte = ticks_per_byte
        self._until = np.zeros(graph.nodes)
        #: By topic: how many copies each node sends of what it got.
        self._copies: dict[str, _Numbers] = {}
        for topic, taken in members.items():
            inside = set(taken)
            near = [sum(other in inside for other in graph.neighbours(node)) for node in range(graph.nodes)]
            # A node passes on what it got to all its neighbours but one; the publisher has nobody to leave out.
            copies = [max(0, count - 1) if node in inside else 0 for node, count in enumerate(near)]
            self._copies[topic] = np.array(copies, np.int64)
        #: By topic, by node: ticks one copy occupies its interface, as it was guessed last time.
        self._cost: dict[str, _Reals] = {}
        self._free = np.zeros(graph.nodes)

    def book(self, topic: str, node: int, now: int) -> int:
        """When `node` may publish on `topic`; the interfaces are promised for what such a message took last time."""
        cost = self._cost.get(topic, self._free)
        used = self._copies[topic] > 0
        used[node] = True
        begin = max(now, int((self._until[used] - _QUEUE * cost[used]).max()))
        self._until[used] = np.maximum(self._until[used], begin)
        self._add(topic, node, cost)
        return begin

    def correct(self, topic: str, node: int, bytes_a_copy: _Reals) -> None:
        """What was booked turned out to be of this size."""
        cost = bytes_a_copy * self._ticks_per_byte
        self._add(topic, node, cost - self._cost.get(topic, self._free))
        self._cost[topic] = cost

    def _add(self, topic: str, node: int, cost: _Reals) -> None:
        self._until += self._copies[topic] * cost
        self._until[node] += cost[node]


class _Sizes:
    """How large messages of a topic are at each node that passes them on, and what it sends besides."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._at_first: dict[tuple[str, int, int], int] = {}
        self._always_as_at_first = True
        #: By topic, by node: bytes of its last messages there, and how many of them count; older ones count less.
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

    def guess(self, message: Message) -> _Reals:
        """By node, bytes a copy of `message`, just published, will come to. Alone in its group it is not sent.

        As many as it has now, where messages do not change on their way; otherwise as the last ones of its topic there.
        """
        at_first = self._at_first.get((message.topic, message.source, message.seq), 0)
        count = np.array(self._count[message.topic])
        sizes: _Reals = np.full(self._nodes, float(at_first))
        if not self._always_as_at_first:
            np.divide(self._bytes[message.topic], count, out=sizes, where=count > 0)
        sizes *= np.array(self._all) / np.array(self._messages)
        return sizes


class _Load:
    """The publishers. Each stands in line for its topic, publishes, and comes again after its interval."""

    def __init__(self, choice: Saturating, simulation: Simulation, promises: _Promises) -> None:
        self._simulation, self._promises = simulation, promises
        self._sizes = _Sizes(len(simulation.processes))
        simulation.hear_sends(self._sizes.hear)
        self._payload = bytes(choice.payload)
        self._interval, self._left = ticks(choice.interval), choice.messages
        self._lines: defaultdict[str, deque[tuple[int, Callable[[], None]]]] = defaultdict(deque)
        #: By node whose protocol lets its message wait: what to do when it has gone.
        self._waiting: dict[int, Callable[[], None]] = {}

    def asker(self, node: int, choose: Callable[[], str]) -> Callable[[], None]:
        """What makes `node` ask for its next turn, on a topic it chooses then."""

        def ask() -> None:
            topic = choose()
            line = self._lines[topic]
            line.append((node, ask))
            if len(line) == 1:
                self._serve(topic)

        return ask

    def _serve(self, topic: str) -> None:
        """Whoever is first in line gets a time. One at a time, so that the last message's cost is known."""
        line = self._lines[topic]
        if line and self._left:
            self._left -= 1
            begin = self._promises.book(topic, line[0][0], self._simulation.now)
            self._simulation.at(begin, lambda: self._publish(topic))

    def _publish(self, topic: str) -> None:
        simulation = self._simulation
        node, ask = self._lines[topic].popleft()
        message = simulation.publish(node, topic, self._payload)
        if message is None:
            self._waiting[node] = ask
            simulation.on_delivery = self._hear
        else:
            self._promises.correct(topic, node, self._sizes.guess(message))
            simulation.at(simulation.now + self._interval, ask)
        self._serve(topic)

    def _hear(self, node: int, message: Message) -> None:
        if message.source == node and (ask := self._waiting.pop(node, None)) is not None:
            self._simulation.at(self._simulation.now + self._interval, ask)
