"""The records that a client and its node exchange after the handshake.

A client publishes and opens feeds; the node acknowledges, and sends the messages that the feeds take. The client
numbers its requests, so answers may come in any order.

**Order.** A session with one node needs no clocks: the node gives a client messages in causal order, and publishes the
client's messages after everything it has given to that client. Two things a session cannot know travel with the
messages. A publication names the *immediate dependencies* among what the client has read (`Publish.after`: mostly none
or one). They matter when the client has moved from another node: the new node waits until it has delivered them. A
delivered message names its immediate dependencies (`Items.deps`), for readers that order messages again.

**Back-pressure.** A node sends no more on a feed than the client gave credit for, so a reader that stops reading costs
neither side memory (`node.feed`).

**Sources.** A source is the stream that a message is numbered in: `partition * 1024 + slot` (`core.partitions`). In a
cluster with one partition it is the slot of the node that published it.

The records are the same over TCP and over `memory://`.
"""

import re
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from antecede.core.errors import UsageError
from antecede.core.limits import DEPENDENCIES_MAX, PUBLICATIONS_MAX
from antecede.core.message import Seq, Source
from antecede.core.partitions import Stream, StreamMessage
from antecede.wire.codec import FRAME_BYTES_FULL, RecordCodec

#: The role a client names in its hello, and what it speaks. The number goes up with every change below other than
#: optional fields appended to a record.
ROLE: Final = "client"
SPEAKS: Final = "edge/3"

#: Filters of one feed; messages a client may be behind the node, by credit.
FILTERS_MAX: Final = 64
CREDIT_MAX: Final = 1 << 20

#: The longest a publication may wait: a day.
TIMEOUT_MS_MAX: Final = 24 * 3600 * 1000

#: The ages that a feed may allow its messages: a millisecond, since timers are no finer, to an hour.
MAX_AGE_US_MIN: Final = 1000
MAX_AGE_US_MAX: Final = 3600 * 1_000_000

Order: TypeAlias = Literal["causal", "total", "fifo", "none"]
Policy: TypeAlias = Literal["block", "drop_oldest", "disconnect"]

_Number: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
#: Counts things in the same record, which its frame bounds.
_Count: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 20)]
_Text: TypeAlias = Annotated[str, Meta(max_length=2048)]
#: Sources that a reader may name, with the last message of each that it has.
SOURCES_SEEN_MAX: Final = 1 << 16
Seen: TypeAlias = Annotated[tuple[tuple[Stream, _Number], ...], Meta(max_length=SOURCES_SEEN_MAX)]


