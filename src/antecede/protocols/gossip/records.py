"""What a broker keeps across a crash, where it is asked to (the live system): one small record an event.

The messages themselves are among them, so that whoever lacks one can still have it from a node that came back.
"""

from typing import Final, TypeAlias

import msgspec

from antecede.core.message import Topic
from antecede.protocols.gossip.packets import Levels, Position, Rumour


class Record(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """Base of what is kept."""


class Published(Record, frozen=True, gc=False, tag="gossip.published"):
    """A message of this node. Its number is never used again."""

    rumour: Rumour


class Delivered(Record, frozen=True, gc=False, tag="gossip.delivered"):
    """A message that has had its turn here."""

    rumour: Rumour


class Began(Record, frozen=True, gc=False, tag="gossip.began"):
    """This node relays a group: what `floors` name was before its time, after what `before` names in other groups.

    `takes`: its application takes it, too.
    """

    group: Topic
    takes: bool
    floors: Levels = ()
    before: Levels = ()


class Ended(Record, frozen=True, gc=False, tag="gossip.ended"):
    """The application takes the group no more."""

    group: Topic


class GaveUp(Record, frozen=True, gc=False, tag="gossip.gave_up"):
    """This node went on without something: whatever it has not delivered up to this Lamport clock is late."""

    clock: Position


class Reached(Record, frozen=True, gc=False, tag="gossip.reached"):
    """In the place of many records: how far this node had come, and what lay at the front of its past."""

    levels: Levels
    frontier: Levels
    clock: Position


Kept: TypeAlias = Published | Delivered | Began | Ended | GaveUp | Reached
KEPT: Final = (Published, Delivered, Began, Ended, GaveUp, Reached)
