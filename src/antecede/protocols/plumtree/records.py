"""What a node keeps across a crash."""

from typing import Annotated

from msgspec import Meta

from antecede.core import Message, Record
from antecede.core.message import Dependency, Topic
from antecede.protocols.plumtree.packets import ITEMS_MAX


class Member(Record, frozen=True, gc=False, tag="plumtree.member"):
    """The node takes a topic from here on, behind these messages, or no more."""

    topic: Topic
    taken: bool
    levels: Annotated[tuple[Dependency, ...], Meta(max_length=ITEMS_MAX)] = ()


class GaveUp(Record, frozen=True, gc=False, tag="plumtree.gave_up"):
    """Messages on the topic up to this Lamport clock that were not delivered are late."""

    topic: Topic
    clock: Annotated[int, Meta(ge=0)]


class Published(Record, frozen=True, gc=False, tag="plumtree.published"):
    """A message of this node. Its sequence number is never used again."""

    message: Message

    @property
    def own_messages(self) -> tuple[Message, ...]:
        return (self.message,)


class Delivered(Record, frozen=True, gc=False, tag="plumtree.delivered"):
    """A message of another node that was delivered here."""

    message: Message
