"""The packets between brokers, and between brokers and subscribers.

Between brokers a message travels whole (`Rumour`), with its dependencies on every group. To a subscriber goes a `Copy`:
the same message with only the dependencies that this subscriber can wait for.
"""

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from antecede.core import Message, Packet
from antecede.core.message import Source, Topic

#: Entries of one packet at most; others wait for the next.
ENTRIES_MAX: Final = 1 << 16
#: Messages of one packet at most.
BUNDLE_MAX: Final = 64
#: Messages of one packet with old messages at most.
FETCHED_MAX: Final = 512
#: Bytes of payload of one packet, beyond its first message.
BUNDLE_BYTES: Final = 64 * 1024

Position: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
#: How far a stream has come: (topic, source, sequence number).
Level: TypeAlias = tuple[Topic, Source, Position]
Levels: TypeAlias = Annotated[tuple[Level, ...], Meta(max_length=ENTRIES_MAX)]
#: A range of a stream: (topic, source, after, up to).
Want: TypeAlias = tuple[Topic, Source, Position, Position]
Groups: TypeAlias = Annotated[tuple[Topic, ...], Meta(max_length=4096)]


class Rumour(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A message among brokers. `clock` is its Lamport clock, or the round of its publication (also a Lamport clock).

    0: it was read from a log, which does not tell its clock.
    """

    message: Message
    clock: Position


class Peer(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A broker and the groups it relays. `version` counts the changes of its groups."""

    node: Source
    version: Position
    groups: Groups


Peers: TypeAlias = Annotated[tuple[Peer, ...], Meta(max_length=256)]


class Spread(Packet, frozen=True, gc=False, tag="gossip.spread"):
    """Messages, and a part of the sender's view: itself and a few others."""

    rumours: Annotated[tuple[Rumour, ...], Meta(max_length=BUNDLE_MAX)]
    peers: Peers = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple([rumour.message for rumour in self.rumours])


class Digest(Packet, frozen=True, gc=False, tag="gossip.digest"):
    """How far the sender has come in the groups it shares with the receiver. Each then sends what the other lacks."""

    levels: Levels
    peers: Peers


class Pull(Packet, frozen=True, gc=False, tag="gossip.pull"):
    """Asks for ranges of streams. A subscriber adds the groups it takes."""

    wants: Annotated[tuple[Want, ...], Meta(max_length=ENTRIES_MAX)]
    groups: Groups = ()


class Fetch(Packet, frozen=True, gc=False, tag="gossip.fetch"):
    """Asks for messages `first` to `last` of one stream, which may be so old that only logs have them."""

    topic: Topic
    source: Source
    first: Position
    last: Position


class Fetched(Packet, frozen=True, gc=False, tag="gossip.fetched"):
    """The answer to a `Fetch` that began with `first`, in one packet or several. Clock 0: the log does not tell it."""

    topic: Topic
    source: Source
    first: Position
    rumours: Annotated[tuple[Rumour, ...], Meta(max_length=FETCHED_MAX)]
    #: The sender's clock: none of these messages has a higher one.
    clock: Position
    #: More packets of this answer follow. The fields below are in the last one.
    more: bool = False
    #: The answer contains `first` … `upto`; the sender has reached this number.
    upto: Position = 0
    reached: Position = 0
    #: The sender delivered message `first` once, and has it no more.
    had: bool = False
    #: Where the sender does not have message `first` and is further: how far it is in the groups of the receiver.
    levels: Levels = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple([rumour.message for rumour in self.rumours])


class Ask(Packet, frozen=True, gc=False, tag="gossip.ask"):
    """The sender begins to relay `group`. `past`: the messages of that group that its own past depends on.

    `resigned`: no broker has all of that any more, so any broker that relays the group may answer.
    """

    group: Topic
    past: Levels
    peer: Peer
    resigned: bool = False


class Floor(Packet, frozen=True, gc=False, tag="gossip.floor"):
    """The answer to `Ask`. If the sender relays the group: how far it is, with the clocks it reached, and what precedes
    that point in other groups (`frontier`)."""

    group: Topic
    relays: bool
    peer: Peer
    levels: Annotated[tuple[tuple[Topic, Source, Position, Position], ...], Meta(max_length=ENTRIES_MAX)] = ()
    frontier: Levels = ()


class Beat(Packet, frozen=True, gc=False, tag="gossip.beat"):
    """The sender is in this round, so that brokers' rounds stay together (gossip-rounds)."""

    round: Position


# -- broker and subscriber ---------------------------------------------------------------------------------------------


class Copy(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A message for a subscriber. `clock` is its Lamport clock or the code of its round; `ages` only with rounds."""

    message: Message
    clock: Position
    ages: bytes = b""


class Notice(Packet, frozen=True, gc=False, tag="gossip.notice"):
    """Messages for a subscriber of exactly these groups. They name no dependencies on others, so no one else uses them.

    A real wire format would replace the groups by an agreed number. With rounds, a notice that is not an answer
    contains all that the broker delivered for these groups between its counts `after` and `upto`.
    """

    groups: Groups
    copies: Annotated[tuple[Copy, ...], Meta(max_length=BUNDLE_MAX)]
    session: Position = 0
    after: Position = 0
    upto: Position = 0

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple([copy.message for copy in self.copies])


class Attach(Packet, frozen=True, gc=False, tag="gossip.attach"):
    """A subscriber comes to a broker, or changes its groups. `fresh`: groups that it does not take yet.

    `past`: how far it is in every stream it ever took.
    """

    version: Position
    groups: Groups
    fresh: Groups
    past: Levels
    resigned: bool = False


class Attached(Packet, frozen=True, gc=False, tag="gossip.attached"):
    """The answer: where the fresh groups begin, the broker's clock, and brokers to turn to if this one fails."""

    version: Position
    floors: Levels
    clock: Position
    alternates: Annotated[tuple[Source, ...], Meta(max_length=256)]


class Detach(Packet, frozen=True, gc=False, tag="gossip.detach"):
    """The subscriber has another broker now."""

    version: Position


class Standing(Packet, frozen=True, gc=False, tag="gossip.standing"):
    """How far a broker has come, for its subscriber. With rounds: for exactly these groups, at count `upto`."""

    levels: Levels
    clock: Position
    groups: Groups = ()
    session: Position = 0
    upto: Position = 0


#: The packets between brokers.
BROKER_PACKETS: Final = (Spread, Digest, Pull, Fetch, Fetched, Ask, Floor)
PACKETS: Final = (*BROKER_PACKETS, Beat, Notice, Attach, Attached, Detach, Standing)
