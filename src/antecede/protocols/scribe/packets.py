"""The packets of Scribe."""

from antecede.core import Message, Packet


class Post(Packet, frozen=True, gc=False, tag="scribe.post"):
    """A message on its way to the root."""

    message: Message
    hops: int = 0

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.message,)


class Pub(Packet, frozen=True, gc=False, tag="scribe.pub"):
    """A message on its way down the tree."""

    message: Message

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.message,)


class Join(Packet, frozen=True, gc=False, tag="scribe.join"):
    """The sender wants to be the receiver's child. `change` counts what it says of itself on this topic."""

    topic: str
    change: int


class Joined(Packet, frozen=True, gc=False, tag="scribe.joined"):
    """The sender is in the tree, and the receiver its child since that change."""

    topic: str
    change: int


class Leave(Packet, frozen=True, gc=False, tag="scribe.leave"):
    """The sender is the receiver's child no more."""

    topic: str
    change: int
