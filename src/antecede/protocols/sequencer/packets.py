"""The packets of the fixed sequencer."""

from antecede.core import Message, Packet


class Post(Packet, frozen=True, gc=False, tag="sequencer.post"):
    """A message on its way to the sequencer: its publisher's number `place`, whatever the topic."""

    place: int
    message: Message

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.message,)


class Ordered(Packet, frozen=True, gc=False, tag="sequencer.ordered"):
    """A message and its place among all."""

    number: int
    message: Message

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.message,)


class Have(Packet, frozen=True, gc=False, tag="sequencer.have"):
    """A member has everything up to `number`."""

    number: int
