"""Scribe: publish/subscribe on a Pastry ring (Castro et al., JSAC 2002). The service that the TNO paper builds on.

A topic's *root* is the node whose name on the ring is closest to the topic's. A subscriber sends a JOIN towards it;
every node on the way remembers the previous hop as a child and, unless it is in the tree already, sends its own JOIN
on. A message is routed to the root and goes down the tree from there. A node that has no child left and does not
subscribe itself leaves its parent.

When a parent is suspected, its children join again around it. When a node comes up that is closer to a topic than its
root, the old root joins it. Meanwhile messages may be lost, and a message that comes by two paths is dropped the second
time. Scribe neither orders nor retransmits; the protocol above does (`protocols.tno`).

Added to the paper: a parent tells a child when its JOIN is in effect up to the root. From that moment on, everything
published is owed to the subscriber.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from antecede.core import Message, Packet, Process, ProtocolError
from antecede.core.numbers import NumberSet
from antecede.overlay.pastry import Pastry
from antecede.protocols.scribe.packets import Join, Joined, Leave, Post, Pub
from antecede.protocols.scribe.records import Wish
from antecede.protocols.sizes import ByteModel

#: A message is dropped after so many hops towards a root: it circles, since nodes disagree on which nodes are up.
HOPS_MAX: Final = 64


class _Group:
    """What one node knows of one topic."""

    def __init__(self, key: int) -> None:
        self.key = key
        self.takes = False
        #: Was the application told that it has joined?
        self.told = False
        self.parent: int | None = None
        #: Does every published message reach this node? It is the root, or its parent said so.
        self.attached = False
        #: How often this node joined or left a parent.
        self.change = 0
        self.children: dict[int, None] = {}
        #: By node that ever was a child: its last change. Links may reorder.
        self.said: dict[int, int] = {}
        #: Children that wait for `Joined`; and suspected children, which are children again if they are up after all.
        self.waiting: dict[int, None] = {}
        self.suspected: dict[int, None] = {}
        self.seq = 0
        self.seen: dict[int, NumberSet] = {}

    @property
    def needed(self) -> bool:
        return self.takes or bool(self.children)


class Founded(NamedTuple):
    """A tree as its founders' joins would have built it."""

    members: frozenset[int]
    #: By node in the tree; the root has no entry.
    parent: dict[int, int]
    children: dict[int, list[int]]


def found(next_hop: Callable[[int], int | None], members: Collection[int]) -> Founded:
    """Compute the tree once for all nodes: each member's path to the root, until it meets a path computed before."""
    tree = Founded(frozenset(members), {}, {})
    for member in members:
        here = member
        while here not in tree.parent and (hop := next_hop(here)) is not None:
            tree.parent[here] = hop
            tree.children.setdefault(hop, []).append(here)
            here = hop
    return tree


