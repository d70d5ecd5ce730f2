"""Messages to fixed groups spread along an acyclic base graph: the base of all processes of this package.

`Flooding` delivers in causal order, for CBCAST and Causal Barriers. A node forwards a message as soon as it has it.
Only members hold it, in the gate, until all it depends on is delivered. Streams of the gate are (topic, source). A
subclass says what a message carries and what it needs.

Links may reorder and repeat packets but lose none, and nodes do not crash: the paper measures these protocols in runs
without faults.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from antecede.core import Gate, Message, MessagePacket, Packet, ProtocolError
from antecede.core.gate import FULL, READY, WAITING, Need
from antecede.protocols.fixed_members import FixedMembers
from antecede.protocols.flooding.routes import Routes

#: Bytes that every packet has, as in LoCaMu: a header, and the number of the group.
HEADER, GROUP = 20, 2


class Carry(MessagePacket, frozen=True, gc=False, tag="rival.carry"):
    """A message on its way along the base graph."""


class FixedGroups(FixedMembers):
    """A node of a base graph with groups that do not change."""

    def __init__(self, node: int, routes: Routes) -> None:
        super().__init__(node, routes.taken(node))
        self._routes = routes

    def size(self, packet: Packet) -> int:
        return HEADER + GROUP + sum([len(message.payload) for message in packet.messages]) + self.metadata(packet)

    @abstractmethod
    def metadata(self, packet: Packet) -> int:
        """Bytes of `packet` beside the payload and what every packet has."""

    @property
    @abstractmethod
    def state_bytes(self) -> int:
        """Bytes of the protocol's state, in the paper's byte model: identifiers and sequence numbers have 4 bytes."""

    def _check_group(self, sender: int, message: Message) -> None:
        if message.topic not in self._routes.groups:
            raise ProtocolError(f"node {self.node} got {message.id} from {sender}: there is no such group")


class Flooding(FixedGroups):
    """A node of an acyclic graph over which groups multicast in causal order."""

    packet: ClassVar[type[Carry]] = Carry

    def __init__(self, node: int, routes: Routes) -> None:
        super().__init__(node, routes)
        self._gate: Gate[Carry] = Gate()
        self._seq: dict[str, int] = {}

    def publish(self, topic: str, payload: bytes) -> Message:
        self._routes.check_member(topic, self.node)
        seq = self._seq[topic] = self._seq.get(topic, 0) + 1
        packet = self._stamp(topic, seq, payload)
        self._gate.mark_settled((topic, self.node), seq)
        self.out.deliver(packet.message)
        for hop in self._routes.hops(topic, self.node, None):
            self.out.send(hop, packet)
        return packet.message

    def receive(self, sender: int, packet: Packet) -> None:
        if not isinstance(packet, self.packet):
            self._refuse(sender, packet)
        message = packet.message
        topic = message.topic
        self._check_group(sender, message)
        if topic in self._taken:
            place = ((topic, message.source), message.seq)
            verdict = self._gate.offer(packet, (place,), self._needs(packet))
            if verdict is FULL:
                raise ProtocolError(f"node {self.node} holds {self.held} messages and cannot take {message.id}")
            if verdict is not READY and verdict is not WAITING:
                return  # a second copy: the first was forwarded
        for hop in self._routes.hops(topic, self.node, sender):
            self.out.send(hop, packet)
        for ready in self._gate.drain():
            self._observe(ready)
            self.out.deliver(ready.message)

    @property
    def held(self) -> int:
        return self._gate.held

    @abstractmethod
    def _stamp(self, topic: str, seq: int, payload: bytes) -> Carry:
        """Return this node's next message with its dependencies. Later messages depend on it."""

    @abstractmethod
    def _needs(self, packet: Carry) -> Sequence[Need]:
        """The messages that this node must deliver before it."""

    @abstractmethod
    def _observe(self, packet: Carry) -> None:
        """Count the message as delivered here."""
