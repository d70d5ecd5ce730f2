"""What an application gets from a feed."""

import re
from typing import NamedTuple

import msgspec

from antecede.core import UsageError
from antecede.wire.envelope import Envelope


class MessageId(NamedTuple):
    """The name of a message within its causal domain: the node that published it, and that node's count."""

    source: int
    seq: int

    def __str__(self) -> str:
        return f"{self.source}.{self.seq}"

    @classmethod
    def parse(cls, text: str) -> "MessageId":
        found = re.fullmatch(r"(\d{1,5})\.([1-9]\d{0,18})", text)
        if found is None:
            raise UsageError("message id", text, "is not source.seq", "write for example 3.17")
        return cls(int(found[1]), int(found[2]))


class Message(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A message as it was read. Immutable; comparable by `id`."""

    #: The node it was published at, and that node's count.
    source: int
    seq: int
    #: Which node it came from, and where it stands there.
    _node: int
    _position: int
    _envelope: Envelope
    _deps: tuple[tuple[int, int], ...] = ()
    _held_us: int = 0
    #: In a cluster with one order: did it come too late for its place in it? Others may have read it elsewhere.
    out_of_order: bool = False

    @property
    def id(self) -> MessageId:
        return MessageId(self.source, self.seq)

    @property
    def topic(self) -> str:
        return self._envelope.topic

    @property
    def payload(self) -> bytes:
        return self._envelope.body

    @property
    def headers(self) -> dict[str, str]:
        return self._envelope.headers

    @property
    def time_us(self) -> int:
        """When it was published, by its publisher's clock: microseconds since 1970. For people, never for order."""
        return self._envelope.time_us

    @property
    def held_ms(self) -> float:
        """How long it waited at this client's node for what it depends on."""
        return self._held_us / 1000

    @property
    def after(self) -> tuple[MessageId, ...]:
        """Its immediate predecessors, as its node stamped them; its source's previous message is always one more."""
        return tuple([MessageId(*entry) for entry in self._deps])

    @property
    def cursor(self) -> str:
        """Where it stands at the node it came from: `subscribe(…, since=cursor)` there goes on right behind it."""
        return f"{self._node}:{self._position}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        body = self.payload if len(self.payload) <= 40 else self.payload[:40] + b"..."
        return f"Message({self.id}, {self.topic!r}, {body!r})"


def parse_cursor(cursor: str) -> tuple[int, int]:
    """Node and position. A node of −1 stands for whichever node is asked: "0" is everything it still has."""
    found = re.fullmatch(r"(?:(\d{1,5}):)?(\d{1,19})", cursor) if isinstance(cursor, str) else None
    if found is None:
        raise UsageError("cursor", cursor, "is not one", 'use message.cursor, or "0" for everything the node still has')
    return (-1 if found[1] is None else int(found[1])), int(found[2])
