"""What a node keeps across a crash: small records, one an event, each written before anything it promises is sent.

Read back in order they give again the node's numbers, its memberships, what it delivered and what it still owes others.
Only messages are ever large. What is stable everywhere need not be read back as messages: `Stable` says up to where.
"""

from typing import Annotated, TypeAlias

from msgspec import Meta

from antecede.core import Message, Record
from antecede.core.message import Seq, Source, Topic
from antecede.protocols.vcube_ps.packets import Counts, Register


class OfMessages(Record, frozen=True, gc=False):
    """Base of what says that messages were published or delivered here."""

    @property
    def messages(self) -> tuple[Message, ...]:
        raise NotImplementedError


class Published(OfMessages, frozen=True, gc=False, tag="vps.published"):
    """A message of this node. Its number is never used again."""

    message: Message

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.message,)

    @property
    def own_messages(self) -> tuple[Message, ...]:
        return (self.message,)


class Delivered(OfMessages, frozen=True, gc=False, tag="vps.delivered"):
    """A message given to the application here: it is not given again, and whoever lacks it can have it from here."""

    message: Message

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.message,)


class PublishedRun(OfMessages, frozen=True, gc=False, tag="vps.published_run"):
    """`Published` for messages that follow each other, kept as one."""

    messages: Annotated[tuple[Message, ...], Meta(min_length=1)]  # a field, in the place of the base's property

    @property
    def own_messages(self) -> tuple[Message, ...]:
        return self.messages


class DeliveredRun(OfMessages, frozen=True, gc=False, tag="vps.delivered_run"):
    """`Delivered` for messages that followed each other, of one source on one topic."""

    messages: Annotated[tuple[Message, ...], Meta(min_length=1)]


class Held(Record, frozen=True, gc=False, tag="vps.held"):
    """A message from before this node's time, held for others."""

    message: Message


class Registered(Record, frozen=True, gc=False, tag="vps.registered"):
    """`node` has come or gone, `register` times by now."""

    topic: Topic
    node: Source
    register: Register


class Began(Record, frozen=True, gc=False, tag="vps.began"):
    """A session of this node on a topic: what these counts name was before its time."""

    topic: Topic
    register: Register
    floors: Counts


class Stable(Record, frozen=True, gc=False, tag="vps.stable"):
    """Every member has delivered the source's messages up to `seq`: nobody will ask for them."""

    topic: Topic
    source: Source
    seq: Seq


Kept: TypeAlias = Published | Delivered | PublishedRun | DeliveredRun | Held | Registered | Began | Stable
