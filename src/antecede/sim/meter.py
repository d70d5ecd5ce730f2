"""Measures a run as it goes, without a trace: the metrics of thesis 4.5.1 and 5.6.1, counted as its authors count them.

* A *reception* is the first arrival of a message at a node that wants its topic, or that delivers it later. A node
  wants a topic from its application's request to subscribe to that to unsubscribe; both take effect later. Any other
  first arrival is a *relay's*, a false positive. Later arrivals are *duplicates*.
* Where messages go to a root first (`post`), that hop is no reception, and the root's delivery does not count. The
  publisher's own message coming back down the tree counts as a reception and a delivery. Everywhere else a publisher's
  own copy counts for neither.
* Latencies count from the publication. The *wait* is the time from the first arrival to the delivery: what causal order
  imposed. A repeated delivery has none. A message may wait for its turn before it is stamped and sent: `turn` says how
  long it did, and `latency_from_request` counts from the application's call.
* *Hops* are those of the first arrival at a member; a root's copy counts 0, and so does a publisher's own, unless it
  comes back.
* A packet is *dropped* when the network loses it or a copy of it arrives at a node that is down.
* A packet's *place* is how many packets stood in its sender's queue once it was in (the network `peersim` only).

`tests/sim/test_figures.py` holds these figures to those computed from traces.
"""

from array import array
from collections import Counter, defaultdict, deque
from typing import Final, NamedTuple

import numpy as np

from antecede.core import Message, Packet
from antecede.core.native import mypyc_attr
from antecede.sim.figures import BroadcastFigures, GroupFigures, QueueFigures
from antecede.sim.peersim import StepQueues

#: In the place of hops: the message has not come; its publisher has sent it to a root, whence it may come back.
_NOT_YET: Final = 0xFFFF
_POSTED: Final = 0xFFFE


class _Known(NamedTuple):
    """A published message."""

    published_at: int
    #: By node: the links it had crossed on its first arrival.
    hops: "array[int]"
    #: A message and a node make a cell: this number plus the node's.
    cell: int
    #: How long it waited for its turn.
    turn: int
    #: Did its publisher want the topic?
    own: bool


