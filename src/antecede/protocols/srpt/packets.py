"""The packets of SRPT."""

from antecede.core import MessagePacket, Packet
from antecede.core.message import Dependency


class Post(MessagePacket, frozen=True, gc=False, tag="srpt.post"):
    """A message on its way from the publisher to the root."""


class Ask(Packet, frozen=True, gc=False, tag="srpt.ask"):
    """A node tells the root that it joins or leaves. `change` counts the node's changes on this topic."""

    topic: str
    node: int
    joins: bool
    change: int


class Pub(MessagePacket, frozen=True, gc=False, tag="srpt.pub"):
    """A message on its way down the tree."""

    #: The number of this broadcast of the root; the acknowledgement names it.
    number: int
    #: How many membership changes the root had made before.
    version: int


class _Change(Packet, frozen=True, gc=False):
    """Base of broadcasts of the root: change number `version` of the topic's members."""

    topic: str
    node: int
    change: int
    number: int
    version: int


class Sub(_Change, frozen=True, gc=False, tag="srpt.sub"):
    """A node has joined. Copies that go to that node carry its floors."""

    floors: tuple[Dependency, ...] = ()


class Uns(_Change, frozen=True, gc=False, tag="srpt.uns"):
    """A node has left."""


class Ack(Packet, frozen=True, gc=False, tag="srpt.ack"):
    """Broadcast `number` of the root has reached the sender and all nodes below it."""

    topic: str
    number: int


#: The packets that the root broadcasts.
Broadcast = Pub | Sub | Uns
