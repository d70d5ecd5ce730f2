"""The kept records of a node: one for each event, written before anything that it promises is sent.

Read in order they restore the node's past, its column, its numbers and its log. What others have acknowledged is not
kept: they report it again.
"""

from typing import Literal, TypeAlias

from antecede.core import Message, Record
from antecede.core.message import Seq, Source, Topic
from antecede.protocols.locamu.identifiers import Ids, Link, Number
from antecede.protocols.locamu.packets import Columns, Interest


class Started(Record, frozen=True, gc=False, tag="lcm.started"):
    """The node started, in incarnation `life`."""

    life: Number


class Took(Record, frozen=True, gc=False, tag="lcm.took"):
    """The first copy of a message, as it came, and the numbers this node gave it. At its source it has no names."""

    message: Message
    origin: Source
    whole: bool
    path: Ids
    alias: Ids
    past: Ids
    numbers: Ids
    #: It predates a member's join (`LoCaMu._is_of_our_time`), so its numbers are late as well.
    late: bool = False


class Learned(Record, frozen=True, gc=False, tag="lcm.learned"):
    """These identifiers denote one message; `known`: one processed here, of which others need not be told."""

    ids: Ids
    known: bool


class Done(Record, frozen=True, gc=False, tag="lcm.done"):
    """The message with this identifier is at all nodes that need it, and was dropped here."""

    link: Link
    number: Number


class Heard(Record, frozen=True, gc=False, tag="lcm.heard"):
    """The last interest of a node, this one included."""

    interest: Interest


class Member(Record, frozen=True, gc=False, tag="lcm.member"):
    """This node has joined a topic, has asked to, or has left it."""

    topic: Topic
    what: Literal["joined", "joining", "left"]


class Counted(Record, frozen=True, gc=False, tag="lcm.counted"):
    """Replaces earlier records except for messages still in the log. Written by compaction."""

    life: Number
    past: Ids
    columns: Columns
    published: dict[Topic, Seq]


class Logged(Record, frozen=True, gc=False, tag="lcm.logged"):
    """A message still in the log, beside `Counted`."""

    took: Took
    #: The past it is forwarded with.
    past: Ids
    #: Names learned since.
    alias: Ids


class Reached(Record, frozen=True, gc=False, tag="lcm.reached"):
    """By source: how far messages were delivered when the records before this one were compacted."""

    counts: dict[Source, Seq]


Kept: TypeAlias = Started | Took | Learned | Done | Heard | Member | Counted | Logged