@mypyc_attr(allow_interpreted_subclasses=True)
class Meter:
    """An observer of the engine that adds up."""

    def __init__(self, nodes: int, *, with_queues: bool = False) -> None:
        """`with_queues`: `groups` is asked for the figures of a network that records its queues."""
        self._nodes = nodes
        self._takes: defaultdict[str, set[int]] = defaultdict(set)
        self._known: dict[tuple[str, int, int], _Known] = {}
        self._nowhere = array("H", [_NOT_YET]) * nodes
        # By node and topic: when publications were asked for that wait for their turn.
        self._asked: defaultdict[tuple[int, str], deque[int]] = defaultdict(deque)
        self._turns = self._turns_received = 0
        # By cell: when messages came that are not delivered, to nodes that want them and to others; copies at a root.
        # ~time, which is negative, where the node has crashed since.
        self._came: dict[int, int] = {}
        self._relayed: dict[int, int] = {}
        self._at_root: set[int] = set()
        self._reception = array("q")
        self._delivery = array("q")
        self._waits = array("q")
        self._hops: Counter[int] = Counter()
        self._dependencies: Counter[int] = Counter()
        self._duplicates = 0
        self._out_of_order = 0
        self._changes: Counter[str] = Counter()
        #: Numbers of packets.
        self._dropped: set[int] = set()
        # How many packets of each kind, with how many messages and bytes, were sent. Kinds by number, as they come.
        self._packets: defaultdict[tuple[str, int, int], int] = defaultdict(int)
        self._numbers: dict[str, int] = {}
        self._kinds: dict[type[Packet], str] = {}
        # For each packet sent, its kind and its sender, to put beside what the network recorded.
        self._with_queues = with_queues
        self._kind_of = array("B")
        self._sender_of = array("H")
        # By node: most messages in a packet.
        self._bundle_max: defaultdict[int, int] = defaultdict(int)
        # By node: messages that came and are not delivered, and the most of them at a time.
        self._pending: defaultdict[int, int] = defaultdict(int)
        self._pending_max: defaultdict[int, int] = defaultdict(int)

    def waits_for_its_turn(self, now: int, node: int, topic: str) -> None:
        """A publication was asked for, and is stamped later (`published`)."""
        self._asked[node, topic].append(now)

    def asks(self, now: int, node: int, topic: str, takes: bool) -> None:
        """An application asks for a topic, or to leave it; that takes effect later (`changed`)."""
        (self._takes[topic].add if takes else self._takes[topic].discard)(node)

    def published(self, now: int, node: int, message: Message) -> None:
        topic = message.topic
        hops = self._nowhere[:]
        hops[node] = 0
        asked = self._asked.get((node, topic))
        turn = now - asked.popleft() if asked else 0
        self._turns += turn
        own = node in self._takes[topic]
        self._hops[0] += own
        cell = len(self._known) * self._nodes
        self._known[topic, message.source, message.seq] = _Known(now, hops, cell, turn, own)
        self._dependencies[len(message.deps)] += 1

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None:
        kind, count = self._kinds.get(type(packet)) or self._kind(packet), len(packet.messages)
        self._packets[kind, count, size] += 1
        if count > self._bundle_max[node]:
            self._bundle_max[node] = count
        if self._with_queues:
            self._kind_of.append(self._numbers.setdefault(kind, len(self._numbers)))
            self._sender_of.append(node)

    def _kind(self, packet: Packet) -> str:
        """`packet.kind`, remembered where it depends on the type alone."""
        kind = packet.kind
        if type(packet).kind is Packet.kind:
            self._kinds[type(packet)] = kind
        return kind

    def received(self, now: int, node: int, sender: int, number: int, packet: Packet, size: int) -> None:
        messages = packet.messages
        if not messages:
            return
        new = 0
        is_post = self._kinds.get(type(packet)) == "post"
        known, takes, came = self._known, self._takes, self._came
        for message in messages:
            topic = message.topic
            published_at, hops, cell, turn, own = known[topic, message.source, message.seq]
            cell += node
            before, crossed = hops[node], hops[sender] + 1
            if crossed > _POSTED:  # its sender has it from elsewhere
                crossed = 1
            if is_post:
                self._post(message, node, hops, crossed, cell)
                continue
            if before < _POSTED:
                self._duplicates += 1
                continue
            hops[node] = crossed
            if node not in takes[topic]:
                self._relayed[cell] = now
                continue
            self._reception.append(now - published_at)
            self._hops[crossed] += 1
            if turn:
                self._turns_received += turn
            if before == _POSTED:  # a publisher's own message comes back
                self._hops[0] -= own
                self._delivery.append(now - published_at)
                self._waits.append(0)
            else:
                came[cell] = now
                new += 1
        if new:
            # The pending set of thesis Algorithm 2: what has come and is not delivered, the newcomers included.
            self._pending[node] = pending = self._pending[node] + new
            if pending > self._pending_max[node]:
                self._pending_max[node] = pending

    def _post(self, message: Message, node: int, hops: "array[int]", crossed: int, cell: int) -> None:
        """A message on its way to a root, or there."""
        if hops[message.source] == 0:
            hops[message.source] = _POSTED
        if hops[node] == _NOT_YET:
            hops[node] = crossed
            self._hops[0] += node in self._takes[message.topic]
            self._at_root.add(cell)

    def delivered(self, now: int, node: int, message: Message, *, out_of_order: bool = False) -> None:
        self._out_of_order += out_of_order
        if message.source == node:
            return
        published_at, hops, cell, turn, _ = self._known[message.topic, message.source, message.seq]
        cell += node
        came = self._came.pop(cell, None)
        if came is not None:
            if came >= 0:
                self._pending[node] -= 1
            else:
                came = ~came
        elif cell in self._at_root:
            return
        else:
            came = self._relayed.pop(cell, None)
            if came is not None:  # it had asked to leave before its join took effect, which comes first
                self._reception.append(came - published_at)
                self._hops[hops[node]] += 1
                self._turns_received += turn
        self._delivery.append(now - published_at)
        self._waits.append(0 if came is None else now - came)

    def dropped(self, now: int, node: int, sender: int, number: int, packet: Packet) -> None:
        self._dropped.add(number)

    def changed(self, now: int, node: int, what: str, topic: str) -> None:
        self._changes[what] += 1
        if what == "subscribe":
            self._takes[topic].add(node)
        elif what == "unsubscribe":
            self._takes[topic].discard(node)
        elif what == "crash":  # it holds nothing any more, and may be given the same messages again
            self._pending[node] = 0
            for cell, came in self._came.items():
                if cell % self._nodes == node and came >= 0:
                    self._came[cell] = ~came

    # -- the figures ------------------------------------------------------------------------------------------------

    def broadcast(self) -> dict[str, object]:
        """The figures of a broadcast (thesis 4.5)."""
        bundles: Counter[int] = Counter()
        sizes: Counter[int] = Counter()
        control = 0
        for (_, count, size), packets in self._packets.items():
            if count:
                bundles[count] += packets
                sizes[size] += packets
            else:
                control += packets
        return BroadcastFigures(
            published=len(self._known),
            control_packets=control,
            dropped_packets=len(self._dropped),
            bundles=bundles,
            sizes=sizes,
            reception=np.frombuffer(self._reception, np.int64),
            delivery=np.frombuffer(self._delivery, np.int64),
            waits=np.frombuffer(self._waits, np.int64),
            dependencies=self._dependencies,
            pending_max=Counter(self._pending_max.values()),
            bundle_max=Counter(most for most in self._bundle_max.values() if most),
        ).metrics()

    def groups(self, wire: object = None) -> dict[str, object]:
        """The figures of a protocol with subscriptions (thesis 5.6)."""
        sent: dict[str, int] = {}
        bytes_sent: dict[str, int] = {}
        for (kind, _, size), packets in self._packets.items():
            sent[kind] = sent.get(kind, 0) + packets
            bytes_sent[kind] = bytes_sent.get(kind, 0) + packets * size
        figures = GroupFigures(
            published=len(self._known),
            sent=sent,
            bytes_sent=bytes_sent,
            dropped_packets=len(self._dropped),
            subscriptions=self._changes["subscribe"],
            unsubscriptions=self._changes["unsubscribe"],
            reception=np.frombuffer(self._reception, np.int64),
            delivery=np.frombuffer(self._delivery, np.int64),
            waits=np.frombuffer(self._waits, np.int64),
            out_of_order=self._out_of_order,
            duplicates=self._duplicates,
            relayed=len(self._relayed),
            turns=self._turns,
            turns_received=self._turns_received,
            hops=+self._hops,
            dependencies=self._dependencies,
        )
        if isinstance(wire, StepQueues):
            return figures.metrics() | self._queues(wire, sent).metrics()
        return figures.metrics()

    def _queues(self, wire: StepQueues, sent: dict[str, int]) -> QueueFigures:
        kinds = np.frombuffer(self._kind_of, np.uint8)
        senders = np.frombuffer(self._sender_of, np.uint16)
        places = np.frombuffer(wire.places, np.uint32)
        delays = np.frombuffer(wire.delays, np.int64)
        queued = places > 0
        # A publisher's own packet to a root is no part of the load a tree puts on a node.
        routed = queued & (kinds != self._numbers.get("post", -1))
        highest = np.zeros(self._nodes, np.int64)
        np.maximum.at(highest, senders, places)
        return QueueFigures(
            packets=sent,
            places={kind: int(places[kinds == number].sum()) for kind, number in self._numbers.items()},
            delays={kind: int(delays[kinds == number].sum()) for kind, number in self._numbers.items()},
            queued=int(queued.sum()),
            packets_by_node=np.bincount(senders[routed], minlength=self._nodes),
            places_by_node=np.bincount(senders[routed], weights=places[routed], minlength=self._nodes).astype(np.int64),
            highest_by_node=highest,
        )
