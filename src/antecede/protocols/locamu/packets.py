"""The packet of LoCaMu: one kind, with all there is to say to one neighbour.

Between two neighbours of the extended graph there is a *conversation* in each direction: parcels numbered from 1, and
processed in that order (`conversations`). So acknowledgements, records of identifiers and dependencies are sent in full
once, and then only what has changed.
"""

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from antecede.core import Message, Packet
from antecede.core.limits import LINK_COUNTERS_MAX
from antecede.core.message import Source, Topic
from antecede.protocols.locamu.identifiers import Ids, Number

#: How far a node has processed what another numbered for it: every number up to one, and some beyond it.
Progress: TypeAlias = tuple[Number, Annotated[tuple[Number, ...], Meta(max_length=LINK_COUNTERS_MAX)]]

#: Progress by the node that numbered.
Columns: TypeAlias = Annotated[dict[Source, Progress], Meta(max_length=LINK_COUNTERS_MAX)]


class Data(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A copy of a message."""

    message: Message
    #: The farthest known node on its path from the source, and whether that is the source itself.
    origin: Source
    whole: bool
    #: I: the identifiers it was given on the path of this copy.
    path: Ids
    #: A: identifiers that other copies have. They reveal duplicates, but say nothing of what came before.
    alias: Ids
    #: D: the past of the node that forwarded it first. On the wire only what differs from the last one sent.
    past: Ids


class Interest(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The directions in which `node` knows members of `topic`; its own number among them means that it is one."""

    node: Source
    topic: Topic
    version: Number
    towards: Annotated[tuple[Source, ...], Meta(max_length=LINK_COUNTERS_MAX)]
    #: By node within `number`: the version of its interest that all nodes concerned on this side of it know.
    settled: Annotated[tuple[tuple[Source, Number], ...], Meta(max_length=LINK_COUNTERS_MAX)] = ()


class Parcel(Packet, frozen=True, gc=False, tag="lcm"):
    """All there is to say to one neighbour. `seq` is 0 in a parcel that only acknowledges."""

    #: The conversation. Its number rises with every incarnation of the sender, and whenever it begins anew.
    talk: Number
    seq: Number
    #: The other direction: the conversation, and how far it was received.
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
