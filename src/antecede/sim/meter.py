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
from typing import Final

import numpy as np

from antecede.core import Message, Packet
from antecede.core.native import mypyc_attr
from antecede.sim.figures import BroadcastFigures, GroupFigures, QueueFigures
from antecede.sim.peersim import StepQueues

#: In the place of hops: the message has not come; its publisher has sent it to a root, whence it may come back.
_NOT_YET: Final = 0xFFFF
_POSTED: Final = 0xFFFE


#: How many figures are collected in lists, which take less time, before they go to arrays, which take less memory. So
#: few that they stay in the processor's caches.
_COLLECTED_MAX: Final = 512


class _Known:
    """A published message."""

    __slots__ = ("cell", "hops", "own", "published_at", "takes", "turn")

    def __init__(
        self, published_at: int, hops: "array[int]", cell: int, turn: int, takes: set[int], *, own: bool
    ) -> None:
        self.published_at = published_at
        #: By node: the links it had crossed on its first arrival.
        self.hops = hops
        #: A message and a node make a cell: this number plus the node's.
        self.cell = cell
        #: How long it waited for its turn.
        self.turn = turn
        #: The nodes that want its topic, now.
        self.takes = takes
        #: Did its publisher want the topic?
        self.own = own


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
        # The message that came last, if a node wants it, is in `_came` once another message comes. Mostly it is
        # delivered before that.
        self._last: Message | None = None
        self._last_node = self._last_at = 0
        self._last_known: _Known | None = None
        self._reception = array("q")
        self._delivery = array("q")
        self._waits = array("q")
        # What is not in these arrays yet.
        self._receptions: list[int] = []
        self._deliveries: list[int] = []
        self._waited: list[int] = []
        #: Receptions by hops.
        self._hops: list[int] = [0]
        self._dependencies: Counter[int] = Counter()
        self._duplicates = 0
        self._out_of_order = 0
        self._changes: Counter[str] = Counter()
        #: Numbers of packets.
        self._dropped: set[int] = set()
        # How many packets of each kind, with how many messages and bytes, were sent. Kinds by number, as they come.
        self._packets: dict[tuple[str, int, int], int] = {}
        self._numbers: dict[str, int] = {}
        self._kinds: dict[type[Packet], str] = {}
        self._posts = False
        # The packet that was sent last, its sender and size, and how often: it is counted when another one is sent.
        self._sent: Packet | None = None
        self._sent_by = self._sent_size = self._sent_times = 0
        # For each packet sent, its kind and its sender, to put beside what the network recorded.
        self._with_queues = with_queues
        self._kind_of = array("B")
        self._sender_of = array("H")
        # By node: most messages in a packet.
        self._bundle_max = [0] * nodes
        # By node: messages that came and are not delivered, and the most of them at a time.
        self._pending = [0] * nodes
        self._pending_max = [0] * nodes

    def waits_for_its_turn(self, now: int, node: int, topic: str) -> None:
        """A publication was asked for, and is stamped later (`published`)."""
        self._asked[node, topic].append(now)

    def asks(self, now: int, node: int, topic: str, takes: bool) -> None:
        """An application asks for a topic, or to leave it; that takes effect later (`changed`)."""
        (self._takes[topic].add if takes else self._takes[topic].discard)(node)

    def published(self, now: int, node: int, message: Message) -> None:
        self._settle()
        topic = message.topic
        hops = self._nowhere[:]
        hops[node] = 0
        asked = self._asked.get((node, topic))
        turn = now - asked.popleft() if asked else 0
        self._turns += turn
        takes = self._takes[topic]
        own = node in takes
        self._hops[0] += own
        cell = len(self._known) * self._nodes
        self._known[topic, message.source, message.seq] = _Known(now, hops, cell, turn, takes, own=own)
        self._dependencies[len(message.deps)] += 1

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None:
        if packet is self._sent and size == self._sent_size and node == self._sent_by:
            self._sent_times += 1
        else:
            self._count_sent()
            if type(packet) not in self._kinds:
                self._kind(packet)
            self._sent, self._sent_by, self._sent_size, self._sent_times = packet, node, size, 1
        if self._with_queues:
            kind = self._kinds.get(type(packet)) or self._kind(packet)
            self._kind_of.append(self._numbers.setdefault(kind, len(self._numbers)))
            self._sender_of.append(node)

    def _count_sent(self) -> None:
        """Count the packet that was sent last."""
        packet, node = self._sent, self._sent_by
        if packet is None:
            return
        kind, count = self._kinds.get(type(packet)) or self._kind(packet), len(packet.messages)
        key = (kind, count, self._sent_size)
        self._packets[key] = self._packets.get(key, 0) + self._sent_times
        if count > self._bundle_max[node]:
            self._bundle_max[node] = count
        self._sent = None

    def _kind(self, packet: Packet) -> str:
        """`packet.kind`, remembered where it depends on the type alone."""
        kind = packet.kind
        if type(packet).kind is Packet.kind:
            self._kinds[type(packet)] = kind
            if kind == "post":
                self._posts = True
        return kind

    def received(self, now: int, node: int, sender: int, number: int, packet: Packet, size: int) -> None:
        messages = packet.messages
        if not messages:
            return
        new = 0
        is_post = self._posts and self._kinds.get(type(packet)) == "post"
        self._settle()
        for message in messages:
            known = self._known[message.topic, message.source, message.seq]
            hops = known.hops
            before, crossed = hops[node], hops[sender] + 1
            if crossed > _POSTED:  # its sender has it from elsewhere
                crossed = 1
            if is_post:
                self._post(message, node, hops, crossed, known.cell + node)
                continue
            if before < _POSTED:
                self._duplicates += 1
                continue
            hops[node] = crossed
            if node not in known.takes:
                self._relayed[known.cell + node] = now
                continue
            latency = now - known.published_at
            self._receptions.append(latency)
            self._count_hops(crossed)
            self._turns_received += known.turn
            if before == _POSTED:  # a publisher's own message comes back
                self._hops[0] -= known.own
                self._deliveries.append(latency)
                self._waited.append(0)
            else:
                self._settle()
                self._last, self._last_node, self._last_at, self._last_known = message, node, now, known
                new += 1
        if new:
            # The pending set of thesis Algorithm 2: what has come and is not delivered, the newcomers included.
            self._pending[node] = pending = self._pending[node] + new
            if pending > self._pending_max[node]:
                self._pending_max[node] = pending
        if len(self._receptions) >= _COLLECTED_MAX or len(self._deliveries) >= _COLLECTED_MAX:
            self._collect()

    def _settle(self) -> None:
        """The message that came last is not delivered at once."""
        known = self._last_known
        if known is not None:
            self._came[known.cell + self._last_node] = self._last_at
            self._last = self._last_known = None

    def _count_hops(self, crossed: int) -> None:
        while crossed >= len(self._hops):
            self._hops.append(0)
        self._hops[crossed] += 1

    def _collect(self) -> None:
        """Move figures from lists to arrays."""
        self._reception.fromlist(self._receptions)
        self._delivery.fromlist(self._deliveries)
        self._waits.fromlist(self._waited)
        self._receptions.clear()
        self._deliveries.clear()
        self._waited.clear()

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
        known = self._last_known
        if known is not None and message is self._last and node == self._last_node:
            self._last = self._last_known = None
            self._pending[node] -= 1
            self._deliveries.append(now - known.published_at)
            self._waited.append(now - self._last_at)
            return
        if message.source == node:
            return
        self._settle()
        known = self._known[message.topic, message.source, message.seq]
        cell = known.cell + node
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
                self._receptions.append(came - known.published_at)
                self._count_hops(known.hops[node])
                self._turns_received += known.turn
        self._deliveries.append(now - known.published_at)
        self._waited.append(0 if came is None else now - came)

    def dropped(self, now: int, node: int, sender: int, number: int, packet: Packet) -> None:
        self._dropped.add(number)

    def changed(self, now: int, node: int, what: str, topic: str) -> None:
        self._changes[what] += 1
        if what == "subscribe":
            self._takes[topic].add(node)
        elif what == "unsubscribe":
            self._takes[topic].discard(node)
        elif what == "crash":  # it holds nothing any more, and may be given the same messages again
            self._settle()
            self._pending[node] = 0
            for cell, came in self._came.items():
                if cell % self._nodes == node and came >= 0:
                    self._came[cell] = ~came

    # -- the figures ------------------------------------------------------------------------------------------------

    def broadcast(self) -> dict[str, object]:
        """The figures of a broadcast (thesis 4.5)."""
        self._count_sent()
        self._collect()
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
            pending_max=Counter(most for most in self._pending_max if most),
            bundle_max=Counter(most for most in self._bundle_max if most),
        ).metrics()

    def groups(self, wire: object = None) -> dict[str, object]:
        """The figures of a protocol with subscriptions (thesis 5.6)."""
        self._count_sent()
        self._collect()
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
            hops=Counter({hops: count for hops, count in enumerate(self._hops) if count > 0}),
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
