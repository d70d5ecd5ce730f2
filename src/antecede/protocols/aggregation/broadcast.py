"""Causal broadcast over trees, one message to a packet: the baseline for the protocols that bundle.

Every message travels down a tree, either its source's own or one for all sources (`overlay.trees`). Every node forwards
it at once, and delivers it in causal order through the gate. This is thesis Algorithm 2 without aggregation. The
protocols that bundle are subclasses, and change only how a message is forwarded.

Links may reorder packets but lose none (thesis 4.2). A packet that arrives twice is forwarded twice and delivered once.
"""

from antecede.core import Frontier, Message, Packet, Process, ProtocolError, VectorClock, Verdict
from antecede.core.gate import FULL, READY
from antecede.core.source_gate import SourceGate
from antecede.overlay.trees import Trees
from antecede.protocols.aggregation.packets import Bundle
from antecede.protocols.sizes import ByteModel


class CausalBroadcast(Process):
    """Every node delivers every message, after all messages that its publisher had delivered before."""

    def __init__(self, node: int, trees: Trees, sizes: ByteModel, *, barrier: bool = False) -> None:
        super().__init__(node)
        self.shares_outbox = True
        self._trees = trees
        self._sizes = sizes
        self._clock: VectorClock | Frontier = Frontier() if barrier else VectorClock()
        self._seq = 0
        self._gate = SourceGate()

    def publish(self, topic: str, payload: bytes) -> Message:
        self._seq += 1
        message = Message(topic, self.node, self._seq, self._clock.stamp(), payload)
        self._gate.mark_settled(self.node, self._seq)
        self.out.deliver(message)
        self._send_own(message)
        return message

    def receive(self, sender: int, packet: Packet) -> None:
        if not isinstance(packet, Bundle):
            raise ProtocolError(f"node {self.node} got a {type(packet).__name__} from {sender}, expected a Bundle")
        gate, messages = self._gate, packet.messages
        if len(messages) == 1:
            message = messages[0]
            if gate.admit(message):  # next in its stream, and no message waits for it
                self._pass_on(sender, message, packet, READY)
                self._clock.observe(message)
                self.out.deliveries.append(message)
                return
        for message in messages:
            verdict = gate.offer(message)
            if verdict is FULL:
                raise ProtocolError(f"node {self.node} holds {self.held} messages and cannot take {message.id}")
            self._pass_on(sender, message, packet, verdict)
        # Every message of the packet is offered and forwarded before any of them is delivered.
        for message in gate.drain():
            self._clock.observe(message)
            self.out.deliveries.append(message)

    def size(self, packet: Packet) -> int:
        return self._sizes.packet(packet.messages)

    @property
    def held(self) -> int:
        return self._gate.held

    def _send_own(self, message: Message) -> None:
        packet = Bundle((message,))
        for hop in self._trees.next_hops(self.node, self.node, None):
            self.out.send(hop, packet)

    def _pass_on(self, sender: int, message: Message, packet: Bundle, verdict: Verdict) -> None:
        """Forward `message`, which came in `packet`, down its tree; `verdict` is the gate's answer to it."""
        alone = packet if len(packet.messages) == 1 else Bundle((message,))
        for hop in self._trees.next_hops(self.node, message.source, sender):
            self.out.send(hop, alone)
