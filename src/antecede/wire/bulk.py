"""The records that a bulk client and its node exchange: the client asks one question at a time, the node answers it.

**Reading.** `ExtentQuery` asks for the range of positions that can be read, `Read` for a page of it. Pages are blocks
of the journal as stored. The node opens them only where clients may not read everything.

**Reading at any home.** Positions hold at one node. A *frontier* holds at every node that has the partition: by stream,
the last message (`core.partitions`). `LayoutQuery` asks which nodes keep which partitions, `CutQuery` for the frontier
at a position, `Plan` for the positions at which this node has the messages between two frontiers. `ReadPast` asks for
messages that no home has at a position.

**Publishing.** `Stage` gives rows that the node keeps and does not publish yet; when all rows of a batch are staged,
`Release` publishes them, in order. A batch has the name of its producer and a number. A number that is not above the
producer's last one is done already, so every question may be repeated after a failure. `Discard` frees disk early.

**Publishing at one of several nodes.** The nodes that a client names are the voters of its producers. With `Claim` a
majority of them agrees on the node that publishes a batch, before it does (`client.claims`). `Settle` tells them that
it has; `Fetch` gets rows back, to stage them at the node that was agreed on.

**Ownership.** Parts and producers belong to the client whose token staged or released them, by its name in the token
file. Other clients may use the same names for parts and producers of their own. Without tokens all clients are one.
"""

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from antecede.core import LimitError
from antecede.core.limits import DEPENDENCIES_MAX, PARTITIONS_MAX, SLOTS_MAX, TOPIC_BYTES_MAX
from antecede.core.partitions import Stream, StreamMessage
from antecede.wire.codec import LENGTH_BYTES, RecordCodec, array_head
from antecede.wire.envelope import BODY_BYTES_MAX, HEADER_BYTES_MAX, HEADERS_MAX
from antecede.wire.requests import FILTERS_MAX

#: The role named in the hello, and what is spoken. The number goes up with every change below other than optional
#: fields appended to a record.
ROLE: Final = "bulk"
SPEAKS: Final = "bulk/3"

#: The beginning of a producer's name that was drawn at random. Such producers are forgotten after a day.
UNNAMED: Final = "once/"

#: Bytes of blocks in a page; larger blocks are split. Questions are frames like any other.
PAGE_BYTES: Final = 4 * 1024 * 1024
ANSWER_BYTES_MAX: Final = 4 * PAGE_BYTES

#: Bytes of rows in a stage. With the largest row behind them they fit a frame.
STAGE_BYTES: Final = 256 * 1024

#: Nodes that vote on the batches of a producer.
VOTERS_MAX: Final = 32

#: Parts of one batch: tasks of a job. Their names fit a frame.
PARTS_MAX: Final = 16_384

_Number: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_Text: TypeAlias = Annotated[str, Meta(max_length=2048)]
_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]
_Part: TypeAlias = Annotated[str, Meta(min_length=1, max_length=40)]
_Word: TypeAlias = Annotated[str, Meta(max_length=HEADER_BYTES_MAX)]
_Address: TypeAlias = Annotated[str, Meta(max_length=300)]
_Voters: TypeAlias = Annotated[tuple[_Address, ...], Meta(max_length=VOTERS_MAX)]
#: The last messages of a node, by stream.
_Ends: TypeAlias = Annotated[tuple[StreamMessage, ...], Meta(max_length=DEPENDENCIES_MAX)]
_Slot: TypeAlias = Annotated[int, Meta(ge=0, lt=SLOTS_MAX)]
_Partitions: TypeAlias = Annotated[
    tuple[Annotated[int, Meta(ge=0, lt=PARTITIONS_MAX)], ...], Meta(max_length=PARTITIONS_MAX)
]
#: By stream: a sequence number.
Pairs: TypeAlias = Annotated[tuple[tuple[Stream, _Number], ...], Meta(max_length=PARTITIONS_MAX * SLOTS_MAX)]


