"""The kept records of an ordering module, beside its managers' states (`replica`).

Read in order they restore what the application published and is not with the service yet, what the node takes and from
which number on, and which events the service gave it and what became of each.
"""

from antecede.core import Message, Record
from antecede.protocols.tno.replica import Kept, KeptState


class Asked(Record, frozen=True, gc=False, tag="tno.asked"):
    """The application published a message. Its sequence number is never used again."""

    message: Message

    @property
    def own_messages(self) -> tuple[Message, ...]:
        return (self.message,)


class Out(Record, frozen=True, gc=False, tag="tno.out"):
    """The event service has the event."""

    topic: str
    seq: int
    number: int


class Wanted(Record, frozen=True, gc=False, tag="tno.wanted"):
    """The application takes a topic, or no longer does."""

    topic: str
    wanted: bool


class Versioned(Record, frozen=True, gc=False, tag="tno.versioned"):
    """A version of the subscription that managers may have heard of."""

    version: int
    topics: tuple[str, ...]


class Taken(Record, frozen=True, gc=False, tag="tno.taken"):
    """A topic is taken from these numbers on."""

    topic: str
    floors: tuple[tuple[str, int], ...]


class Came(Record, frozen=True, gc=False, tag="tno.came"):
    """The service gave an event that must wait."""

    topic: str
    data: bytes


class Told(Record, frozen=True, gc=False, tag="tno.told"):
    """A number of a topic is settled: notified in order with this timestamp, or tagged, or void."""

    topic: bytes
    number: int
    in_order: bool
    epoch: int = 0
    above: tuple[tuple[bytes, int], ...] = ()
    void: bool = False


#: The types of the module's records, by which a process above another protocol tells them apart.
RECORDS: tuple[type[Record], ...] = (Asked, Out, Wanted, Versioned, Taken, Came, Told, Kept, KeptState)
