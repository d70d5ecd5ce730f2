"""The packets of the fixed sequencer."""

from antecede.core import MessagePacket, Packet


class Post(MessagePacket, frozen=True, gc=False, tag="sequencer.post"):
    """A message on its way to the sequencer, with its number among its publisher's messages on all topics."""

    number: int


class Ordered(MessagePacket, frozen=True, gc=False, tag="sequencer.ordered"):
    """A message with its position in the total order."""

    number: int


class Have(Packet, frozen=True, gc=False, tag="sequencer.have"):
    """The sender has every message up to `number`."""

    number: int
