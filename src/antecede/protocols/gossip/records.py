"""The kept records of a broker (in the live system): one small record for each event.

The messages are among them, so that a node that came back can still give them to a node that lacks one.
"""

from typing import Final, TypeAlias

from antecede.core import Message, Record
from antecede.core.message import Topic
from antecede.protocols.gossip.packets import Levels, Position, Rumour


class Published(Record, frozen=True, gc=False, tag="gossip.published"):
    """A message that this node published. Its sequence number is never used again."""

    rumour: Rumour

    @property
    def own_messages(self) -> tuple[Message, ...]:
        return (self.rumour.message,)


class Delivered(Record, frozen=True, gc=False, tag="gossip.delivered"):
    """A message that was delivered here, in order."""

    rumour: Rumour


class Began(Record, frozen=True, gc=False, tag="gossip.began"):
    """This node relays a group from `floors` on. `before`: what precedes that point in other groups.

    `takes`: the application takes the group, too.
    """

    group: Topic
    takes: bool
    floors: Levels = ()
    before: Levels = ()


class Ended(Record, frozen=True, gc=False, tag="gossip.ended"):
    """The application no longer takes the group."""

    group: Topic


class GaveUp(Record, frozen=True, gc=False, tag="gossip.gave_up"):
    """This node gave up a message: undelivered messages up to this Lamport clock are late."""

    clock: Position


class Reached(Record, frozen=True, gc=False, tag="gossip.reached"):
    """Replaces many records: how far this node had come, and its frontier."""

    levels: Levels
    frontier: Levels
    clock: Position


Kept: TypeAlias = Published | Delivered | Began | Ended | GaveUp | Reached
KEPT: Final = (Published, Delivered, Began, Ended, GaveUp, Reached)
