"""SRPT: a single root for each topic, to compare with VCube-PS (thesis 5.3, 5.6). Causal, through the same gate.

A publisher sends its message to the topic's root, which sends it down the topic's one tree. Nodes between members relay
messages that they do not take. In SRPT-S every subscriber is in the tree; in SRPT-B only brokers are, and forward to
their subscribers (`overlay.shared_tree`).

Membership is as in the thesis. A node that joins or leaves tells the root, which tells every node (in SRPT-B: every
broker), so each node knows which branches lead to members. Acknowledgements go up the tree from the leaves to the root.
They cost packets, but no node waits for them: the root alone decides the order.

Why this is causal, even when members change and links reorder. The root takes the messages of a source in order, and
receives a message after those its publisher had delivered, which came through the root. Messages carry barriers
(immediate predecessors) and pass the gate. The root numbers every membership change and stamps each message with the
number of changes before it; a node forwards a message only after those changes. With its SUB a joiner learns how far
each source had come at the root: the messages up to there predate its join.
"""

from collections.abc import Callable, Collection, Mapping
from itertools import pairwise

from antecede.core import Frontier, Gate, Message, Packet, Process, ProtocolError, UsageError, Verdict
from antecede.overlay.shared_tree import SharedTree
from antecede.protocols.sizes import ByteModel
from antecede.protocols.srpt.packets import Ack, Ask, Broadcast, Post, Pub, Sub, Uns


class _Group:
    """What one node knows of one topic."""

    def __init__(self, node: int, tree: SharedTree, members: Collection[int]) -> None:
        self.tree = tree
        #: Did this node ask to join; and has its request come back from the root?
        self.takes = self.joined = node in members
        self.changes = 0
        self.seq = 0
        self.frontier = Frontier()
        self.gate: Gate[Message] = Gate()
        #: The root's broadcasts, ordered by the membership changes among them.
        self.order: Gate[tuple[int, Broadcast]] = Gate()
        #: By child: how many members are at that child and below it.
        self.below: dict[int, int] = {}
        self.hops: tuple[int, ...] | None = None
        #: By broadcast number: the node to acknowledge it to, and how many acknowledgements are missing.
        self.acks: dict[int, tuple[int, int]] = {}

    def count(self, node: int, member: int, change: int) -> None:
        """`member` has joined (+1) or left (−1). Count it at the child that leads to it, if it is below `node`."""
        path = self.tree.path(member)
        if node in path[:-1]:
            child = path[path.index(node) + 1]
            self.below[child] = self.below.get(child, 0) + change
            self.hops = None

    def next_hops(self, node: int) -> tuple[int, ...]:
        if self.hops is None:
            self.hops = tuple([child for child in self.tree.children(node) if self.below.get(child)])
        return self.hops


class _Root:
    """What only the root of a topic knows."""

    def __init__(self) -> None:
        #: Orders what each node sends: messages by source, changes by node.
        self.inbox: Gate[Post | Ask] = Gate()
        self.number = 0
        self.version = 0
        #: By source: the last message broadcast.
        self.reached: dict[int, int] = {}


