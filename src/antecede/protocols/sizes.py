"""The byte model of the thesis, for protocols whose papers give none."""

from collections.abc import Sequence

import msgspec

from antecede.core import Message
from antecede.core.limits import PACKET_BYTES_MAX
from antecede.protocols.bundling import in_packets


class FieldSizes(msgspec.Struct, frozen=True):
    """Bytes of what packets are made of: the header of a packet, a node, a topic, and an entry (node, counter)."""

    header: int = 20
    node: int = 2
    topic: int = 2
    entry: int = 4


class ByteModel(msgspec.Struct, frozen=True):
    """Sizes as in thesis 4.5.3: a packet header, then payload, source and clock of each message."""

    header: int = 20
    source: int = 2
    entry: int = 4
    mtu: int = PACKET_BYTES_MAX

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
        return in_packets(messages, self.mtu - self.header, self.message)
