"""What a node keeps across a crash: small records, one an event, each written before anything it promises is sent.

Read back in order they give again the node's numbers, its memberships, what it delivered and what it still owes others.

Where the driver has a log of what was delivered (`Outbox.look_up`), records refer to it (`Logged`), and any number of
them come down to one `Checkpoint` a topic. So what is kept does not grow with what an absent member lacks. Without a
log, records hold the messages themselves until these are stable.
"""

from typing import Annotated, TypeAlias

from msgspec import Meta

from antecede.core import Message, Record
from antecede.core.message import Seq, Source, Topic
from antecede.protocols.vcube_ps.packets import Count, Counts, Epoch, Register, StreamLevels


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
    """A message delivered here: it is not delivered again, and nodes that lack it can have it from here."""

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


class Logged(Record, frozen=True, gc=False, tag="vps.logged"):
    """Messages of one source, published or delivered here, that stand in the driver's log: `first` up to number `last`.

    `first` is without its payload. Those behind it depend on nothing but the one before, and their Lamport times follow
    each other, too. Where stable entries are left out of messages (`carrying`), entries of other topics are kept apart,
    each once (`Carries`).
    """

    first: Message
    last: Seq


class Carries(Record, frozen=True, gc=False, tag="vps.carries"):
    """Entries of other topics, new to this node, in messages that stand in the driver's log: it carries them on."""

    entries: StreamLevels


class Checkpoint(Record, frozen=True, gc=False, tag="vps.checkpoint"):
    """What records of messages came to: by source, how far this node had come; and what its next message depends on."""

    topic: Topic
    #: The number of the last message this node published.
    seq: Count
    reached: Counts
    frontier: Counts
    #: How many of its messages this node published since it last took the topic, and what these depend on.
    outside: Count = 0
    past: Counts = ()


class Clock(Record, frozen=True, gc=False, tag="vps.clock"):
    """The Lamport time of this node, where the records of the messages that led to it are gone."""

    time: Count


class Held(Record, frozen=True, gc=False, tag="vps.held"):
    """A message from before this node's time, held for others."""

    message: Message


class Unlogged(Record, frozen=True, gc=False, tag="vps.unlogged"):
    """A message that this node published without taking its topic: the driver's log lacks it."""

    message: Message


class Secured(Record, frozen=True, gc=False, tag="vps.secured"):
    """Another node has delivered this node's messages on the topic up to `seq`, which this node did not."""

    topic: Topic
    seq: Seq


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


class Forgotten(Record, frozen=True, gc=False, tag="vps.forgotten"):
    """Epochs of this number before `epoch` are over: their owner is gone for good. Of this node's own: it is new."""

    node: Source
    epoch: Epoch


class Closed(Record, frozen=True, gc=False, tag="vps.closed"):
    """The source's messages of former epochs end with `last`, and every member has delivered them."""

    topic: Topic
    source: Source
    epoch: Epoch
    last: Count


class Earlier(Record, frozen=True, gc=False, tag="vps.earlier"):
    """By source: the last message that was delivered here before this node's present session on the topic."""

    topic: Topic
    counts: Counts


class Stable(Record, frozen=True, gc=False, tag="vps.stable"):
    """Every member has delivered the source's messages up to `seq`: no node will ask for them."""

    topic: Topic
    source: Source
    seq: Seq


Kept: TypeAlias = (
    Published
    | Delivered
    | PublishedRun
    | DeliveredRun
    | Logged
    | Carries
    | Checkpoint
    | Clock
    | Held
    | Unlogged
    | Secured
    | Registered
    | Began
    | Forgotten
    | Closed
    | Earlier
    | Stable
)
