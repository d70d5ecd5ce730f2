"""The base of all packets. Every protocol defines its packets as small frozen records below this one.

The live codec encodes these records as they are. The simulator passes them by reference, and asks the protocol for
their size in the byte model of its paper.
"""

import msgspec

from antecede.core.message import Message


class Packet(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Base of all packets. A subclass names itself with `tag`, by which the codec tells them apart.

    A later version may append optional fields to a packet or to a record inside it; readers skip unknown ones.
    """

    @property
    def messages(self) -> tuple[Message, ...]:
        """The application messages inside: none in a control packet."""
        return ()

    @property
    def kind(self) -> str:
        """What sort of packet this is, in one word, for traces and diagrams."""
        return type(self).__name__.lower()


class MessagePacket(Packet, frozen=True, gc=False):
    """Base of packets that carry one message."""

    message: Message

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.message,)