class Record(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Base of all."""


class Row(Record, frozen=True, gc=False):
    """A message to publish. `after`: messages that this node must have delivered before."""

    topic: Annotated[str, Meta(min_length=1, max_length=TOPIC_BYTES_MAX)]
    body: Annotated[bytes, Meta(max_length=BODY_BYTES_MAX)]
    headers: Annotated[dict[_Word, _Word], Meta(max_length=HEADERS_MAX)] = {}
    after: Annotated[tuple[StreamMessage, ...], Meta(max_length=DEPENDENCIES_MAX)] = ()


# -- questions ---------------------------------------------------------------------------------------------------------


class ExtentQuery(Record, frozen=True, gc=False, tag="l"):
    """Ask for the range of positions that can be read. With `time_us`: also for the last position before that time.
    With `bytes_max`: also how far to read from `after`, at most to `last`, for about so many bytes. With `sizes`: also
    for the mean size of a stored message."""

    time_us: _Number = 0
    after: _Number = 0
    last: _Number = 0
    bytes_max: _Number = 0
    sizes: bool = False


class Read(Record, frozen=True, gc=False, tag="r"):
    """Ask for a page of the deliveries after position `after` up to `last`: those that the filters take, or more.

    `partitions`: blocks without a message in these partitions are left out; none: no block is.
    """

    after: _Number
    last: _Number
    filters: Annotated[tuple[_Text, ...], Meta(min_length=1, max_length=FILTERS_MAX)]
    partitions: _Partitions = ()


class LayoutQuery(Record, frozen=True, gc=False, tag="w"):
    """Ask which nodes there are, and which of them keep which partitions."""


class CutQuery(Record, frozen=True, gc=False, tag="u"):
    """Ask for the frontier of these partitions at a position of this node: `position`, or the last one before `time_us`
    if that is given. A position behind the last one counts as the last one."""

    partitions: _Partitions
    position: _Number = 0
    time_us: _Number = 0


class Plan(Record, frozen=True, gc=False, tag="n"):
    """Ask where this node has the messages of these partitions behind the frontier `had`, up to `until`.

    Without `until`: up to its last delivery that another node has, too. The answer may end earlier: behind about
    `rows_max` positions, or `bytes_max` bytes. With `slice_rows`: it is divided into slices of about so many positions.
    `position`: where this node was when it gave out the frontier `had`; `last`: the same for `until`. Both are for a
    cluster with one partition.
    """

    partitions: _Partitions
    had: Pairs
    until: Pairs | None = None
    position: _Number | None = None
    last: _Number | None = None
    rows_max: _Number = 0
    bytes_max: _Number = 0
    slice_rows: _Number = 0


class ReadPast(Record, frozen=True, gc=False, tag="q"):
    """Ask for a page of the messages behind the frontier `had`, up to `until`, that the filters take, or more.

    For messages that no home has at a position. The node reads what it lacks from others.
    """

    had: Pairs
    until: Pairs
    filters: Annotated[tuple[_Text, ...], Meta(min_length=1, max_length=FILTERS_MAX)]


class Stage(Record, frozen=True, gc=False, tag="s"):
    """Keep rows: stage number `index` of `part`, a name drawn for this part alone. `rows`: an array of `Row`."""

    part: _Part
    index: _Number
    rows: bytes


class Release(Record, frozen=True, gc=False, tag="p"):
    """Publish these parts, each with its number of stages, as batch number `batch` of `producer`.

    Answered when all of it is in the journal; after `patience_ms` at the latest, with why it is not. `after`: messages
    that this node must have delivered before. `claimed`: the producer's voters have agreed on this node.
    """

    producer: _Name
    batch: _Number
    parts: Annotated[tuple[tuple[_Part, _Number], ...], Meta(max_length=PARTS_MAX)]
    patience_ms: _Number = 60_000
    after: _Ends = ()
    claimed: bool = False


class Discard(Record, frozen=True, gc=False, tag="d"):
    """These parts will not be released."""

    parts: Annotated[tuple[_Part, ...], Meta(max_length=PARTS_MAX)]


class Cancel(Record, frozen=True, gc=False, tag="c"):
    """Publish no more of batch `batch` of `producer`, whose release is under way. What was published stays so.

    Answered with how many of its messages that is. A cancelled batch of which nothing was published may be released
    again under its number; any other is refused for good.
    """

    producer: _Name
    batch: _Number


class Claim(Record, frozen=True, gc=False, tag="m"):
    """Vote on the node that publishes batch `batch` of `producer`.

    Without `node`: promise to accept nothing with a lower ballot. With it: accept that node, given by its address.
    """

    producer: _Name
    batch: _Number
    ballot: _Number
    voters: _Voters
    node: _Address = ""


class Settle(Record, frozen=True, gc=False, tag="t"):
    """Batch `batch` of `producer` was published, all of it, at `node`, whose last messages were `ends` then."""

    producer: _Name
    batch: _Number
    node: _Address
    ends: _Ends = ()


class Fetch(Record, frozen=True, gc=False, tag="g"):
    """Ask for staged rows: stage number `index` of `part`."""

    part: _Part
    index: _Number


# -- answers -----------------------------------------------------------------------------------------------------------


class ExtentReply(Record, frozen=True, gc=False, tag="i"):
    """Answers `ExtentQuery`: the node, the range to read (after `removed`, up to `position`), and the rest asked."""

    node: _Number
    removed: _Number
    position: _Number
    before: _Number = 0
    within: _Number = 0
    mean_bytes: _Number = 0


class Piece(Record, frozen=True, gc=False):
    """Deliveries of one batch (`journal.blocks`): at positions from `first` on, or `first` plus each of `offsets`."""

    first: _Number
    time_us: _Number
    block: bytes
    offsets: tuple[_Number, ...] | None = None


class Page(Record, frozen=True, gc=False, tag="b"):
    """Answers `Read`: everything wanted up to position `reached`."""

    reached: _Number
    pieces: tuple[Piece, ...]


class Layout(Record, frozen=True, gc=False, tag="h"):
    """Answers `LayoutQuery`: the node that answers, the number of partitions, and how many levels of a topic decide."""

    node: _Slot
    partitions: Annotated[int, Meta(ge=1, le=PARTITIONS_MAX)]
    levels: _Number
    #: Does a frontier say where to go on at any node? Not where messages may come out of order (protocol `total`).
    portable: bool
    #: Slot and address of each member, and whether it seems to be up.
    nodes: Annotated[tuple[tuple[_Slot, _Text, bool], ...], Meta(max_length=SLOTS_MAX)]
    #: By partition: the slots of its homes.
    homes: Annotated[tuple[tuple[_Slot, ...], ...], Meta(max_length=PARTITIONS_MAX)]


class Cut(Record, frozen=True, gc=False, tag="e"):
    """Answers `CutQuery`. Retention has removed the positions up to `removed`."""

    node: _Slot
    position: _Number
    removed: _Number
    frontier: Pairs


class Planned(Record, frozen=True, gc=False, tag="a"):
    """Answers `Plan`: the messages lie after position `after`, up to `last`, among others."""

    node: _Slot
    after: _Number
    last: _Number
    #: The frontier at the end, not below `had`.
    until: Pairs
    #: What the node has delivered by now.
    present: Pairs
    #: None: the messages behind `had` up to `until` are wanted. Else all in the range are, but for those up to these.
    ahead: Pairs | None = None
    #: (stream, first, last) of messages that the node does not have, and never delivers.
    lacking: Annotated[tuple[tuple[Stream, _Number, _Number], ...], Meta(max_length=65_536)] = ()
    #: Where to divide the range: a position, and the frontier there.
    slices: tuple[tuple[_Number, Pairs], ...] = ()
    #: The mean size of a stored message, by partition, in bytes.
    sizes: Pairs = ()


class PastPage(Record, frozen=True, gc=False, tag="o"):
    """Answers `ReadPast`: everything wanted up to the frontier `reached`, at position 0; and which messages, (stream,
    first, last), no node has."""

    reached: Pairs
    pieces: tuple[Piece, ...]
    lacking: tuple[tuple[Stream, _Number, _Number], ...] = ()


class Done(Record, frozen=True, gc=False, tag="k"):
    """To `Stage`, `Release`, `Discard`, `Cancel`. `count`: messages published by this very release, or before the
    cancellation. `ends`: after a claimed release, the last messages of this node, by stream."""

    count: _Number = 0
    ends: _Ends = ()


class Vote(Record, frozen=True, gc=False, tag="v"):
    """Answers `Claim` and `Settle`: what this voter knows of the producer now."""

    #: The slot of the voter.
    voter: _Number
    #: The batch that was voted on last, and the highest ballot promised for it.
    batch: _Number
    promised: _Number
    #: The ballot with which `node` was accepted for it; 0 if none was.
    accepted: _Number
    node: _Address
    #: The voters named when this voter last accepted.
    voters: _Voters
    #: The last batch that is known to be published, where, and the last messages of that node; −1: none is.
    settled: Annotated[int, Meta(ge=-1, le=(1 << 63) - 1)] = -1
    settled_node: _Address = ""
    ends: _Ends = ()
    #: The last batch whose release this voter itself has begun; −1: none.
    begun: Annotated[int, Meta(ge=-1, le=(1 << 63) - 1)] = -1


class Fetched(Record, frozen=True, gc=False, tag="j"):
    """Answers `Fetch`."""

    rows: bytes


class Failed(Record, frozen=True, gc=False, tag="f"):
    """The request failed. With `kind` "gap": positions from `after` + 1 to `first` − 1 were removed by retention."""

    kind: _Text
    text: _Text
    after: _Number = 0
    first: _Number = 0


Question: TypeAlias = (
    ExtentQuery
    | Read
    | LayoutQuery
    | CutQuery
    | Plan
    | ReadPast
    | Stage
    | Release
    | Discard
    | Cancel
    | Claim
    | Settle
    | Fetch
)
Answer: TypeAlias = ExtentReply | Page | Layout | Cut | Planned | PastPage | Done | Failed | Vote | Fetched

TO_NODE: Final = RecordCodec[Question](
    (ExtentQuery, Read, LayoutQuery, CutQuery, Plan, ReadPast, Stage, Release, Discard, Cancel, Claim, Settle, Fetch)
)
TO_CALLER: Final = RecordCodec[Answer](
    (ExtentReply, Page, Layout, Cut, Planned, PastPage, Done, Failed, Vote, Fetched), frame_bytes_max=ANSWER_BYTES_MAX
)

_encode = encode_rows = msgspec.msgpack.Encoder().encode
decode_rows = msgspec.msgpack.Decoder(list[Row]).decode


def page_frame(page: Page) -> list[bytes]:
    """The frame of a page, in parts: joined they are `TO_CALLER.frame(page)`. No call copies all of a page."""
    pieces = list(map(_encode, page.pieces))
    head = array_head(1) + _encode(Page(page.reached, ()))[:-1] + array_head(len(pieces))
    size = len(head) + sum(map(len, pieces))
    if size > ANSWER_BYTES_MAX:
        raise LimitError("a page in bytes", size, ANSWER_BYTES_MAX, "send less at a time")
    return [size.to_bytes(LENGTH_BYTES, "big") + head, *pieces]


class _Topic(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The first field of a row; the decoder skips the rest."""

    topic: str


_decode_topics = msgspec.msgpack.Decoder(list[_Topic]).decode


def topics_of_rows(block: bytes) -> set[str]:
    """The topics of rows that were decoded before."""
    return {row.topic for row in _decode_topics(block)}
