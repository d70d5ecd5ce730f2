"""The packets of SRPT."""

from antecede.core import Message, Packet
from antecede.core.message import Dependency


class Post(Packet, frozen=True, gc=False, tag="srpt.post"):
    """A message on its way from its publisher to the root."""

    message: Message

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.message,)


class Ask(Packet, frozen=True, gc=False, tag="srpt.ask"):
    """A node comes or goes, and tells the root. `change` counts this node's changes on this topic."""

    topic: str
    node: int
    joins: bool
    change: int


class Pub(Packet, frozen=True, gc=False, tag="srpt.pub"):
    """A message on its way down the tree."""

    message: Message
    #: Which broadcast of the root this is: what an acknowledgement names.
    number: int
    #: Changes of membership the root had made before.
    version: int

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.message,)


class Sub(Packet, frozen=True, gc=False, tag="srpt.sub"):
    """A node has joined: change number `version` of the topic. On the way to that node, with where it starts."""

    topic: str
    node: int
    change: int
    number: int
    version: int
    floors: tuple[Dependency, ...] = ()


class Uns(Packet, frozen=True, gc=False, tag="srpt.uns"):
    """A node has left."""

    topic: str
    node: int
    change: int
    number: int
    version: int


class Ack(Packet, frozen=True, gc=False, tag="srpt.ack"):
    """The root's broadcast `number` has reached the sender and all below it."""

    topic: str
    number: int


#: What the root broadcasts.
Broadcast = Pub | Sub | Uns
