"""Bytes on the wire: the model of thesis 4.5.3 (a header of 20 bytes, 2 for a node, 4 for a clock entry), extended.

A topic is a number of 2 bytes, a register or counter alone takes 2, an entry (node, counter) 4 and one of another topic
6, a digest of a view 8. The kind of a packet and its flags are in the header.
"""

from antecede.core import Message, Packet
from antecede.protocols.sizes import FieldSizes
from antecede.protocols.vcube_ps.packets import Ack, ActAck, Carried, Fetch, Fetched, Have, Levels, Pull, SubAck, Views


class Sizes(FieldSizes):
    """The byte model. `mtu` is what a bundle may grow to."""

    def __init__(self) -> None:
        super().__init__()
        self.counter = 2
        self.digest = 8
        self.mtu = 1500

    def message(self, message: Message) -> int:
        """Payload, topic, source, the message's own entry, one for each dependency, and those of other topics."""
        size = len(message.payload) + self.topic + self.node + self.entry * (len(message.deps) + 1)
        return size + (self.topic + self.entry) * len(message.across)

    def packet(self, packet: Packet) -> int:
        messages = packet.messages
        if messages:
            return self.header + sum([self.message(message) for message in messages])
        return self.header + self.topic + self.entry + self._more(packet)

    def _more(self, packet: Packet) -> int:
        """Bytes of a control packet beside its topic and the node or message it is about."""
        match packet:
            case Ack():
                size = self.node if packet.left else 0
            case SubAck():
                entries = len(packet.view) + len(packet.counts) + len(packet.seams)
                size = self.entry * entries + self.node * len(packet.skipped)
            case ActAck():
                size = self.entry * len(packet.counts)
            case Have():
                size = self.counter + self.digest + self.counter * len(packet.beyond)
            case Pull():
                size = self.counter * len(packet.numbers)
            case Fetch():
                size = self.counter
            case Fetched():
                size = 3 * self.counter
            case Carried():
                size = self.entry * len(packet.entries)
            case Levels():
                size = self.entry * len(packet.stable)
            case Views():
                size = self.digest + self.entry * len(packet.entries)
            case _:
                size = 0
        return size
