"""What VCube-PS sends. Five sorts of waves and their acknowledgements, as thesis Algorithm 4 has them, plus ACT.

PUB goes down the publisher's tree of members; SUB and ACT go to every node; UNS to the members. Each is acknowledged
from the leaves up: a node answers when all it passed the packet on to have answered.
"""

from typing import Annotated, TypeAlias

from msgspec import Meta

from antecede.core import Message, Packet
from antecede.core.limits import CUBE_DIMENSION_MAX
from antecede.core.message import Seq, Source, Topic

#: How often a node has come and gone.
Register: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
#: One entry a node.
Registers: TypeAlias = Annotated[tuple[tuple[Source, Register], ...], Meta(max_length=1 << CUBE_DIMENSION_MAX)]
Counts: TypeAlias = Annotated[tuple[tuple[Source, Count], ...], Meta(max_length=1 << CUBE_DIMENSION_MAX)]


class Pub(Packet, frozen=True, gc=False, tag="vps.pub"):
    """A message on its way down its publisher's tree. A bundle when causally related ones share the edge."""

    messages: Annotated[tuple[Message, ...], Meta(min_length=1)]  # a field, in the place of the base's empty property


class Ack(Packet, frozen=True, gc=False, tag="vps.ack"):
    """A message has reached everybody below the sender."""

    topic: Topic
    source: Source
    seq: Seq
    #: The sender's register, if it does not take the topic any more and only relayed; else 0.
    left: Register = 0


class Sub(Packet, frozen=True, gc=False, tag="vps.sub"):
    """`node` joins: pass its messages to it from now on."""

    topic: Topic
    node: Source
    register: Register


class SubAck(Packet, frozen=True, gc=False, tag="vps.suback"):
    """Everybody below the sender knows of the joiner. `view`: the registers of those there that ever took the topic."""

    topic: Topic
    node: Source
    register: Register
    view: Registers = ()


class Act(Packet, frozen=True, gc=False, tag="vps.act"):
    """Every node knows `node` by now: say how far the topic has come where you are."""

    topic: Topic
    node: Source
    register: Register


class ActAck(Packet, frozen=True, gc=False, tag="vps.actack"):
    """By source: up to where its messages belong to the time before the joiner, seen from below the sender."""

    topic: Topic
    node: Source
    register: Register
    counts: Counts = ()


class Uns(Packet, frozen=True, gc=False, tag="vps.uns"):
    """`node` has left."""

    topic: Topic
    node: Source
    register: Register


class UnsAck(Packet, frozen=True, gc=False, tag="vps.unsack"):
    """The members below the sender know that `node` has left."""

    topic: Topic
    node: Source
    register: Register


#: A wave that changes the membership, and what comes back up.
Wave: TypeAlias = Sub | Act | Uns
WaveAck: TypeAlias = SubAck | ActAck | UnsAck
