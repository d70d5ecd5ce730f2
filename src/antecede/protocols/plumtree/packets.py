"""Packets of HyParView and Plumtree. Each belongs to one topic, which has views and a tree of its own."""

from typing import Annotated, TypeAlias

from msgspec import Meta

from antecede.core import Message, Packet
from antecede.core.message import Dependency, Seq, Source, Topic

#: Most nodes, names or held messages in a packet.
ITEMS_MAX = 65_536

Nodes: TypeAlias = Annotated[tuple[Source, ...], Meta(max_length=ITEMS_MAX)]
Hops: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 20)]
#: Source and sequence number of a message.
Name: TypeAlias = tuple[Source, Seq]


class TopicPacket(Packet, frozen=True, gc=False):
    """Base of all packets here."""

    topic: Topic


# -- HyParView --------------------------------------------------------------------------------------------------------


class Join(TopicPacket, frozen=True, gc=False, tag="plumtree.join"):
    """The sender asks a contact to take it into its active view."""


class ForwardJoin(TopicPacket, frozen=True, gc=False, tag="plumtree.forward_join"):
    """A joiner, on a random walk through active views."""

    joiner: Source
    walk: Hops


class Neighbour(TopicPacket, frozen=True, gc=False, tag="plumtree.neighbour"):
    """The sender asks for a link. A request of high priority, from a node without links, is never refused."""

    high: bool


class Welcome(TopicPacket, frozen=True, gc=False, tag="plumtree.welcome"):
    """The link is made. To a joiner: the sender's delivered messages by source, and those that it holds."""

    levels: Annotated[tuple[Dependency, ...], Meta(max_length=ITEMS_MAX)] = ()
    held: Annotated[tuple[Message, ...], Meta(max_length=ITEMS_MAX)] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.held


class Refuse(TopicPacket, frozen=True, gc=False, tag="plumtree.refuse"):
    """The sender's active view is full. If the sender is no member: nodes that may be."""

    member: bool
    others: Nodes = ()


class Disconnect(TopicPacket, frozen=True, gc=False, tag="plumtree.disconnect"):
    """The sender has removed the receiver from its active view. `gone`: it has left the topic."""

    gone: bool


class Shuffle(TopicPacket, frozen=True, gc=False, tag="plumtree.shuffle"):
    """A sample of the origin's views, on a random walk to the node that answers it."""

    origin: Source
    walk: Hops
    nodes: Nodes


class ShuffleReply(TopicPacket, frozen=True, gc=False, tag="plumtree.shuffle_reply"):
    """A sample of the sender's passive view, as large as the one it got."""

    nodes: Nodes


# -- Plumtree ---------------------------------------------------------------------------------------------------------


class Gossip(TopicPacket, frozen=True, gc=False, tag="plumtree.gossip"):
    """A message, and how many links it has crossed."""

    message: Message
    hops: Hops

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.message,)


class IHave(TopicPacket, frozen=True, gc=False, tag="plumtree.ihave"):
    """Messages that the sender has: source, sequence number, and links crossed; in Thicket, where it is interior."""

    names: Annotated[tuple[tuple[Source, Seq, Hops], ...], Meta(max_length=ITEMS_MAX)]
    interior: Annotated[tuple[Hops, ...], Meta(max_length=64)] = ()


class Graft(TopicPacket, frozen=True, gc=False, tag="plumtree.graft"):
    """The sender wants this link in the tree, and this message, if it names one. `tree`: which, in Thicket."""

    name: Name | None
    tree: Hops = 0


class Prune(TopicPacket, frozen=True, gc=False, tag="plumtree.prune"):
    """The sender got a message over this link that it had: the link leaves the tree. `tree`: which, in Thicket."""

    tree: Hops = 0
