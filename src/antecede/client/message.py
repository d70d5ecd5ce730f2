"""Messages, as an application reads them."""

from typing import Protocol

import msgspec

from antecede.wire.cursors import MessageId, Trail
from antecede.wire.envelope import Envelope


class Content(Protocol):
    """What an application published, as it was stored."""

    @property
    def topic(self) -> str: ...
    @property
    def headers(self) -> dict[str, str]: ...
    @property
    def time_us(self) -> int: ...


class ReadMessage(msgspec.Struct, frozen=True, gc=False, eq=False):
    """Base of messages as they were read. Immutable; comparable by `id`."""

    #: Where it was published, and its number among the messages published there.
    source: int
    seq: int
    _content: Content

    @property
    def id(self) -> MessageId:
        return MessageId(self.source, self.seq)

    @property
    def topic(self) -> str:
        return self._content.topic

    @property
    def headers(self) -> dict[str, str]:
        return self._content.headers

    @property
    def time_us(self) -> int:
        """When it was published, by its publisher's clock, or stored, by the clock of its log's server: microseconds
        since 1970. Not for ordering: clocks differ."""
        return self._content.time_us

    @property
    def payload(self) -> bytes:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        body = self.payload if len(self.payload) <= 40 else self.payload[:40] + b"..."
        return f"{type(self).__name__}({self.id}, {self.topic!r}, {body!r})"


class Message(ReadMessage, frozen=True, gc=False, eq=False):
    """A message as it was read. Immutable; comparable by `id`. See `MessageId` for its source."""

    _content: Envelope
    #: Its position at the node it was read from, and the messages before it there.
    _position: int
    _trail: Trail
    _index: int
    _deps: tuple[tuple[int, int], ...] = ()
    _held_us: int = 0
    #: In a cluster with total order: it came too late, so other readers may have read it earlier.
    out_of_order: bool = False

    @property
    def payload(self) -> bytes:
        return self._content.body

    @property
    def held_ms(self) -> float:
        """How long it waited at this client's node for messages it depends on."""
        return self._held_us / 1000

    @property
    def after(self) -> tuple[MessageId, ...]:
        """Its immediate predecessors, as its node stamped them. The previous message of its source is one more."""
        return tuple([MessageId(*entry) for entry in self._deps])

    @property
    def cursor(self) -> str:
        """The cursor right behind it: `subscribe(…, since=cursor)` goes on there, at this node or at another."""
        return self._trail.cursor(self._index, self._position)
