"""A fixed sequencer, as JGroups' SEQUENCER: to compare with total notification order (MIDLAB 9/2011, 6.3).

All topics are one group. A publisher sends its message to one node, the sequencer, which numbers it and sends it to
every member of the group, one by one as JGroups does over TCP. Every node delivers the messages it takes in the order
of their numbers. There is one order for all nodes, no tagged message, and one more hop; but the sequencer's link
carries every message, and members receive messages that they do not want.

Links may lose, repeat and reorder packets. Publishers retransmit until their message comes back numbered; receivers
report how far they are; the sequencer retransmits what is missing, and keeps a message until all members have it. Nodes
must not fail: JGroups would agree on a new view, which is not modelled here.
"""

from collections.abc import Hashable
from typing import ClassVar, NamedTuple

from antecede.core import Gate, Message, Packet, Process, ProtocolError, Verdict
from antecede.protocols.sequencer.packets import Have, Ordered, Post
from antecede.protocols.sizes import ByteModel


class _Tick(NamedTuple):
    """Timer: retransmit what was not acknowledged."""


class _HaveDue(NamedTuple):
    """Timer: report how far this node is."""


class Sequencer(Process):
    """A node of the group. One node, the same for all, is the sequencer."""

    reports_membership: ClassVar[bool] = False

    def __init__(self, node: int, nodes: int, sequencer: int, taken: frozenset[str], *, retry_us: int) -> None:
        super().__init__(node)
        self._sequencer = sequencer
        self._retry_us = retry_us
        self._taken = set(taken)
        self._sizes = ByteModel()
        self._seq: dict[str, int] = {}
        self._posts = 0
        #: Sent to the sequencer and not received numbered yet, with the tick in which it was sent.
        self._posted: dict[tuple[str, int], tuple[Post, int]] = {}
        self._gate: Gate[Message] = Gate()
        self._ticks = 0
        self._ticking = self._due = False
        # At the sequencer: each publisher's messages in order, the numbered messages, and how far each member is.
        self._inbox: Gate[Message] = Gate()
        self._log: dict[int, Ordered] = {}
        self._count = 0
        self._reached = dict.fromkeys(range(nodes), 0) if node == sequencer else {}

    # -- the application ----------------------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes) -> Message:
        """Publish. This node delivers the message, too, when it comes back numbered."""
        self._seq[topic] = seq = self._seq.get(topic, 0) + 1
        message = Message(topic, self.node, seq, (), payload)
        self._posts += 1
        post = Post(message, self._posts)
        if self.node == self._sequencer:
            self._number(post)
        else:
            self._posted[topic, seq] = (post, self._ticks)
            self.out.send(self._sequencer, post)
            self._tick_later()
        return message

    def subscribe(self, topic: str) -> None:
        self._taken.add(topic)

    def unsubscribe(self, topic: str) -> None:
        self._taken.discard(topic)

    def takes(self, topic: str) -> bool:
        return topic in self._taken

    # -- packets and timers -------------------------------------------------------------------------------------

    def receive(self, sender: int, packet: Packet) -> None:
        match packet:
            case Post() if self.node == self._sequencer:
                self._number(packet)
            case Ordered():
                self._take(packet)
                if not self._due:
                    self._due = True
                    self.out.wake_after(self._retry_us // 4, _HaveDue())
            case Have() if self.node == self._sequencer:
                self._reached[sender] = max(self._reached[sender], packet.number)
                stable = min(self._reached.values())
                while self._log and next(iter(self._log)) <= stable:
                    del self._log[next(iter(self._log))]
            case _:
                raise ProtocolError(f"node {self.node} got a {type(packet).__name__} from {sender}, not for it")

    def wake(self, timer: Hashable) -> None:
        if isinstance(timer, _HaveDue):
            self._due = False
            self.out.send(self._sequencer, Have(self._gate.reached(_GROUP)))
            return
        self._ticking = False
        self._ticks += 1
        for post, tick in self._posted.values():
            if tick < self._ticks - 1:  # a full tick has passed
                self.out.send(self._sequencer, post)
        for number, ordered in self._log.items():
            for node, reached in self._reached.items():
                if reached < number:
                    self.out.send(node, ordered)
        self._tick_later()

    def size(self, packet: Packet) -> int:
        if not packet.messages:
            return self._sizes.header + _NUMBER_BYTES
        return self._sizes.packet(packet.messages) + (_NUMBER_BYTES if isinstance(packet, Ordered) else 0)

    @property
    def held(self) -> int:
        return self._gate.held + self._inbox.held

    # -- inside -------------------------------------------------------------------------------------------------

    def _number(self, post: Post) -> None:
        """At the sequencer: number messages in the order of each publisher."""
        message = post.message
        if self._inbox.offer(message, ((message.source, post.number),)) is Verdict.FULL:
            raise ProtocolError(f"the sequencer holds {self._inbox.held} messages and cannot take {message.id}")
        for ready in self._inbox.drain():
            self._count += 1
            ordered = self._log[self._count] = Ordered(ready, self._count)
            for node in self._reached:
                if node != self.node:
                    self.out.send(node, ordered)
            self._take(ordered)
            self._reached[self.node] = self._count
        self._tick_later()

    def _take(self, ordered: Ordered) -> None:
        message = ordered.message
        if message.source == self.node:
            self._posted.pop((message.topic, message.seq), None)
        if self._gate.offer(message, ((_GROUP, ordered.number),)) is Verdict.FULL:
            raise ProtocolError(f"node {self.node} holds {self._gate.held} messages and cannot take {message.id}")
        for ready in self._gate.drain():
            if ready.topic in self._taken:
                self.out.deliver(ready)

    def _tick_later(self) -> None:
        if not self._ticking and (self._posted or any(n < self._count for n in self._reached.values())):
            self._ticking = True
            self.out.wake_after(self._retry_us, _Tick())


_GROUP = "group"
_NUMBER_BYTES = 8