class Scribe(Process):
    """A node of a Scribe system."""

    reports_membership = True

    def __init__(self, node: int, ring: Pastry, sizes: ByteModel, founded: Mapping[str, Founded]) -> None:
        super().__init__(node)
        self._ring = ring
        self._sizes = sizes
        self._down: frozenset[int] = frozenset()
        self._groups: dict[str, _Group] = {}
        for topic, tree in founded.items():
            if node in tree.children or node in tree.members:
                group = self._group(topic)
                group.takes = group.told = node in tree.members
                group.attached = True
                group.parent = tree.parent.get(node)
                group.children = dict.fromkeys(tree.children.get(node, ()))

    # -- the application ----------------------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes) -> Message:
        group = self._group(topic)
        group.seq += 1
        message = Message(topic, self.node, group.seq, (), payload)
        self._keep(topic, group)
        if group.takes:
            self.out.deliver(message)  # not again when it comes down the tree
        self._towards_root(group, Post(message))
        return message

    def subscribe(self, topic: str) -> None:
        group = self._group(topic)
        if group.takes:
            return
        group.takes = True
        self._keep(topic, group)
        self._attach(topic, group)
        self._tell(topic, group)

    def unsubscribe(self, topic: str) -> None:
        group = self._group(topic)
        if not group.takes:
            return
        group.takes = False
        if group.told:
            group.told = False
            self.out.left(topic)
        self._keep(topic, group)
        self._detach_if_idle(topic, group)

    def takes(self, topic: str) -> bool:
        return self._group(topic).takes

    # -- packets ------------------------------------------------------------------------------------------------

    def receive(self, sender: int, packet: Packet) -> None:
        match packet:
            case Pub():
                group = self._group(packet.message.topic)
                if group.parent not in (None, sender):
                    self.out.send(sender, Leave(packet.message.topic, group.change))  # this node has another parent
                self._down_the_tree(group, packet.message)
            case Post():
                self._towards_root(self._group(packet.message.topic), packet)
            case Join():
                group = self._group(packet.topic)
                if self._is_news(group, sender, packet.change):
                    group.children[sender] = group.waiting[sender] = None
                    self._attach(packet.topic, group)
            case Joined():
                group = self._group(packet.topic)
                if sender == group.parent and packet.change == group.change and not group.attached:
                    self._now_attached(packet.topic, group)
            case Leave():
                group = self._group(packet.topic)
                if self._is_news(group, sender, packet.change):
                    self._without(group, sender)
                    self._detach_if_idle(packet.topic, group)
            case _:
                raise ProtocolError(f"node {self.node} got a {type(packet).__name__} from {sender}, none of Scribe's")

    def size(self, packet: Packet) -> int:
        return self._sizes.packet(packet.messages) if packet.messages else self._sizes.header

    def _towards_root(self, group: _Group, post: Post) -> None:
        hop = self._ring.next_hop(self.node, group.key, self._down)
        if hop is None:
            self._down_the_tree(group, post.message)
        elif post.hops < HOPS_MAX:
            self.out.send(hop, Post(post.message, post.hops + 1))

    def _down_the_tree(self, group: _Group, message: Message) -> None:
        seen = group.seen.get(message.source)
        if seen is None:
            seen = group.seen[message.source] = NumberSet()
        if not seen.add(message.seq):
            return
        packet = Pub(message)
        for child in group.children:
            self.out.send(child, packet)
        if group.takes and message.source != self.node:
            self.out.deliver(message)

    # -- the tree -----------------------------------------------------------------------------------------------

    def _attach(self, topic: str, group: _Group) -> None:
        """Enter the tree: as its root, or below a node nearer to it."""
        if group.attached:
            self._now_attached(topic, group)
        elif group.parent is None:
            self._join(topic, group)

    def _hop(self, topic: str) -> int | None:
        """The node to join on the way to the root; None if this node is the root."""
        return self._ring.next_hop(self.node, self._group(topic).key, self._down)

    def _join(self, topic: str, group: _Group) -> None:
        hop = self._hop(topic)
        group.parent = hop
        group.attached = False
        group.change += 1
        self._keep(topic, group)
        if hop is None:
            self._now_attached(topic, group)
        else:
            self._without(group, hop)  # a node nearer to the root cannot be a child of this one
            self.out.send(hop, Join(topic, group.change))

    def _now_attached(self, topic: str, group: _Group) -> None:
        group.attached = True
        for child in group.waiting:
            self.out.send(child, Joined(topic, group.said[child]))
        group.waiting.clear()
        self._tell(topic, group)

    def _tell(self, topic: str, group: _Group) -> None:
        if group.takes and group.attached and not group.told:
            group.told = True
            self.out.joined(topic)

    def _detach_if_idle(self, topic: str, group: _Group) -> None:
        if group.needed:
            return
        if group.parent is not None:
            group.change += 1
            self._keep(topic, group)
            self.out.send(group.parent, Leave(topic, group.change))
        group.parent = None
        group.attached = False

    # -- suspicions ---------------------------------------------------------------------------------------------

    def peer_down(self, node: int) -> None:
        self._down |= {node}
        for topic, group in self._groups.items():
            if node in group.children:
                self._without(group, node)
                group.suspected[node] = None
            if group.parent == node and group.needed:
                self._join(topic, group)

    def peer_up(self, node: int) -> None:
        self._down -= {node}
        for topic, group in self._groups.items():
            if node in group.suspected:  # it may not have noticed; if it has another parent by now, it will leave
                del group.suspected[node]
                group.children[node] = None
            # A root that is no longer the nearest node joins the nearest one; other nodes rejoin when they must.
            is_root = group.parent is None and group.attached
            if is_root and group.needed and self._hop(topic) is not None:
                self._join(topic, group)

    # -- crashes ------------------------------------------------------------------------------------------------

    def restore(self, records: Iterable[object]) -> None:
        self._groups.clear()
        for record in records:
            if not isinstance(record, Wish):
                raise ProtocolError(f"node {self.node} kept a {type(record).__name__}, none of Scribe's")
            group = self._group(record.topic)
            group.takes, group.seq, group.change = record.takes, record.seq, record.change

    def start(self) -> None:
        for topic, group in self._groups.items():
            if group.takes and not group.attached:
                self._join(topic, group)

    def _keep(self, topic: str, group: _Group) -> None:
        self.out.keep(Wish(topic, group.takes, group.seq, group.change))

    def _is_news(self, group: _Group, child: int, change: int) -> bool:
        if change < group.said.get(child, 0):
            return False
        group.said[child] = change
        return True

    def _without(self, group: _Group, child: int) -> None:
        for children in (group.children, group.waiting, group.suspected):
            children.pop(child, None)

    def _group(self, topic: str) -> _Group:
        group = self._groups.get(topic)
        if group is None:
            group = self._groups[topic] = _Group(self._ring.key_of(topic))
        return group
