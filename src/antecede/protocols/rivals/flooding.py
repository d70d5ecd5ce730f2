"""What CBCAST and Causal Barriers share: messages spread along the base graph, members deliver them in causal order.

A node passes a message on as soon as it has it; only members hold it, in the gate, until all it depends on is
delivered. Streams of the gate are (topic, source). What a message must carry, and what to make of it, is for the
subclass to say.

Links may reorder and repeat packets, not lose them; nodes do not crash: the paper measures these protocols in runs
without faults, and so do we.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from antecede.core import Gate, Message, Packet, Process, ProtocolError, UsageError
from antecede.core.gate import FULL, READY, WAITING, Need
from antecede.protocols.rivals.routes import Routes

#: Bytes every packet has, as LoCaMu's here have: a header, and the number of the group it is for.
HEADER, GROUP = 20, 2


class Carry(Packet, frozen=True, gc=False, tag="rival.carry"):
    """A message on its way along the base graph."""

    message: Message

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.message,)


class Flooding(Process):
    """A node of an acyclic graph over which groups multicast in causal order."""

    packet: ClassVar[type[Carry]] = Carry

    def __init__(self, node: int, routes: Routes) -> None:
        super().__init__(node)
        self._routes = routes
        self._taken = routes.taken(node)
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
            raise ProtocolError(
                f"node {self.node} got a {type(packet).__name__} from {sender}, not one of its protocol"
            )
        message = packet.message
        topic = message.topic
        if topic not in self._routes.groups:
            raise ProtocolError(f"node {self.node} got {message.id} from {sender}: there is no such group")
        if topic in self._taken:
            place = ((topic, message.source), message.seq)
            verdict = self._gate.offer(packet, (place,), self._needs(packet))
            if verdict is FULL:
                raise ProtocolError(f"node {self.node} holds {self.held} messages and cannot take {message.id}")
            if verdict is not READY and verdict is not WAITING:
                return  # a second copy: the first was passed on
        for hop in self._routes.hops(topic, self.node, sender):
            self.out.send(hop, packet)
        for ready in self._gate.drain():
            self._observe(ready)
            self.out.deliver(ready.message)

    def subscribe(self, topic: str) -> None:
        raise UsageError("topic", topic, "groups of this protocol do not change", "name its members at the beginning")

    def unsubscribe(self, topic: str) -> None:
        raise UsageError("topic", topic, "groups of this protocol do not change", "name its members at the beginning")

    def takes(self, topic: str) -> bool:
        return topic in self._taken

    @property
    def held(self) -> int:
        return self._gate.held

    @property
    @abstractmethod
    def state_bytes(self) -> int:
        """What the protocol remembers, by the paper's byte model: identifiers and sequence numbers of 4 bytes."""

    @abstractmethod
    def _stamp(self, topic: str, seq: int, payload: bytes) -> Carry:
        """The next message of this node, with what it depends on; from here on it is the past."""

    @abstractmethod
    def _needs(self, packet: Carry) -> Sequence[Need]:
        """What this node must have delivered before."""

    @abstractmethod
    def _observe(self, packet: Carry) -> None:
        """It was delivered here."""
