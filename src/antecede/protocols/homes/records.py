"""The records by which nodes ask each other for the past of a partition, and the steps of procedures that ask.

Answers carry the question's number.
"""

from collections.abc import Generator, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from antecede.core.limits import SLOTS_MAX
from antecede.core.message import Message, Seq, Source, Topic

#: Payload bytes of an answer, about. One message may be larger.
PAGE_BYTES: Final = 256 * 1024

_Number: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class Record(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Base of all."""

    number: _Number


class ReadStream(Record, frozen=True, gc=False, tag="read"):
    """Ask for the messages `first` to `last` of a source in the partition called `name`."""

    name: Topic
    source: Source
    first: Seq
    last: Seq
    #: Payload bytes of the answer, about; at least one message.
    bytes_max: Annotated[int, Meta(ge=1, le=PAGE_BYTES)] = PAGE_BYTES


class StreamPage(Record, frozen=True, gc=False, tag="page"):
    """Messages by sequence number. The node lacks those up to `reached` that are not among them.

    It has not delivered those behind `delivered` yet.
    """

    messages: tuple[Message, ...]
    reached: _Number
    delivered: _Number


class AskHome(Record, frozen=True, gc=False, tag="home"):
    """Ask a home whether it has everything of the partition called `name`.

    `leaving`: the slot of the caller if it is about to leave the cluster, else −1.
    """

    name: Topic
    leaving: Annotated[int, Meta(ge=-1, lt=SLOTS_MAX)] = -1


class HomeState(Record, frozen=True, gc=False, tag="state"):
    """Does the node take the partition and have its past? And by source: how far it has delivered."""

    whole: bool
    reached: Annotated[tuple[tuple[Source, _Number], ...], Meta(max_length=SLOTS_MAX)] = ()
    #: It is about to leave the cluster.
    leaves: bool = False


Question: TypeAlias = ReadStream | AskHome
Answer: TypeAlias = StreamPage | HomeState


class Ask(NamedTuple):
    """Ask the node with this slot. Send in its answer; None: it did not answer."""

    slot: int
    question: Question


class ReadHere(NamedTuple):
    """Read what this node itself has of these messages. Send in some of them by sequence number, the first at least."""

    name: str
    source: int
    first: int
    last: int


class Store(NamedTuple):
    """Store messages that follow each other. Send in nothing, when they are on disk."""

    messages: Sequence[Message]


Step: TypeAlias = Ask | ReadHere | Store
T = TypeVar("T")
Steps: TypeAlias = Generator[Step, Any, T]
