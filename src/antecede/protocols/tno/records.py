"""What an ordering module keeps across a crash, beside its managers' states (`replica`).

Read back in order: what its application published and is not out yet; what it takes, and from where on; which events
the service gave it, and what became of each.
"""

from antecede.core import Message, Record
from antecede.protocols.tno.replica import Kept, KeptState


class Asked(Record, frozen=True, gc=False, tag="tno.asked"):
    """The application published it. Its number is never used again."""

    message: Message

    @property
    def own_messages(self) -> tuple[Message, ...]:
        return (self.message,)


class Out(Record, frozen=True, gc=False, tag="tno.out"):
    """The event service has it."""

    topic: str
    seq: int
    number: int


class Wanted(Record, frozen=True, gc=False, tag="tno.wanted"):
    """The application takes a topic, or no more."""

    topic: str
    wanted: bool


class Versioned(Record, frozen=True, gc=False, tag="tno.versioned"):
    """A version of the subscription that managers may have heard of."""

    version: int
    topics: tuple[str, ...]


class Taken(Record, frozen=True, gc=False, tag="tno.taken"):
    """A topic is taken from here on."""

    topic: str
    floors: tuple[tuple[str, int], ...]


class Came(Record, frozen=True, gc=False, tag="tno.came"):
    """The service gave an event, which has to wait."""

    topic: str
    data: bytes


class Told(Record, frozen=True, gc=False, tag="tno.told"):
    """A number of a topic is dealt with: notified in order with this timestamp, or tagged, or void."""

    topic: bytes
    number: int
    in_order: bool
    epoch: int = 0
    above: tuple[tuple[bytes, int], ...] = ()
    void: bool = False


#: By which a process that stands on another tells its own records from the other's.
RECORDS: tuple[type[Record], ...] = (Asked, Out, Wanted, Versioned, Taken, Came, Told, Kept, KeptState)
