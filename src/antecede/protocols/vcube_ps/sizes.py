"""Bytes on the wire: the model of thesis 4.5.3 (a header of 20 bytes, 2 for a node, 4 for a clock entry), extended.

A topic is a number of 2 bytes, a register or counter alone takes 2, an entry (node, counter) 4 and one of another topic
6. What travels in whole numbers of entries is counted by them; the kind of a packet is in its header.
"""

import msgspec

from antecede.core import Message, Packet
from antecede.protocols.vcube_ps.packets import Ack, ActAck, SubAck


class Sizes(msgspec.Struct, frozen=True):
    """The byte model. `mtu` is what a bundle may grow to."""

    header: int = 20
    node: int = 2
    topic: int = 2
    entry: int = 4
    mtu: int = 1500

    def message(self, message: Message) -> int:
        """Payload, topic, source, the message's own entry, one for each dependency, and those of other topics."""
        size = len(message.payload) + self.topic + self.node + self.entry * (len(message.deps) + 1)
        return size + (self.topic + self.entry) * len(message.across)

    def packet(self, packet: Packet) -> int:
        messages = packet.messages
        if messages:
            return self.header + sum([self.message(message) for message in messages])
        named = self.header + self.topic + self.entry
        match packet:
            case Ack():
                return named + (self.node if packet.left else 0)
            case SubAck():
                return named + self.entry * len(packet.view)
            case ActAck():
                return named + self.entry * len(packet.counts)
            case _:
                return named
