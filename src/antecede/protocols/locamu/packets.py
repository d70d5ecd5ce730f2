"""What LoCaMu's nodes send each other: one kind of packet, with whatever there is to say to that neighbour.

Between two neighbours of the extended graph runs a *conversation* in each direction: parcels numbered from 1 and taken
in that order (`conversations`). So acknowledgements, records of identifiers and dependencies are said once, and then
only what has changed.
"""

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from antecede.core import Message, Packet
from antecede.core.limits import LINK_COUNTERS_MAX
from antecede.core.message import Source, Topic
from antecede.protocols.locamu.identifiers import Ids, Number

#: How far a node has processed what somebody numbered for it: all up to a number, and some beyond it.
Progress: TypeAlias = tuple[Number, Annotated[tuple[Number, ...], Meta(max_length=LINK_COUNTERS_MAX)]]

#: By who numbered it.
Columns: TypeAlias = Annotated[dict[Source, Progress], Meta(max_length=LINK_COUNTERS_MAX)]


class Data(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A copy of a message on its way."""

    message: Message
    #: The farthest node known on its way from the source, and whether that is the source itself.
    origin: Source
    whole: bool
    #: I: the identifiers given to it on the way this copy took.
    path: Ids
    #: A: identifiers other copies have. They tell duplicates, and say nothing of what came before.
    alias: Ids
    #: D: the past of the one who passed it on first. On the wire only what differs from the last one said.
    past: Ids


class Interest(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """In which directions `node` knows members of `topic`; its own number among them says it is one."""

    node: Source
    topic: Topic
    version: Number
    towards: Annotated[tuple[Source, ...], Meta(max_length=LINK_COUNTERS_MAX)]
    #: By node within `number`: which version of what that one says is known to all it concerns on this side of it.
    settled: Annotated[tuple[tuple[Source, Number], ...], Meta(max_length=LINK_COUNTERS_MAX)] = ()


class Parcel(Packet, frozen=True, gc=False, tag="lcm"):
    """Everything there is to say to one neighbour. `seq` is 0 when it only says what was received."""

    #: The conversation: it goes up with every life of the sender, and whenever it begins anew.
    talk: Number
    seq: Number
    #: The other direction: which conversation, and how far it was received.
    heard_talk: Number
    heard: Number
    data: Data | None = None
    columns: Columns = {}  # noqa: RUF012 - msgspec gives each its own
    #: Sets of identifiers that denote one message each.
    records: Annotated[tuple[Ids, ...], Meta(max_length=LINK_COUNTERS_MAX)] = ()
    interests: Annotated[tuple[Interest, ...], Meta(max_length=LINK_COUNTERS_MAX)] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        return () if self.data is None else (self.data.message,)

    @property
    def kind(self) -> str:
        if self.data is not None:
            return "data"
        if self.interests:
            return "interest"
        return "ack" if self.columns or not self.records else "record"


PACKETS = (Parcel,)
