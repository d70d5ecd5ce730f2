"""A minimal event service for searches: every event goes straight to every node that takes its topic.

It orders nothing, not even the events of one publisher, and all nodes know at once which nodes take what. What an
ordering layer gets from it is as disordered as links can make it.
"""

from collections.abc import Mapping
from typing import ClassVar

from antecede.core import Message, Packet, Process, ProtocolError
from antecede.protocols.aggregation.packets import Bundle
from antecede.protocols.options import Founders, MakeProcess
from antecede.protocols.sizes import ByteModel


def straight_service(founders: Founders) -> MakeProcess:
    """Returns the function that makes the processes of one system."""
    members = {topic: set(nodes) for topic, nodes in founders.items()}
    return lambda node: _Straight(node, members)


class _Straight(Process):
    """One node of the service. Links must not lose packets."""

    reports_membership: ClassVar[bool] = False

    def __init__(self, node: int, members: Mapping[str, set[int]]) -> None:
        super().__init__(node)
        self._members = members
        self._seq: dict[str, int] = {}
        self._sizes = ByteModel()

    def publish(self, topic: str, payload: bytes) -> Message:
        self._seq[topic] = seq = self._seq.get(topic, 0) + 1
        message = Message(topic, self.node, seq, (), payload)
        packet = Bundle((message,))
        for node in sorted(self._members[topic]):
            if node == self.node:
                self.out.deliver(message)
            else:
                self.out.send(node, packet)
        return message

    def subscribe(self, topic: str) -> None:
        self._members[topic].add(self.node)

    def unsubscribe(self, topic: str) -> None:
        self._members[topic].discard(self.node)

    def takes(self, topic: str) -> bool:
        return self.node in self._members[topic]

    def receive(self, sender: int, packet: Packet) -> None:
        if not isinstance(packet, Bundle):
            raise ProtocolError(f"node {self.node} got a {type(packet).__name__} from {sender}, expected a Bundle")
        for message in packet.messages:
            if self.node in self._members[message.topic]:
                self.out.deliver(message)

    def size(self, packet: Packet) -> int:
        return self._sizes.packet(packet.messages)
