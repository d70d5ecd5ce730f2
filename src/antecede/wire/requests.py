"""What a thin client and its node say to each other, after the handshake.

A client publishes and asks for feeds; the node answers and sends what the feeds take. Everything is numbered by the
client, so answers may come in any order.

**Order.** A session with one node needs no clocks: the node gives a client messages in causal order, and publishes what
comes from it after everything it has given to it. What travels is what a session cannot know: with a publication the
*immediate predecessors* among what the client has read (`Publish.after`: mostly none or one; they matter when the
client has come from another node, which then waits until it has delivered them); with a message the immediate
predecessors its publisher's node stamped it with (`Item.deps`), for those who order again further on.

**Flow.** A node sends no more on a feed than the client gave credit for, so a reader that stops reading costs neither
side memory (`live.node.feed`).

The same records in every transport: tcp, and `memory://` within a process.
"""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from antecede.core.limits import DEPENDENCIES_MAX
from antecede.core.message import Dependency, Seq, Source
from antecede.wire.codec import RecordCodec

#: The role a client names in its hello, and what it speaks. The number goes up with every change below other than
#: optional fields appended to a record.
ROLE: Final = "client"
SPEAKS: Final = "edge/3"

#: Filters of one feed; messages a client may be behind the node, by credit.
FILTERS_MAX: Final = 64
CREDIT_MAX: Final = 1 << 20

Order: TypeAlias = Literal["causal", "total", "fifo", "none"]
Policy: TypeAlias = Literal["block", "drop_oldest", "disconnect"]

_Number: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
#: Of what is in the same record, which its frame bounds.
_Count: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 20)]
_Text: TypeAlias = Annotated[str, Meta(max_length=2048)]
#: By source: the last message read.
Seen: TypeAlias = Annotated[tuple[tuple[Source, _Number], ...], Meta(max_length=1 << 16)]


class Record(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Base of all."""


# -- from the client ---------------------------------------------------------------------------------------------------


class Publish(Record, frozen=True, gc=False, tag="p"):
    """Publish envelopes, numbered from `number` on; the first follows `after`, each of the others the one before it.

    `level`: 0 memory, 1 disk, 1 + k on k further nodes, −1 as safe as the node is by itself.
    """

    number: _Number
    payloads: Annotated[tuple[bytes, ...], Meta(min_length=1)]
    after: Annotated[tuple[Dependency, ...], Meta(max_length=DEPENDENCIES_MAX)] = ()
    level: Annotated[int, Meta(ge=-1, le=1 << 16)] = -1


class Subscribe(Record, frozen=True, gc=False, tag="s"):
    """Open a feed. `since`: −1 from now; else what comes after that position, of this node; `seen` where it differs."""

    feed: _Number
    filters: Annotated[tuple[_Text, ...], Meta(min_length=1, max_length=FILTERS_MAX)]
    credit: Annotated[int, Meta(ge=1, le=CREDIT_MAX)]
    since: Annotated[int, Meta(ge=-1, le=(1 << 63) - 1)] = -1
    order: Order = "causal"
    policy: Policy = "block"
    #: Resuming from another node: what was read, by source; `since` is 0 then.
    seen: Seen = ()
    #: Messages that may be unread at the client altogether; 0: as many as `credit`. Resuming, some are there already.
    window: Annotated[int, Meta(ge=0, le=CREDIT_MAX)] = 0


class Credit(Record, frozen=True, gc=False, tag="c"):
    """The reader has taken so many messages of a feed: as many more may come."""

    feed: _Number
    count: Annotated[int, Meta(ge=1, le=CREDIT_MAX)]


class Unsubscribe(Record, frozen=True, gc=False, tag="u"):
    feed: _Number


class Ask(Record, frozen=True, gc=False, tag="a"):
    """A question about the node itself: `status`."""

    number: _Number
    what: _Text


# -- from the node -----------------------------------------------------------------------------------------------------


class Info(Record, frozen=True, gc=False, tag="i"):
    """The first record of a session: whom the client has reached."""

    node: Source
    #: Tells a node that has forgotten its past from one that has not: changes with each life of a node without journal.
    epoch: _Number
    position: _Number
    name: _Text = ""
    #: Where other nodes of the cluster can be dialled: host:port each.
    others: Annotated[tuple[_Text, ...], Meta(max_length=64)] = ()


class Items(Record, frozen=True, gc=False, tag="m"):
    """Messages for a feed, in its order, as columns: what repeats or counts on is said once.

    `places`: (position, how many). A position is a message's cursor; 0 for messages that came ahead of their turn, on a
    feed that asked for that; others count on. `names`: (source, seq, how many), where numbers count on. By index, of
    the few that have any: `deps`, and `held_us`. `dropped`: how many were left out before the first, by the policy.
    `out_of_order`: by index, those that could not be given in the one order of the cluster.
    """

    feed: _Number
    dropped: _Number
    payloads: tuple[bytes, ...]
    places: tuple[tuple[_Number, _Count], ...]
    names: tuple[tuple[Source, Seq, _Count], ...]
    deps: dict[_Count, Annotated[tuple[Dependency, ...], Meta(max_length=DEPENDENCIES_MAX)]] = {}
    held_us: dict[_Count, _Number] = {}
    out_of_order: tuple[_Count, ...] = ()


class Acks(Record, frozen=True, gc=False, tag="k"):
    """Publications that are as safe as was asked: their numbers, the numbers the node gave them, and how many."""

    source: Source
    runs: tuple[tuple[_Number, Seq, _Count], ...]


class Failed(Record, frozen=True, gc=False, tag="f"):
    """A publication or question that came to nothing. `kind` names the error; `uncertain`: it may still arrive."""

    number: _Number
    kind: _Text
    text: _Text
    uncertain: bool = False


class Ended(Record, frozen=True, gc=False, tag="e"):
    """A feed is over, and why. With `gap`: the position asked for and the first there is."""

    feed: _Number
    kind: _Text
    text: _Text
    after: _Number = 0
    first: _Number = 0


class Begun(Record, frozen=True, gc=False, tag="b"):
    """A feed is open: it follows position `position`. `counts`: by source what that includes, if it is the present."""

    feed: _Number
    position: _Number
    counts: Seen = ()


class Answer(Record, frozen=True, gc=False, tag="r"):
    """To a question: JSON."""

    number: _Number
    body: bytes


FromClient: TypeAlias = Publish | Subscribe | Credit | Unsubscribe | Ask
FromNode: TypeAlias = Info | Items | Acks | Failed | Ended | Begun | Answer

TO_NODE: Final = RecordCodec[FromClient]((Publish, Subscribe, Credit, Unsubscribe, Ask))
TO_CLIENT: Final = RecordCodec[FromNode]((Info, Items, Acks, Failed, Ended, Begun, Answer))
