"""A node that floods messages over FIFO links (Friedman & Manor 2004; Nédelec et al. 2018a; thesis 3.4).

A node delivers a message when it comes for the first time, and forwards it on all its links. A link keeps the order of
what it carries, so on every link a message comes behind those it depends on, and no message needs to name any. That
holds while links do not change. A new link may be shorter than the way around it: a message that the node sent before,
the long way, would be overtaken.

So a node does not use a new link at once. It asks a neighbour for one of *its* neighbours, over links that are in use
(`Ask`, `Ping`). That node answers directly (`Pong`). What the asking node delivered before the question reached the
other one the same way, ahead of it. What it delivered since then waits in a buffer, and goes over the new link first.
The link is *safe* from then on. A link may be dropped at any time, as long as the graph stays connected: the ring is
never dropped.

Links lose nothing, and nodes do not crash. Packets may overtake each other: each link numbers its packets, and the
receiver puts them in order. A node remembers which messages it has seen, one number for each source; `forgetting` does
without.
"""

from collections.abc import Hashable, Sequence
from typing import Annotated, ClassVar, Final, NamedTuple

from msgspec import Meta

from antecede.core import Message, Packet
from antecede.core.message import Seq, Source
from antecede.core.numbers import NumberSet
from antecede.core.rng import Rng
from antecede.protocols.fifo_links import NUMBER, FifoLinks, Linked
from antecede.protocols.fixed_members import FixedMembers

#: Bytes as for the other rivals: a packet's header, the name of a message (group, source, number).
HEADER, NAME = 20, 10

_CHANGE: Final = "change"

Node = Annotated[int, Meta(ge=0)]


class Flood(Linked, frozen=True, gc=False, tag="safe.flood"):
    """A message."""

    message: Message

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.message,)


class Ask(Linked, frozen=True, gc=False, tag="safe.ask"):
    """Asks the receiver for one of its neighbours. `question` tells the answers apart."""

    question: Seq


class Ping(Linked, frozen=True, gc=False, tag="safe.ping"):
    """Passes the question on to that neighbour."""

    asking: Source
    question: Seq


class Pong(Packet, frozen=True, gc=False, tag="safe.pong"):
    """The answer, sent directly to the node that asked."""

    question: Seq


class Changes(NamedTuple):
    """How a node's links change: it replaces one `times` times, about every `every_us`, and never the first `ring`."""

    ring: int
    times: int
    every_us: int


class SafeLinks(FixedMembers):
    """A node of an overlay whose links change."""

    #: Does a node forward a message over the link on which it came, too?
    forwards_back: ClassVar[bool] = False

    def __init__(
        self,
        node: int,
        topics: frozenset[str],
        rng: Rng,
        links: Sequence[int],
        changes: Changes,
    ) -> None:
        """`links`: the nodes to which it sends at first."""
        super().__init__(node, topics)
        self._rng = rng
        self._links = list(links)
        self._ring = changes.ring
        self._changes = changes.times
        self._every_us = changes.every_us
        self._seq: dict[str, int] = {}
        self._seen: dict[tuple[str, int], NumberSet] = {}
        self._fifo: FifoLinks[Linked] = FifoLinks()
        #: For each question without an answer yet: the messages delivered here since this node asked it.
        self._buffers: dict[int, list[Message]] = {}
        self._questions = 0

    # -- the application -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._arm()

    def publish(self, topic: str, payload: bytes) -> Message:
        self._check_member(topic)
        seq = self._seq[topic] = self._seq.get(topic, 0) + 1
        message = Message(topic, self.node, seq, (), payload)
        self._new(message, sender=None)
        return message

    # -- packets -------------------------------------------------------------------------------------------------------

    def receive(self, sender: int, packet: Packet) -> None:
        if isinstance(packet, Pong):
            self._answered(sender, packet.question)
            return
        if not isinstance(packet, Linked):
            self._refuse(sender, packet)
        for ready in self._fifo.take(sender, packet):
            self._take(sender, ready)

    def size(self, packet: Packet) -> int:
        payload = sum([NAME + len(message.payload) for message in packet.messages])
        return HEADER + NUMBER + payload + (0 if packet.messages else NUMBER)

    @property
    def held(self) -> int:
        return self._fifo.held

    def unfinished(self) -> list[str]:
        return [f"waits for the answer to question {question}" for question in self._buffers]

    def _take(self, sender: int, packet: Linked) -> None:
        match packet:
            case Flood():
                self._new(packet.message, sender=sender)
            case Ask():
                others = [link for link in self._links if link != sender]
                if others:
                    to = self._rng.choice(others)
                    self.out.send(to, Ping(self._fifo.next(to), sender, packet.question))
            case Ping():
                self.out.send(packet.asking, Pong(packet.question))
            case _:
                self._refuse(sender, packet)

    def _new(self, message: Message, *, sender: int | None) -> None:
        """Deliver and forward a message, unless it has come before."""
        if not self._is_new(message, sender):
            return
        if message.topic in self._taken:
            self.out.deliver(message)
        for link in self._links:
            if link != sender or self.forwards_back:
                self._forward(link, message)
        for buffer in self._buffers.values():
            buffer.append(message)

    def _is_new(self, message: Message, sender: int | None) -> bool:
        """Has it not come before? Remember it from now on."""
        return self._seen.setdefault((message.topic, message.source), NumberSet()).add(message.seq)

    def _forward(self, to: int, message: Message) -> None:
        self.out.send(to, Flood(self._fifo.next(to), message))

    # -- links that change ---------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        if self._changes:
            self._changes -= 1
            self.out.wake_after(self._every_us + self._rng.randrange(self._every_us), _CHANGE)

    def wake(self, timer: Hashable) -> None:
        self._ask()
        self._arm()

    def _ask(self) -> None:
        """Drop a link, and ask a neighbour for one in its place."""
        if len(self._links) > self._ring:
            del self._links[self._ring + self._rng.randrange(len(self._links) - self._ring)]
        self._questions += 1
        self._buffers[self._questions] = []
        to = self._rng.choice(self._links)
        self.out.send(to, Ask(self._fifo.next(to), self._questions))

    def _answered(self, sender: int, question: int) -> None:
        """The link to `sender` is safe once it carries what was delivered since the question."""
        buffer = self._buffers.pop(question, None)
        if buffer is None or sender == self.node or sender in self._links:
            return
        for message in buffer:
            self._forward(sender, message)
        self._links.append(sender)


class UnsafeLinks(SafeLinks):
    """The same node without a ping phase: it uses a new link at once, so messages may come out of order."""

    def _answered(self, sender: int, question: int) -> None:
        self._buffers[question] = []
        super()._answered(sender, question)