class Record(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Base of all."""


# -- from the client ---------------------------------------------------------------------------------------------------


class Publish(Record, frozen=True, gc=False, tag="p"):
    """Publish envelopes, numbered from `number` on; the first follows `after`, each of the others the one before it.

    `level`: 0 memory, 1 disk, 1 + k on k further nodes, −1 as safe as the node is by itself.
    """

    number: _Number
    payloads: Annotated[tuple[bytes, ...], Meta(min_length=1, max_length=PUBLICATIONS_MAX)]
    after: Annotated[tuple[StreamMessage, ...], Meta(max_length=DEPENDENCIES_MAX)] = ()
    level: Annotated[int, Meta(ge=-1, le=1 << 16)] = -1
    #: The node fails the publications that are not acknowledged within this time; 0: after a time of its own.
    timeout_ms: Annotated[int, Meta(ge=0, le=TIMEOUT_MS_MAX)] = 0
    #: `after` is what the client has read, so its later publications follow it, too. False: the application chose it.
    past: bool = False


class Subscribe(Record, frozen=True, gc=False, tag="s"):
    """Open a feed. `since`: −1 for what comes from now on; else the position, at this node, to read on from."""

    feed: _Number
    filters: Annotated[tuple[_Text, ...], Meta(min_length=1, max_length=FILTERS_MAX)]
    credit: Annotated[int, Meta(ge=1, le=CREDIT_MAX)]
    since: Annotated[int, Meta(ge=-1, le=(1 << 63) - 1)] = -1
    order: Order = "causal"
    policy: Policy = "block"
    #: For a client that moved from another node: by source, the last message it read; `since` is 0 then.
    seen: Seen = ()
    #: Messages that may be unread at the client in total; 0: as many as `credit`. A resumed feed has some already.
    window: Annotated[int, Meta(ge=0, le=CREDIT_MAX)] = 0
    #: Read on behind messages that the node never delivers, instead of ending there.
    over_gaps: bool = False
    #: Skip messages that are older, and let none wait for longer (Δ-causal order); 0: give all. With order causal only.
    max_age_us: Annotated[int, Meta(ge=0, le=MAX_AGE_US_MAX)] = 0


class Credit(Record, frozen=True, gc=False, tag="c"):
    """The reader has taken `count` messages of a feed: as many more may be sent."""

    feed: _Number
    count: Annotated[int, Meta(ge=1, le=CREDIT_MAX)]


class Unsubscribe(Record, frozen=True, gc=False, tag="u"):
    feed: _Number


class Ask(Record, frozen=True, gc=False, tag="a"):
    """Ask about the node itself: `status`."""

    number: _Number
    what: _Text


# -- from the node -----------------------------------------------------------------------------------------------------


class Info(Record, frozen=True, gc=False, tag="i"):
    """Names the node that the client has reached: the first record of a session."""

    node: Source
    #: Identifies a life of a node without a journal; 0 for a node with one.
    epoch: _Number
    position: _Number
    name: _Text = ""
    #: Where other nodes of the cluster can be dialled: host:port each.
    others: Annotated[tuple[_Text, ...], Meta(max_length=64)] = ()


class Items(Record, frozen=True, gc=False, tag="m"):
    """Messages for a feed, in its order, as columns.

    `positions`: (position, count): this many messages from this position on. A position is a message's cursor; it is 0
    for messages ahead of their turn, on a feed that asked for those. `ids`: (source, seq, count), likewise. `deps` and
    `held_us`: by index, for the messages that have any. `dropped`: how many messages were left out before the
    first, by the policy or because they were late. `out_of_order`: the indexes of messages that could not be delivered
    in order.
    """

    feed: _Number
    dropped: _Number
    payloads: tuple[bytes, ...]
    positions: tuple[tuple[_Number, _Count], ...]
    ids: tuple[tuple[Stream, Seq, _Count], ...]
    deps: dict[_Count, Annotated[tuple[StreamMessage, ...], Meta(max_length=DEPENDENCIES_MAX)]] = {}
    held_us: dict[_Count, _Number] = {}
    out_of_order: tuple[_Count, ...] = ()


_encode = msgspec.msgpack.Encoder().encode
#: An array of nine that begins with the tag of `Items`.
_ITEMS_HEAD: Final = b"\x99\xa1m"


def items_body(feed: int, dropped: int, piece: bytes) -> bytes:
    """An `Items` record, encoded. `piece`: its columns, each encoded, which a node encodes once for all feeds."""
    return b"".join((_ITEMS_HEAD, _encode(feed), _encode(dropped), piece))


class Acks(Record, frozen=True, gc=False, tag="k"):
    """Publications that are as durable as was asked. `runs`: (first request number, first sequence number, count)."""

    source: Stream
    runs: tuple[tuple[_Number, Seq, _Count], ...]


class Failed(Record, frozen=True, gc=False, tag="f"):
    """A publication or question failed. `kind` names the error; `uncertain`: the message may still be delivered."""

    number: _Number
    kind: _Text
    text: _Text
    uncertain: bool = False


class Ended(Record, frozen=True, gc=False, tag="e"):
    """A feed is over. `kind` and `text` say why. With kind "gap": the position asked for, and the first there is."""

    feed: _Number
    kind: _Text
    text: _Text
    after: _Number = 0
    first: _Number = 0
    #: For a client that came from another node: (source, first, last) of the messages this node does not have.
    missing: tuple[tuple[Stream, Seq, Seq], ...] = ()


class Begun(Record, frozen=True, gc=False, tag="b"):
    """A feed is open, and begins behind `position`. `counts`: by source the last message before it, if that is now."""

    feed: _Number
    position: _Number
    counts: Seen = ()


class Answer(Record, frozen=True, gc=False, tag="r"):
    """Answers `Ask`, in JSON."""

    number: _Number
    body: bytes


FromClient: TypeAlias = Publish | Subscribe | Credit | Unsubscribe | Ask
FromNode: TypeAlias = Info | Items | Acks | Failed | Ended | Begun | Answer


def parse_durability(durability: str | None) -> int:
    """`durability`, in an application's words, as a level of `Publish`."""
    if durability is None:
        return -1
    if durability == "memory":
        return 0
    if durability == "disk":
        return 1
    found = re.fullmatch(r"replicated\((\d{1,4})\)", durability)
    if found is None or int(found[1]) < 1:
        raise UsageError("durability", durability, "is not one", "use memory, disk or replicated(k) with k ≥ 1")
    return 1 + int(found[1])


TO_NODE: Final = RecordCodec[FromClient](
    (Publish, Subscribe, Credit, Unsubscribe, Ask), shared_bytes_max=FRAME_BYTES_FULL
)
TO_CLIENT: Final = RecordCodec[FromNode]((Info, Items, Acks, Failed, Ended, Begun, Answer))