class Srpt(Process):
    """A node of a system with one tree for each topic."""

    reports_membership = True

    def __init__(
        self,
        node: int,
        tree_of: Callable[[str], SharedTree],
        sizes: ByteModel,
        founders: Mapping[str, Collection[int]],
        below: Mapping[str, Mapping[int, int]],
    ) -> None:
        """`below`: by topic and child of this node, how many founders are at that child and below it."""
        super().__init__(node)
        self._tree_of = tree_of
        self._sizes = sizes
        self._groups: dict[str, _Group] = {}
        self._roots: dict[str, _Root] = {}
        for topic, members in founders.items():
            group = self._groups[topic] = _Group(node, tree_of(topic), members)
            group.below.update(below.get(topic, {}))

    # -- the application ----------------------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes) -> Message:
        group = self._group(topic)
        if not group.takes:
            raise UsageError("topic", topic, f"node {self.node} does not subscribe to it", "subscribe first")
        group.seq += 1
        message = Message(topic, self.node, group.seq, group.frontier.stamp(), payload)
        group.gate.mark_settled(self.node, group.seq)
        self.out.deliver(message)
        self._to_root(group, Post(message))
        return message

    def subscribe(self, topic: str) -> None:
        self._change(topic, True)

    def unsubscribe(self, topic: str) -> None:
        self._change(topic, False)

    def wants(self, topic: str) -> bool:
        return self._group(topic).takes

    def takes(self, topic: str) -> bool:
        return self._group(topic).joined

    # -- packets ------------------------------------------------------------------------------------------------

    def receive(self, sender: int, packet: Packet) -> None:
        match packet:
            case Pub():
                self._in_order(self._group(packet.message.topic), sender, packet)
            case Ack():
                self._acknowledged(self._group(packet.topic), packet)
            case Post():
                self._at_root(packet.message.topic, packet)
            case Sub() | Uns():
                self._in_order(self._group(packet.topic), sender, packet)
            case Ask():
                self._at_root(packet.topic, packet)
            case _:
                raise ProtocolError(f"node {self.node} got a {type(packet).__name__} from {sender}, not one of SRPT's")

    def size(self, packet: Packet) -> int:
        if packet.messages:
            return self._sizes.packet(packet.messages)
        floors = len(packet.floors) if isinstance(packet, Sub) else 0
        return self._sizes.header + (self._sizes.source + self._sizes.entry) * (1 + floors)

    @property
    def held(self) -> int:
        return sum(group.gate.held + group.order.held for group in self._groups.values()) + sum(
            root.inbox.held for root in self._roots.values()
        )

    # -- at the root --------------------------------------------------------------------------------------------

    def _to_root(self, group: _Group, packet: Post | Ask) -> None:
        if self.node == group.tree.root:
            self._at_root(packet.message.topic if isinstance(packet, Post) else packet.topic, packet)
        else:
            self.out.send(group.tree.root, packet)

    def _at_root(self, topic: str, packet: Post | Ask) -> None:
        group = self._group(topic)
        if group.tree.root != self.node:
            raise ProtocolError(f"node {self.node} got a {packet.kind} for {topic}, whose root is {group.tree.root}")
        root = self._roots.setdefault(topic, _Root())
        place = (
            (packet.message.source, packet.message.seq)
            if isinstance(packet, Post)
            else (("change", packet.node), packet.change)
        )
        if root.inbox.offer(packet, (place,)) is Verdict.FULL:
            raise ProtocolError(f"root {self.node} holds {root.inbox.held} packets and cannot take more")
        for entered in root.inbox.drain():
            self._in_order(group, None, self._numbered(root, entered))

    def _numbered(self, root: _Root, packet: Post | Ask) -> Broadcast:
        root.number += 1
        if isinstance(packet, Post):
            message = packet.message
            root.reached[message.source] = message.seq
            return Pub(message, root.number, root.version)
        root.version += 1
        if packet.joins:
            floors = tuple(root.reached.items())
            return Sub(packet.topic, packet.node, packet.change, root.number, root.version, floors)
        return Uns(packet.topic, packet.node, packet.change, root.number, root.version)

    # -- down the tree ------------------------------------------------------------------------------------------

    def _in_order(self, group: _Group, sender: int | None, packet: Broadcast) -> None:
        """Apply membership changes in order, and forward a message after the changes it was broadcast after.

        A node that is told only of its own changes forwards nothing, and waits only for its own.
        """
        informed = group.tree.is_informed(self.node)
        entry = (-1 if sender is None else sender, packet)
        if isinstance(packet, Pub):
            verdict = group.order.offer(entry, (), ((_CHANGES, packet.version if informed else group.changes),))
        else:
            verdict = group.order.offer(entry, ((_CHANGES, packet.version if informed else packet.change),))
        if verdict is Verdict.FULL:
            raise ProtocolError(f"node {self.node} holds {group.order.held} packets and cannot take more")
        for came_from, ready in group.order.drain():
            if isinstance(ready, Pub):
                self._take(group, came_from, ready)
            else:
                self._learn(group, came_from, ready)

    def _take(self, group: _Group, parent: int, packet: Pub) -> None:
        hops = group.next_hops(self.node)
        for hop in hops:
            self.out.send(hop, packet)
        self._await(group, parent, packet.message.topic, packet.number, len(hops))
        if group.takes and group.joined:
            message = packet.message
            if group.gate.offer(message, ((message.source, message.seq),), message.deps) is Verdict.FULL:
                raise ProtocolError(f"node {self.node} holds {group.gate.held} messages and cannot take {message.id}")
            self._deliver_ready(group)

    def _learn(self, group: _Group, parent: int, packet: Sub | Uns) -> None:
        towards = group.tree.path(packet.node)
        hops = group.tree.informed(self.node)
        if self.node in towards[:-1] and towards[-1] not in hops and towards[-2] == self.node:
            hops = (*hops, packet.node)  # a subscriber of this broker
        without = packet
        if isinstance(packet, Sub) and packet.floors:
            without = Sub(packet.topic, packet.node, packet.change, packet.number, packet.version)
        for hop in hops:
            self.out.send(hop, packet if hop in towards else without)
        self._await(group, parent, packet.topic, packet.number, len(hops))
        group.count(self.node, packet.node, 1 if isinstance(packet, Sub) else -1)
        if packet.node == self.node and isinstance(packet, Sub) and group.takes and packet.change == group.changes:
            group.joined = True
            self.out.joined(packet.topic)
            for source, seq in packet.floors:
                group.gate.floor(source, seq)
            self._deliver_ready(group)

    def _deliver_ready(self, group: _Group) -> None:
        for message in group.gate.drain():
            group.frontier.observe(message)
            self.out.deliver(message)

    # -- acknowledgements ---------------------------------------------------------------------------------------

    def _await(self, group: _Group, parent: int, topic: str, number: int, hops: int) -> None:
        if parent < 0:
            return  # this node is the root, and needs no acknowledgement
        if hops:
            group.acks[number] = (parent, hops)
        else:
            self.out.send(parent, Ack(topic, number))

    def _acknowledged(self, group: _Group, packet: Ack) -> None:
        waiting = group.acks.pop(packet.number, None)
        if waiting is None:
            return
        parent, hops = waiting
        if hops > 1:
            group.acks[packet.number] = (parent, hops - 1)
        else:
            self.out.send(parent, packet)

    # -- membership ---------------------------------------------------------------------------------------------

    def _change(self, topic: str, joins: bool) -> None:
        group = self._group(topic)
        if group.takes == joins:
            return
        if group.joined:
            self.out.left(topic)
        group.takes = joins
        group.joined = False
        group.changes += 1
        self._to_root(group, Ask(topic, self.node, joins, group.changes))

    def _group(self, topic: str) -> _Group:
        group = self._groups.get(topic)
        if group is None:
            group = self._groups[topic] = _Group(self.node, self._tree_of(topic), ())
        return group


#: The gate's stream of a topic's membership changes.
_CHANGES = "changes"


def founders_below(tree: SharedTree, members: Collection[int]) -> dict[int, dict[int, int]]:
    """By node and child: how many of `members` are at the child and below it. Computed once for all nodes."""
    below: dict[int, dict[int, int]] = {}
    for member in members:
        path = tree.path(member)
        for node, child in pairwise(path):
            counts = below.setdefault(node, {})
            counts[child] = counts.get(child, 0) + 1
    return below
