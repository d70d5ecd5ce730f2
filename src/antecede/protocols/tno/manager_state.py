"""The state of a topic's manager. All of it is replicated, kept, and sent to a new leader (`replica`)."""

import msgspec

from antecede.protocols.tno.packets import Fill, Free, Stamp


class Numbered(msgspec.Struct, frozen=True):
    """An event that is numbered and not known to be published."""

    number: int
    #: The topic whose manager completes the timestamp; and the timestamp, if that is this manager.
    last: str
    stamp: Stamp | None


class Channel(msgspec.Struct):
    """The channel to the manager of another topic: how much was sent, and what is not acknowledged."""

    places: int = 0
    queue: list[Fill | Free] = msgspec.field(default_factory=list)


class ManagerState(msgspec.Struct):
    epoch: int
    order: tuple[str, ...]
    #: The latest epoch heard of.
    wanted: int
    #: By subscriber: version and topics; no topics after it has left.
    subscriptions: dict[int, tuple[int, tuple[str, ...]]]
    #: The last number given.
    count: int = 0
    #: By topic below: the last event filled in here since this topic's last event.
    passed: dict[str, int] = msgspec.field(default_factory=dict)
    #: By publisher: how many of its events were numbered, how many of those are published, and the others.
    asked: dict[int, int] = msgspec.field(default_factory=dict)
    done: dict[int, int] = msgspec.field(default_factory=dict)
    open: dict[int, dict[int, Numbered]] = msgspec.field(default_factory=dict)
    #: Timestamps of other topics completed here: by topic, publisher and sequence number.
    finished: dict[str, dict[int, dict[int, Stamp]]] = msgspec.field(default_factory=dict)
    channels: dict[str, Channel] = msgspec.field(default_factory=dict)
    #: By sender: how much of its channel to this manager has come.
    come: dict[str, int] = msgspec.field(default_factory=dict)
    #: By subscriber: void numbers that it has not acknowledged.
    voids: dict[int, list[int]] = msgspec.field(default_factory=dict)
    #: The topics of the last events seen here, if these count for popularity.
    latest: list[str] = msgspec.field(default_factory=list)
