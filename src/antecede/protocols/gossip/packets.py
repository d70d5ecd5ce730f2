"""What brokers say to each other, and what they and subscribers do.

Between brokers a message travels whole (`Rumour`), with its dependencies on every group; numbers are the message's own.
To a subscriber goes a `Copy`: the same message with only what this subscriber can wait for.
"""

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from antecede.core import Message, Packet
from antecede.core.message import Source, Topic

#: Entries of one packet; what is more waits for the next.
ENTRIES_MAX: Final = 1 << 16
#: Messages of one packet.
BUNDLE_MAX: Final = 64
#: Bytes of payload of one packet, after the first message.
BUNDLE_BYTES: Final = 64 * 1024

Position: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
#: How far a stream has come: (topic, source, position).
Level: TypeAlias = tuple[Topic, Source, Position]
Levels: TypeAlias = Annotated[tuple[Level, ...], Meta(max_length=ENTRIES_MAX)]
#: (topic, source, after, up to).
Want: TypeAlias = tuple[Topic, Source, Position, Position]
Groups: TypeAlias = Annotated[tuple[Topic, ...], Meta(max_length=4096)]


class Rumour(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A message among brokers. `clock`: its Lamport clock, or the round in which it was published, which is one too."""

    message: Message
    clock: Position


class Peer(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A broker and the groups it relays; `version` counts their changes."""

    node: Source
    version: Position
    groups: Groups


Peers: TypeAlias = Annotated[tuple[Peer, ...], Meta(max_length=256)]


class Spread(Packet, frozen=True, gc=False, tag="gossip.spread"):
    """Rumours, and a piece of the sender's view: itself and a few others."""

    rumours: Annotated[tuple[Rumour, ...], Meta(max_length=BUNDLE_MAX)]
    peers: Peers = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple([rumour.message for rumour in self.rumours])


class Digest(Packet, frozen=True, gc=False, tag="gossip.digest"):
    """How far the sender has come in the groups it shares with the receiver: each sends the other what it lacks."""

    levels: Levels
    peers: Peers


class Pull(Packet, frozen=True, gc=False, tag="gossip.pull"):
    """Send me these. From a subscriber: with the groups it takes."""

    wants: Annotated[tuple[Want, ...], Meta(max_length=ENTRIES_MAX)]
    groups: Groups = ()


class Ask(Packet, frozen=True, gc=False, tag="gossip.ask"):
    """The sender begins to relay `group`. `past`: what it knows of that group's messages from others' dependencies.

    `resigned`: nobody has all of that any more, so whoever relays the group may answer.
    """

    group: Topic
    past: Levels
    peer: Peer
    resigned: bool = False


class Floor(Packet, frozen=True, gc=False, tag="gossip.floor"):
    """The answer. If the sender relays the group: how far it is, with the clock it reached, and all that lies before
    that in other groups (`frontier`)."""

    group: Topic
    relays: bool
    peer: Peer
    levels: Annotated[tuple[tuple[Topic, Source, Position, Position], ...], Meta(max_length=ENTRIES_MAX)] = ()
    frontier: Levels = ()


class Beat(Packet, frozen=True, gc=False, tag="gossip.beat"):
    """The sender is in this round: rounds are kept together (gossip-rounds)."""

    round: Position


# -- broker and subscriber ---------------------------------------------------------------------------------------------


class Copy(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A message for a subscriber. `clock` is its Lamport clock, or the code of its round; `ages` only with rounds."""

    message: Message
    clock: Position
    ages: bytes = b""


class Notice(Packet, frozen=True, gc=False, tag="gossip.notice"):
    """Messages for a subscriber of just these groups: of others they name nothing, so for another they say too little.

    On a wire the groups would be a number the two agreed on. With rounds, where it is no answer: what the broker has
    delivered between its counts `after` and `upto`, for these groups.
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
    """A subscriber comes to a broker, or takes other groups. `fresh`: those it does not take yet.

    `past`: how far it is in everything it ever took.
    """

    version: Position
    groups: Groups
    fresh: Groups
    past: Levels
    resigned: bool = False


class Attached(Packet, frozen=True, gc=False, tag="gossip.attached"):
    """The answer: where the fresh groups begin, how far time is, and whom to turn to when this broker is gone."""

    version: Position
    floors: Levels
    clock: Position
    alternates: Annotated[tuple[Source, ...], Meta(max_length=256)]


class Detach(Packet, frozen=True, gc=False, tag="gossip.detach"):
    """A subscriber has another broker now."""

    version: Position


class Standing(Packet, frozen=True, gc=False, tag="gossip.standing"):
    """How far a broker has come, for a subscriber of it. With rounds: for one of just these groups, at which count."""

    levels: Levels
    clock: Position
    groups: Groups = ()
    session: Position = 0
    upto: Position = 0


#: What travels between brokers.
BROKER_PACKETS: Final = (Spread, Digest, Pull, Ask, Floor)
PACKETS: Final = (*BROKER_PACKETS, Beat, Notice, Attach, Attached, Detach, Standing)
