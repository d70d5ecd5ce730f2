"""What the manager of a topic knows: all of it is replicated, kept, and sent to who takes over (`replica`)."""

import msgspec

from antecede.protocols.tno.packets import Fill, Free, Stamp


class Numbered(msgspec.Struct, frozen=True):
    """An event that is numbered and not known to be published."""

    number: int
    #: Whose manager completes its timestamp, and the timestamp if that is this one.
    last: str
    stamp: Stamp | None


class Channel(msgspec.Struct):
    """To the manager of one other topic: how much was sent, and what of it has not been acknowledged."""

    places: int = 0
    queue: list[Fill | Free] = msgspec.field(default_factory=list)


class ManagerState(msgspec.Struct):
    epoch: int
    order: tuple[str, ...]
    #: The latest epoch heard of.
    wanted: int
    #: By subscriber: version and topics; none when it has left.
    subscriptions: dict[int, tuple[int, tuple[str, ...]]]
    #: The last number given.
    count: int = 0
    #: By topic below: the last event filled in here since this topic's last event.
    passed: dict[str, int] = msgspec.field(default_factory=dict)
    #: By publisher: how many of its events were numbered, how many of those are published, and the others.
    asked: dict[int, int] = msgspec.field(default_factory=dict)
    done: dict[int, int] = msgspec.field(default_factory=dict)
    open: dict[int, dict[int, Numbered]] = msgspec.field(default_factory=dict)
    #: Timestamps of other topics completed here: by topic, publisher, and its number.
    finished: dict[str, dict[int, dict[int, Stamp]]] = msgspec.field(default_factory=dict)
    channels: dict[str, Channel] = msgspec.field(default_factory=dict)
    #: By sender: how much of its channel to here has come.
    come: dict[str, int] = msgspec.field(default_factory=dict)
    #: By subscriber: numbers declared void it has not acknowledged.
    voids: dict[int, list[int]] = msgspec.field(default_factory=dict)
    #: The topics of the last events seen here, if popularity is counted by them.
    latest: list[str] = msgspec.field(default_factory=list)
