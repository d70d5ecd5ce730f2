"""A node of the propagation trees: it delivers messages in the order in which they come down, and passes them on.

A publisher sends its message to the primary destination of its group. From there the message comes down the tree, to
the members and through nodes between them that do not take it. Links are FIFO, so all nodes below the lower one of two
primary destinations get the messages of both groups in the order in which that node sent them. No node ever waits for
a number, and a message carries none but that of its link.

The order is total, and causal within a group. Across groups it is not causal: a publisher does not wait until its
message comes down. Its next one, on another group with a lower primary destination, may be there first.

Assumed, as in the paper: FIFO links. Its variants for links that lose messages and for nodes that crash are not built.
Groups do not change; the paper makes the trees anew then.

Bytes: 8 for a message's name, 4 for a number of the link.
"""

from antecede.core import Message, Packet
from antecede.protocols.fifo_links import NUMBER, FifoLinks, Linked
from antecede.protocols.fixed_members import FixedMembers
from antecede.protocols.propagation_tree.forest import PropagationForest

#: Bytes as for the other rivals: a packet's header, a group, the name of a message.
HEADER, GROUP, NAME = 20, 2, 8


class Down(Linked, frozen=True, gc=False, tag="propagation.down"):
    """A message on its way to the primary destination, or down the tree."""

    message: Message

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.message,)


class PropagationTree(FixedMembers):
    """A node of one of the trees."""

    def __init__(self, node: int, forest: PropagationForest) -> None:
        super().__init__(node, [topic for topic, members in forest.groups.items() if node in members])
        self._forest = forest
        self._links: FifoLinks[Down] = FifoLinks()
        self._seq: dict[str, int] = {}

    def publish(self, topic: str, payload: bytes) -> Message:
        """Publish. This node delivers the message, too, when it comes down the tree."""
        self._check_member(topic)
        seq = self._seq[topic] = self._seq.get(topic, 0) + 1
        message = Message(topic, self.node, seq, (), payload)
        primary = self._forest.primary[topic]
        if primary == self.node:
            self._pass_down(message)
        else:
            self.out.send(primary, Down(self._links.next(primary), message))
        return message

    def receive(self, sender: int, packet: Packet) -> None:
        if not isinstance(packet, Down) or packet.message.topic not in self._forest.primary:
            self._refuse(sender, packet)
        for ready in self._links.take(sender, packet):
            self._pass_down(ready.message)

    def size(self, packet: Packet) -> int:
        return HEADER + GROUP + NAME + NUMBER + sum([len(message.payload) for message in packet.messages])

    @property
    def held(self) -> int:
        return self._links.held

    def children(self, topic: str) -> tuple[int, ...]:
        return self._forest.below(topic, self.node) if topic in self._forest.primary else ()

    def _pass_down(self, message: Message) -> None:
        if message.topic in self._taken:
            self.out.deliver(message)
        for below in self._forest.below(message.topic, self.node):
            self.out.send(below, Down(self._links.next(below), message))
