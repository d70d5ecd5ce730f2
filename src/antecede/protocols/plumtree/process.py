"""A node that runs Plumtree over HyParView, with views and a tree for each topic that it takes.

Promised: each message is delivered at most once, and in causal order if the node was built so. Not promised: that every
member gets every message. Plumtree never acknowledges, so a message can be lost with all its announcements, or pass a
node by that has no link for a moment; the experiments count how many arrive.

A node that has crashed comes back with the messages it published and delivered, joins again, and asks neighbours for
those that later messages name. Bytes: as for the other rivals, see `size`.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeAlias

from antecede.core import Message, Outbox, Packet, Process, ProtocolError, TopicMessageId, UsageError
from antecede.core.rng import Rng
from antecede.protocols.plumtree.packets import IHave, Refuse, Shuffle, ShuffleReply, TopicPacket, Welcome
from antecede.protocols.plumtree.records import Delivered, GaveUp, Member, Published
from antecede.protocols.plumtree.tree import Plumtree

#: Bytes as for the other rivals: a packet's header, a group, the name of a message (source, number), a node.
HEADER, GROUP, NAME, NODE = 20, 2, 8, 4

#: Makes the tree of a topic for a node; None: the topic has no founders, so no node can be asked to join at.
MakeTree: TypeAlias = Callable[[str, int, Outbox, Rng], Plumtree | None]


class PlumtreeNode(Process):
    """A node with a tree for each topic."""

    reports_membership = True

    def __init__(self, node: int, make: MakeTree, founded: Iterable[str], rng: Rng) -> None:
        """`founded`: the topics that the node takes from the beginning."""
        super().__init__(node)
        self._make = make
        self._rng = rng
        self._trees: dict[str, Plumtree] = {}
        self._suspected: set[int] = set()
        self._founded = tuple(founded)
        self._restored = False

    # -- start and restart ---------------------------------------------------------------------------------------------

    def restore(self, records: Iterable[object]) -> None:
        self._restored = True
        for record in records:
            match record:
                case Member(topic, taken, levels):
                    tree = self._tree(topic)
                    tree.member = tree.returning = taken
                    tree.order.begin(levels)
                case GaveUp(topic, clock):
                    self._tree(topic).order.clock_floor = clock
                case Published(message) | Delivered(message):
                    self._tree(message.topic).restore(message)

    def start(self) -> None:
        if self._restored:
            for tree in self._trees.values():
                tree.active.clear()
                if tree.member:
                    tree.join()
            return
        for topic in self._founded:
            self._tree(topic)
            self.out.keep(Member(topic, True))

    # -- the application -----------------------------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes) -> Message | None:
        tree = self._trees.get(topic)
        if tree is None or not (tree.member or tree.joining):
            raise UsageError("topic", topic, f"node {self.node} is not a member of it", "publish from a member")
        return tree.publish(payload)

    def subscribe(self, topic: str) -> None:
        tree = self._tree(topic)
        if not tree.member and not tree.joining:
            tree.join()

    def unsubscribe(self, topic: str) -> None:
        if topic in self._trees:
            self._trees[topic].unsubscribe()

    def takes(self, topic: str) -> bool:
        tree = self._trees.get(topic)
        return tree is not None and tree.member

    def wants(self, topic: str) -> bool:
        return self.takes(topic) or (topic in self._trees and self._trees[topic].joining)

    def stamps_now(self, topic: str) -> bool:
        return topic in self._trees and not self._trees[topic].seeking

    # -- packets, timers, suspicions -----------------------------------------------------------------------------------

    def receive(self, sender: int, packet: Packet) -> None:
        if not isinstance(packet, TopicPacket):
            raise ProtocolError(f"node {self.node} got a {packet.kind} from {sender}, not one of its protocol")
        self._tree(packet.topic).receive(sender, packet)

    def wake(self, timer: Hashable) -> None:
        assert isinstance(timer, tuple)
        self._tree(timer[1]).wake(timer)

    def peer_down(self, node: int) -> None:
        self._suspected.add(node)
        for tree in self._trees.values():
            tree.suspect(node)

    def peer_up(self, node: int) -> None:
        self._suspected.discard(node)
        for tree in self._trees.values():
            tree.trust(node)

    def size(self, packet: Packet) -> int:
        bytes_ = HEADER + GROUP
        for message in packet.messages:
            bytes_ += NAME * (1 + len(message.deps)) + len(message.payload)
        match packet:
            case IHave():
                bytes_ += NAME * len(packet.names) + len(packet.interior)
            case Welcome():
                bytes_ += NAME * len(packet.levels)
            case Shuffle() | ShuffleReply():
                bytes_ += NODE * (1 + len(packet.nodes))
            case Refuse():
                bytes_ += NODE * len(packet.others)
            case _:
                bytes_ += 0 if packet.messages else NAME
        return bytes_

    # -- questions -----------------------------------------------------------------------------------------------------

    @property
    def down(self) -> frozenset[int]:
        return frozenset(self._suspected)

    def members(self, topic: str) -> frozenset[int]:
        if not self.takes(topic):
            return frozenset()
        return frozenset((self.node, *self._trees[topic].active, *self._trees[topic].passive))

    def children(self, topic: str) -> tuple[int, ...]:
        tree = self._trees.get(topic)
        return (
            ()
            if tree is None
            else tuple([peer for peer in tree.active if not all(peer in lazy for lazy in tree.lazies)])
        )

    def delivered(self, topic: str) -> dict[int, int]:
        return dict(self._trees[topic].order.levels()) if topic in self._trees else {}

    def last_published(self, topic: str) -> int:
        return self._trees[topic].last if topic in self._trees else 0

    def holding(self) -> list[TopicMessageId]:
        return [message.id for tree in self._trees.values() for message in tree.order.holding()]

    @property
    def given_up(self) -> int:
        return sum([tree.order.given_up for tree in self._trees.values()])

    def unfinished(self) -> list[str]:
        found = []
        for topic, tree in self._trees.items():
            if tree.joining:
                found.append(f"waits for a contact on {topic}")
            if tree.missing:
                found.append(f"waits for {len(tree.missing)} messages on {topic}")
        return found

    def _tree(self, topic: str) -> Plumtree:
        tree = self._trees.get(topic)
        if tree is None:
            tree = self._make(topic, self.node, self.out, self._rng)
            if tree is None:
                raise UsageError("topic", topic, "has no members to join", "name some at the beginning")
            tree.suspected |= self._suspected
            self._trees[topic] = tree
        return tree
