"""The byte model of the thesis, for protocols whose papers give none."""

from collections.abc import Sequence

from antecede.core import Message
from antecede.core.limits import PACKET_BYTES_MAX
from antecede.core.native import mypyc_attr
from antecede.protocols.bundling import in_packets


@mypyc_attr(allow_interpreted_subclasses=True)
class FieldSizes:
    """Bytes of what packets are made of: the header of a packet, a node, a topic, and an entry (node, counter)."""

    def __init__(self) -> None:
        self.header = 20
        self.node = 2
        self.topic = 2
        self.entry = 4


class ByteModel:
    """Sizes as in thesis 4.5.3: a packet header, then payload, source and clock of each message."""

    def __init__(self, mtu: int = PACKET_BYTES_MAX) -> None:
        self.header = 20
        self.source = 2
        self.entry = 4
        self.mtu = mtu

    def message(self, message: Message) -> int:
        """Payload, source and clock: an entry for the message itself and one for each dependency."""
        return len(message.payload) + self.source + self.entry * (len(message.deps) + 1)

    def packet(self, messages: Sequence[Message]) -> int:
        size = self.header
        for message in messages:
            size += self.message(message)
        return size

    def split(self, messages: Sequence[Message]) -> list[tuple[Message, ...]]:
        """Split `messages`, in order, into packets of as many as fit."""
        if len(messages) == 1:  # it travels alone, however large it is
            return [(messages[0],)]
        return in_packets(messages, self.mtu - self.header, self.message)
