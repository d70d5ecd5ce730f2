"""JEDI (Cugola, Di Nitto & Fuggetta 2001; thesis 3.5.3): servers in a tree, and acknowledgements by every subscriber.

Clients publish and subscribe through *dispatching servers*, which form a tree. A server forwards a message to the
neighbours behind which the topic has subscribers. Every subscriber acknowledges each message to its publisher, through
the servers. The publisher's server tells it how many acknowledgements to wait for (`Expect`). The publisher sends its
next message when all of them have come.

Acknowledgements keep the order of one publisher, and no more: a subscriber may read a message and answer while the
message is still on its way to others. Causal order comes from the links. The thesis's table 3.4 gives JEDI FIFO links,
and on a tree with FIFO links an answer cannot overtake its question. With `fifo` False the links reorder as the network
does, and the audit counts violations.

Assumed, from the thesis's summary: every subscriber's acknowledgement travels alone, along the tree; servers know the
subscribers of each topic from the beginning, and groups do not change. A server is a node with a client of its own.
Links lose nothing, and with `fifo` False repeat nothing; nodes do not crash. JEDI's content filters and its clients
that move are not built.

Bytes: 8 for a message's name, also in an acknowledgement, 4 for a number of the link, 4 for a count.
"""

from antecede.core import Message, Packet
from antecede.core.message import Seq, Source, Topic
from antecede.protocols.fifo_links import NUMBER, FifoLinks, Linked
from antecede.protocols.flooding.delta_neighbourhood import NAME
from antecede.protocols.flooding.one_at_a_time import OneAtATime
from antecede.protocols.flooding.routes import Routes

#: Bytes of the number of acknowledgements to wait for.
COUNT = 4


class Dispatch(Linked, frozen=True, gc=False, tag="jedi.dispatch"):
    """A message on its way along the tree."""

    message: Message

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.message,)


class Acknowledge(Linked, frozen=True, gc=False, tag="jedi.acknowledge"):
    """A subscriber has the message. On its way to the publisher."""

    topic: Topic
    source: Source
    seq: Seq


class Expect(Linked, frozen=True, gc=False, tag="jedi.expect"):
    """So many subscribers will acknowledge the message of the receiver."""

    topic: Topic
    seq: Seq
    count: Seq


class Jedi(OneAtATime):
    """A client, or a dispatching server with a client of its own."""

    def __init__(self, node: int, routes: Routes, servers: int, *, fifo: bool) -> None:
        """The nodes below `servers` are dispatching servers; the others are clients, leaves of the tree."""
        super().__init__(node, routes)
        self._servers = servers
        self._in_order = fifo
        self._links: FifoLinks[Linked] = FifoLinks()
        #: By publisher: the neighbour that leads to it.
        self._towards: dict[int, int] = {}
        #: Of the message in flight: its name, the acknowledgements to wait for, if known, and those that have come.
        self._own: tuple[str, int] = ("", 0)
        self._expected: int | None = None
        self._acknowledged = 0

    def receive(self, sender: int, packet: Packet) -> None:
        if not isinstance(packet, Linked):
            self._refuse(sender, packet)
        for ready in self._links.take(sender, packet) if self._in_order else [packet]:
            match ready:
                case Dispatch():
                    self._check_group(sender, ready.message)
                    self._dispatch(sender, ready.message)
                case Acknowledge() if ready.source == self.node:
                    self._acknowledged += self._own == (ready.topic, ready.seq)
                    self._look()
                case Acknowledge():
                    self._acknowledge(ready.topic, ready.source, ready.seq)
                case Expect():
                    if self._own == (ready.topic, ready.seq):
                        self._expected = ready.count
                    self._look()
                case _:
                    self._refuse(sender, ready)

    def metadata(self, packet: Packet) -> int:
        return NUMBER + NAME + (COUNT if isinstance(packet, Expect) else 0)

    @property
    def held(self) -> int:
        """Publications that wait for their turn, and packets that wait for an earlier one of their link."""
        return super().held + self._links.held

    @property
    def state_bytes(self) -> int:
        """The name of the message in flight and its two counts."""
        return (NAME + 2 * COUNT) * self._in_flight

    # -- publisher -----------------------------------------------------------------------------------------------------

    def _send(self, message: Message) -> None:
        self._own = (message.topic, message.seq)
        self._acknowledged = 0
        count = self._subscribers(message)
        self._expected = count if self.node < self._servers or not count else None
        for hop in self._routes.hops(message.topic, self.node, None):
            self.out.send(hop, Dispatch(self._links.next(hop), message))
        self._look()

    def _look(self) -> None:
        """Publish the next message if the one in flight has all its acknowledgements."""
        if self._in_flight and self._expected == self._acknowledged:
            self._in_flight = False
            self._send_waiting()

    # -- server --------------------------------------------------------------------------------------------------------

    def _dispatch(self, sender: int, message: Message) -> None:
        """Forward a message, deliver it if this node takes it, and acknowledge that."""
        if sender == message.source and sender >= self._servers:
            count = self._subscribers(message)
            self.out.send(sender, Expect(self._links.next(sender), message.topic, message.seq, count))
        for hop in self._routes.hops(message.topic, self.node, sender):
            self.out.send(hop, Dispatch(self._links.next(hop), message))
        if message.topic in self._taken:
            self.out.deliver(message)
            self._acknowledge(message.topic, message.source, message.seq)

    def _acknowledge(self, topic: str, source: int, seq: int) -> None:
        to = self._towards.get(source)
        if to is None:
            to = self._towards[source] = self._routes.graph.next_hop(self.node, source)
        self.out.send(to, Acknowledge(self._links.next(to), topic, source, seq))

    def _subscribers(self, message: Message) -> int:
        return len(self._routes.groups[message.topic]) - 1
