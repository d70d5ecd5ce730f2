"""What a node keeps across a crash: one record an event, written before anything it promises is sent.

Read back in order they give again the node's past, its column, its numbers and the messages it still answers for. What
others have acknowledged is not kept: they say so again.
"""

from typing import Literal, TypeAlias

from antecede.core import Message, Record
from antecede.core.message import Seq, Source, Topic
from antecede.protocols.locamu.identifiers import Ids, Link, Number
from antecede.protocols.locamu.packets import Columns, Interest


class Started(Record, frozen=True, gc=False, tag="lcm.started"):
    """The node came up, for the `life`-th time."""

    life: Number


class Took(Record, frozen=True, gc=False, tag="lcm.took"):
    """The first copy of a message, as it came, and the numbers this node gave it. At its source the copy is empty."""

    message: Message
    origin: Source
    whole: bool
    path: Ids
    alias: Ids
    past: Ids
    numbers: Ids
    #: It came too late to be of this node's time (`LoCaMu._is_of_our_time`), and so its numbers are late as well.
    late: bool = False


class Learned(Record, frozen=True, gc=False, tag="lcm.learned"):
    """These identifiers denote one message; `known`: one processed here, of which others need not be told."""

    ids: Ids
    known: bool


class Done(Record, frozen=True, gc=False, tag="lcm.done"):
    """What has this identifier is everywhere it must be: forgotten here."""

    link: Link
    number: Number


class Heard(Record, frozen=True, gc=False, tag="lcm.heard"):
    """What a node said of its members last, this one included."""

    interest: Interest


class Member(Record, frozen=True, gc=False, tag="lcm.member"):
    """This node takes a topic from here on; or has asked to; or takes it no more."""

    topic: Topic
    what: Literal["joined", "joining", "left"]


class Counted(Record, frozen=True, gc=False, tag="lcm.counted"):
    """All that came of earlier records but messages still answered for: written when a journal is shortened."""

    life: Number
    past: Ids
    columns: Columns
    published: dict[Topic, Seq]


class Logged(Record, frozen=True, gc=False, tag="lcm.logged"):
    """A message still answered for, beside `Counted`."""

    took: Took
    #: The past it is passed on with.
    past: Ids
    #: What was learned of it since.
    alias: Ids


class Reached(Record, frozen=True, gc=False, tag="lcm.reached"):
    """By source: how far messages were delivered when the records before this one were compacted."""

    counts: dict[Source, Seq]


Kept: TypeAlias = Started | Took | Learned | Done | Heard | Member | Counted | Logged
