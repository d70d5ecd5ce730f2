"""The packets of VCube-PS.

PUB goes down the publisher's tree of members. The `faithful` mode adds waves acknowledged from the leaves up, as thesis
Algorithm 4 has them, plus ACT: SUB and ACT go to every node, UNS to the members. The `pipelined` mode acknowledges by
position (`Have`), asks for what is missing (`Pull`) and compares views (`Views`), each from node to node.
"""

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta

from antecede.core import Message, Packet
from antecede.core.epochs import EPOCHS_MAX
from antecede.core.limits import CUBE_DIMENSION_MAX
from antecede.core.message import Seq, Source, Topic

#: How often a node has come and gone.
Register: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Epoch: TypeAlias = Annotated[int, Meta(ge=1, lt=EPOCHS_MAX)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
#: One entry a node.
Registers: TypeAlias = Annotated[tuple[tuple[Source, Register], ...], Meta(max_length=1 << CUBE_DIMENSION_MAX)]
Counts: TypeAlias = Annotated[tuple[tuple[Source, Count], ...], Meta(max_length=1 << CUBE_DIMENSION_MAX)]

#: How a PUB is passed on.
DIRECT: Final = 0
ONCE: Final = 1
AGAIN: Final = 2


class _OfStream(Packet, frozen=True, gc=False):
    """Base of packets about the messages of one source on one topic."""

    topic: Topic
    source: Source


class _OfMember(Packet, frozen=True, gc=False):
    """Base of packets about the coming or going of `node`."""

    topic: Topic
    node: Source
    register: Register


class Pub(Packet, frozen=True, gc=False, tag="vps.pub"):
    """A message on its way down its publisher's tree; several of one publisher where they are sent again."""

    messages: Annotated[tuple[Message, ...], Meta(min_length=1)]  # a field, in the place of the base's empty property
    #: DIRECT: never forward. ONCE: forward if new here. AGAIN: always forward (sent by the version before).
    spread: Literal[0, 1, 2] = ONCE
    #: Every member has delivered the source's messages up to here.
    stable: Count = 0


class Bundle(Packet, frozen=True, gc=False, tag="vps.bundle"):
    """Causally related messages of several publishers, and topics, on an edge that their trees share (`edges`)."""

    #: More do not fit: the least message takes 8 of a packet's 1500 bytes.
    messages: Annotated[tuple[Message, ...], Meta(min_length=1, max_length=256)]
    #: For each of them: every member has delivered its source's messages up to here.
    stable: Annotated[tuple[Count, ...], Meta(min_length=1, max_length=256)]


class Ack(_OfStream, frozen=True, gc=False, tag="vps.ack"):
    """A message has reached every node below the sender."""

    seq: Seq
    #: The sender's register, if it does not take the topic any more and only relayed; else 0.
    left: Register = 0


class Sub(_OfMember, frozen=True, gc=False, tag="vps.sub"):
    """`node` joins: pass the topic's messages on to it from now on."""

    #: Down the tree (0); or the n-th time asked of one node, which answers for itself.
    asked: Count = 0


class SubAck(_OfMember, frozen=True, gc=False, tag="vps.suback"):
    """Every node below the sender knows of the joiner. `view`: the registers of those that ever took the topic."""

    view: Registers = ()
    #: Pipelined: by source, how far its messages were delivered below the sender, and up to where that is history;
    #: and the nodes there that were not asked.
    counts: Counts = ()
    stable: Counts = ()
    skipped: Annotated[tuple[Source, ...], Meta(max_length=1 << CUBE_DIMENSION_MAX)] = ()
    #: As in the question.
    asked: Count = 0
    #: Does a node below the sender take the topic?
    taken: bool = False
    #: (source, epoch, last) each: the last message of the source before that epoch of its number began (`closing`).
    seams: Annotated[tuple[tuple[Source, Epoch, Count], ...], Meta(max_length=1 << CUBE_DIMENSION_MAX)] = ()


class Act(_OfMember, frozen=True, gc=False, tag="vps.act"):
    """Every node knows `node` by now: say how far the topic has come where you are."""


class ActAck(_OfMember, frozen=True, gc=False, tag="vps.actack"):
    """By source: up to where its messages belong to the time before the joiner, seen from below the sender."""

    counts: Counts = ()


class Uns(_OfMember, frozen=True, gc=False, tag="vps.uns"):
    """`node` has left."""


class UnsAck(_OfMember, frozen=True, gc=False, tag="vps.unsack"):
    """The members below the sender know that `node` has left."""


#: A wave that changes the membership, and what comes back up.
Wave: TypeAlias = Sub | Act | Uns
WaveAck: TypeAlias = SubAck | ActAck | UnsAck


# -- pipelined --------------------------------------------------------------------------------------------------------

#: Positions named one by one in a packet, at most; what is beyond is asked for in the next.
NUMBERS_MAX: Final = 256

Numbers: TypeAlias = Annotated[tuple[Seq, ...], Meta(max_length=NUMBERS_MAX)]
#: Which registers a node knows, folded into one number: equal views have equal digests.
Digest: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class Have(_OfStream, frozen=True, gc=False, tag="vps.have"):
    """How far the sender is with a source: received without a hole, held beyond, delivered."""

    got: Count
    done: Count
    digest: Digest
    beyond: Numbers = ()
    #: An answer to a `Probe`: its sender may send at once what is missing.
    asked: bool = False
    #: What is at or below this counts as delivered, but predates the sender's session: its log may lack it.
    floor: Count = 0


class Probe(_OfStream, frozen=True, gc=False, tag="vps.probe"):
    """How far are you with this source?"""


class Pull(_OfStream, frozen=True, gc=False, tag="vps.pull"):
    """Send me these, if you have them."""

    numbers: Numbers


class Ahead(_OfStream, frozen=True, gc=False, tag="vps.ahead"):
    """The sender has the source's messages up to `got`, far beyond where you are: fetch them."""

    got: Seq


class Fetch(_OfStream, frozen=True, gc=False, tag="vps.fetch"):
    """Send me the source's messages `first` to `last`, from the first on, as many as fit an answer."""

    first: Seq
    last: Seq


class Fetched(_OfStream, frozen=True, gc=False, tag="vps.fetched"):
    """The end of the answer to a `Fetch`: everything from `first` to `upto` was sent. `upto` below `first`: nothing."""

    first: Seq
    upto: Count
    #: How far the sender has received the source.
    got: Count
    #: The sender delivered the messages from `first` to here and has them no more; 0: there are none of that kind.
    gone: Count = 0


class Gone(_OfStream, frozen=True, gc=False, tag="vps.gone"):
    """What was asked for is not kept any more: everything up to `upto` was delivered by all members known here."""

    upto: Seq


class Settled(_OfStream, frozen=True, gc=False, tag="vps.settled"):
    """Every member has delivered the source's messages up to `stable`. Goes down the sender's tree."""

    stable: Seq


class Ended(_OfStream, frozen=True, gc=False, tag="vps.ended"):
    """The source was forgotten: its messages end with `last`, where `epoch` of its number begins (`closing`)."""

    epoch: Epoch
    last: Count
    #: Has every member delivered them?
    closed: bool = False
    #: Of the sender's view.
    digest: Digest = 0


#: Streams named in one packet or record, at most.
LEVELS_MAX: Final = 1024

#: By stream, as topic and source: a sequence number.
StreamLevels: TypeAlias = Annotated[tuple[tuple[Topic, Source, Seq], ...], Meta(min_length=1, max_length=LEVELS_MAX)]


class Carried(Packet, frozen=True, gc=False, tag="vps.carried"):
    """The sender carries these entries of a topic that it does not take: which of them are stable?"""

    topic: Topic
    entries: Counts


class Levels(Packet, frozen=True, gc=False, tag="vps.levels"):
    """The answer: by source, up to where every member has delivered its messages."""

    topic: Topic
    stable: Counts


class Views(Packet, frozen=True, gc=False, tag="vps.views"):
    """The registers the sender knows to have moved, and the digest they give."""

    topic: Topic
    digest: Digest
    entries: Registers = ()
    #: Answer in any case, not only if you know more.
    asks: bool = False


_OF_WAVES: Final = (Pub, Bundle, Ack, Sub, SubAck, Act, ActAck, Uns, UnsAck)
#: All of them: what a codec reads off a wire.
PACKETS: Final = (*_OF_WAVES, Have, Probe, Pull, Ahead, Fetch, Fetched, Gone, Settled, Ended, Carried, Levels, Views)
