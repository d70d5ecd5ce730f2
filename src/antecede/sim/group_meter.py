"""Measures a run of a protocol with subscriptions: the metrics of thesis 5.6.1, counted as its authors count them.

* A *reception* is a message reaching a member; one that reaches a node which does not want its topic is a *relay's*, a
  false positive. Where messages go to a root first (`post`), that hop is no reception, and a publisher's own message
  coming back down the tree is one.
* Latencies count from the publication. Delivery − reception is the *wait* that causal order imposed. Where a message
  waits for its turn before it is stamped and sent, `turn` says how long it did, and `latency_from_request` counts from
  the application's call.
* *Hops* are those of a message's first arrival at a member; a root's copy counts 0, and so does a publisher's own,
  unless it comes back.
* A packet's *place* is how many packets stood in its sender's queue once it was in (the network `peersim` only).
"""

from array import array
from collections import Counter, defaultdict, deque

import numpy as np

from antecede.core import Message, Packet
from antecede.sim.engine import Simulation
from antecede.sim.group_figures import GroupFigures, QueueFigures
from antecede.sim.peersim import StepQueues

_NOT_YET = 255


class GroupMeter:
    """An observer of the engine that adds up."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._takes: defaultdict[str, set[int]] = defaultdict(set)
        # By message: when it was published, and for each node the links it had crossed when it came.
        self._known: dict[tuple[str, int, int], tuple[int, bytearray]] = {}
        # By node and topic: when messages were asked for that wait for their turn. By message: how long it waited.
        self._asked: defaultdict[tuple[int, str], deque[int]] = defaultdict(deque)
        self._turn: dict[tuple[str, int, int], int] = {}
        self._turns = 0
        self._reception = array("q")
        self._delivery = array("q")
        self._waits = array("q")
        self._hops: Counter[int] = Counter()
        self._dependencies: Counter[int] = Counter()
        self._relayed = 0
        self._duplicates = 0
        self._dropped = 0
        self._out_of_order = 0
        self._changes: Counter[str] = Counter()
        # By sort of packet: its number, and how many were sent, with their bytes.
        self._sorts: dict[type[Packet], int] = {}
        self._names: list[str] = []
        self._sent: list[int] = []
        self._bytes: list[int] = []
        # For each packet sent, its sort and its sender, to put beside what the network recorded.
        self._sort_of = array("B")
        self._sender_of = array("H")
        # The message that came last, while it is not delivered; and when those came that had to wait.
        self._fresh: dict[int, Message] = {}
        self._fresh_at = (-1, -1)
        self._came: dict[tuple[int, str, int, int], int] = {}

    def asked(self, now: int, node: int, topic: str) -> None:
        """A publication was asked for, and waits for its turn."""
        self._asked[node, topic].append(now)

    def wished(self, node: int, topic: str, takes: bool) -> None:
        """A node wants a topic, or wants it no more; that it is so comes later (`changed`)."""
        if takes:
            self._takes[topic].add(node)
        else:
            self._takes[topic].discard(node)

    def published(self, now: int, node: int, message: Message) -> None:
        hops = bytearray(b"\xff") * self._nodes
        hops[node] = 0
        self._known[message.topic, message.source, message.seq] = (now, hops)
        asked = self._asked.get((node, message.topic))
        if asked:
            self._turn[message.topic, message.source, message.seq] = now - asked.popleft()
        self._dependencies[len(message.deps)] += 1

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None:
        sort = self._sorts.get(type(packet))
        if sort is None:
            if packet.kind not in self._names:  # two protocols may use one word
                self._names.append(packet.kind)
                self._sent.append(0)
                self._bytes.append(0)
            sort = self._sorts[type(packet)] = self._names.index(packet.kind)
        self._sent[sort] += 1
        self._bytes[sort] += size
        self._sort_of.append(sort)
        self._sender_of.append(node)

    def received(self, now: int, node: int, sender: int, number: int, packet: Packet, size: int) -> None:
        messages = packet.messages
        if not messages:
            return
        if self._fresh:
            self._keep_fresh()
        for message in messages:
            published_at, hops = self._known[message.topic, message.source, message.seq]
            crossed = hops[sender] + 1
            if packet.kind == "post":
                hops[node] = crossed
                self._hops[0] += node in self._takes[message.topic]
                continue
            returned = message.source == node and hops[node] == 0
            if hops[node] != _NOT_YET and not returned:
                self._duplicates += 1
                continue
            hops[node] = crossed
            if node not in self._takes[message.topic]:
                self._relayed += 1
                continue
            self._reception.append(now - published_at)
            self._hops[crossed] += 1
            if self._turn:
                self._turns += self._turn.get((message.topic, message.source, message.seq), 0)
            if returned:
                self._delivery.append(now - published_at)
                self._waits.append(0)
            else:
                self._fresh[id(message)] = message
        self._fresh_at = (now, node)

    def delivered(self, now: int, node: int, message: Message, *, out_of_order: bool = False) -> None:
        self._out_of_order += out_of_order
        if message.source == node:
            return
        if self._fresh.pop(id(message), None) is not None and self._fresh_at == (now, node):
            wait = 0
        else:
            if self._fresh:
                self._keep_fresh()  # a layer above may give another copy of what has just come
            came = self._came.pop((node, message.topic, message.source, message.seq), None)
            if came is None:
                return  # at a root, which gets no reception either
            wait = now - came
        self._delivery.append(now - self._known[message.topic, message.source, message.seq][0])
        self._waits.append(wait)

    def dropped(self, now: int, node: int, sender: int, number: int, packet: Packet) -> None:
        self._dropped += 1

    def changed(self, now: int, node: int, what: str, topic: str) -> None:
        self._changes[what] += 1
        if what == "subscribe":
            self._takes[topic].add(node)
        elif what == "unsubscribe":
            self._takes[topic].discard(node)

    def metrics(self, wire: object = None) -> dict[str, object]:
        """Plain values: numbers, and histograms as {value: count}."""
        hops = self._hops.copy()
        for (topic, source, _), (_, crossed) in self._known.items():
            if crossed[source] == 0 and source in self._takes[topic]:
                hops[0] += 1
        figures = GroupFigures(
            published=len(self._known),
            sent=dict(zip(self._names, self._sent, strict=True)),
            bytes_sent=dict(zip(self._names, self._bytes, strict=True)),
            dropped_packets=self._dropped,
            subscriptions=self._changes["subscribe"],
            unsubscriptions=self._changes["unsubscribe"],
            reception=np.frombuffer(self._reception, np.int64),
            delivery=np.frombuffer(self._delivery, np.int64),
            waits=np.frombuffer(self._waits, np.int64),
            out_of_order=self._out_of_order,
            duplicates=self._duplicates,
            relayed=self._relayed,
            turns=sum(self._turn.values()),
            turns_received=self._turns,
            hops=hops,
            dependencies=self._dependencies,
        )
        if isinstance(wire, StepQueues):
            return figures.metrics() | self._queues(wire).metrics()
        return figures.metrics()

    def _keep_fresh(self) -> None:
        """What came last and was not delivered at once waits from then on."""
        now, node = self._fresh_at
        for message in self._fresh.values():
            self._came[node, message.topic, message.source, message.seq] = now
        self._fresh.clear()

    def _queues(self, wire: StepQueues) -> QueueFigures:
        sorts = np.frombuffer(self._sort_of, np.uint8)
        senders = np.frombuffer(self._sender_of, np.uint16)
        places = np.frombuffer(wire.places, np.uint32)
        delays = np.frombuffer(wire.delays, np.int64)
        queued = places > 0
        # A publisher's own packet to a root is no part of the load a tree puts on a node.
        routed = queued & (sorts != self._names.index("post")) if "post" in self._names else queued
        highest = np.zeros(self._nodes, np.int64)
        np.maximum.at(highest, senders, places)
        return QueueFigures(
            packets=dict(zip(self._names, self._sent, strict=True)),
            places={name: int(places[sorts == sort].sum()) for sort, name in enumerate(self._names)},
            delays={name: int(delays[sorts == sort].sum()) for sort, name in enumerate(self._names)},
            queued=int(queued.sum()),
            packets_by_node=np.bincount(senders[routed], minlength=self._nodes),
            places_by_node=np.bincount(senders[routed], weights=places[routed], minlength=self._nodes).astype(np.int64),
            highest_by_node=highest,
        )


class GroupSimulation(Simulation):
    """A simulation whose meter also hears what applications ask for, before it is so."""

    meter: GroupMeter | None = None

    def publish(self, node: int, topic: str, payload: bytes) -> Message | None:
        message = super().publish(node, topic, payload)
        if message is None and self.meter is not None and node in self.processes:
            self.meter.asked(self.now, node, topic)
        return message

    def subscribe(self, node: int, topic: str) -> None:
        if self.meter is not None:
            self.meter.wished(node, topic, True)
        super().subscribe(node, topic)

    def unsubscribe(self, node: int, topic: str) -> None:
        if self.meter is not None:
            self.meter.wished(node, topic, False)
        super().unsubscribe(node, topic)
