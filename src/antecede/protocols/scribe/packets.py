"""The packets of Scribe."""

from antecede.core import MessagePacket, Packet


class Post(MessagePacket, frozen=True, gc=False, tag="scribe.post"):
    """A message on its way to the root."""

    hops: int = 0


class Pub(MessagePacket, frozen=True, gc=False, tag="scribe.pub"):
    """A message on its way down the tree."""


class Join(Packet, frozen=True, gc=False, tag="scribe.join"):
    """The sender asks to be the receiver's child. `change` counts the sender's changes on this topic."""

    topic: str
    change: int


class Joined(Packet, frozen=True, gc=False, tag="scribe.joined"):
    """The sender is in the tree, and the receiver is its child as of that change."""

    topic: str
    change: int


class Leave(Packet, frozen=True, gc=False, tag="scribe.leave"):
    """The sender is no longer the receiver's child."""

    topic: str
    change: int
