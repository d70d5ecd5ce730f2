"""The packets of Scribe."""

from antecede.core import MessagePacket, Packet


class Post(MessagePacket, frozen=True, gc=False, tag="scribe.post"):
    """A message on its way to the root."""

    hops: int = 0


class Pub(MessagePacket, frozen=True, gc=False, tag="scribe.pub"):
    """A message on its way down the tree."""


class _OfChild(Packet, frozen=True, gc=False):
    """Base of packets between parent and child. `change` counts the child's changes on this topic."""

    topic: str
    change: int


class Join(_OfChild, frozen=True, gc=False, tag="scribe.join"):
    """The sender asks to be the receiver's child."""


class Joined(_OfChild, frozen=True, gc=False, tag="scribe.joined"):
    """The sender is in the tree, and the receiver is its child as of that change."""


class Leave(_OfChild, frozen=True, gc=False, tag="scribe.leave"):
    """The sender is no longer the receiver's child."""
