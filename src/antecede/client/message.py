"""Messages, as an application reads them; their ids; and cursors, from which a feed goes on.

A message is numbered within its *source*: what one node publishes in one partition of the topics. The source of a
message is the slot of its node, plus 1024 for each partition before its own (`core.partitions`). A cluster has one
partition unless it was founded with more.

A cursor names the node a message came from, its position there, and by source the last message up to it:

    2:1045@0.310,1.7,2.728

At the same node a feed goes on by the position. At any other it goes on by the messages: each node has positions of
its own, but the messages of a source have one order everywhere. A node without a journal forgets its positions when it
stops, so its cursors name its life, too (`2.81985529216486895:1045@…`).
"""

import re
from typing import Final, NamedTuple, Protocol

import msgspec

from antecede.core import UsageError
from antecede.core.limits import CUBE_DIMENSION_MAX
from antecede.core.partitions import message_name, split_stream, stream_of
from antecede.wire.envelope import Envelope

#: A cursor names each source once, in 26 characters at most.
CURSOR_CHARACTERS_MAX: Final = 26 * (1 << CUBE_DIMENSION_MAX)


class MessageId(NamedTuple):
    """The id of a message: its source, and its number among the messages of that. As text: `3.17`, or `p5/3.17` where
    its partition is not the first."""

    source: int
    seq: int

    @property
    def slot(self) -> int:
        """The slot of the node that published it."""
        return split_stream(self.source)[1]

    @property
    def partition(self) -> int:
        """The partition of its topic."""
        return split_stream(self.source)[0]

    def __str__(self) -> str:
        return message_name(self.source, self.seq)

    @classmethod
    def parse(cls, text: str) -> "MessageId":
        found = re.fullmatch(r"(?:p(\d{1,2})/)?(\d{1,5})\.([1-9]\d{0,18})", text)
        if found is None:
            raise UsageError("message id", text, "is not source.seq", "write for example 3.17")
        return cls(stream_of(int(found[1] or 0), int(found[2])), int(found[3]))


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
    _trail: "Trail"
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


class Trail:
    """The messages before some that came together: enough to write the cursor of each when it is asked for."""

    __slots__ = ("_epoch", "_ids", "_node", "_seen", "_tagged")

    def __init__(
        self,
        node: int,
        epoch: int,
        seen: dict[int, int] | None,
        ids: tuple[tuple[int, int, int], ...],
        tagged: frozenset[int],
    ) -> None:
        """`seen`: by source, the last message before these; None: that is not known. `ids`: (source, first, how many)
        of these. `tagged`: the indexes of those that came out of order."""
        self._node = node
        self._epoch = epoch
        self._seen = None if seen is None else seen.copy()
        self._ids = ids
        self._tagged = tagged

    def cursor(self, index: int, position: int) -> str:
        """The cursor of the message at `index`, whose position is `position`."""
        where = f"{self._node}.{self._epoch}:{position}" if self._epoch else f"{self._node}:{position}"
        if self._seen is None:
            return where
        seen = self._seen.copy()
        at = 0
        for source, first, count in self._ids:
            for one in range(at, min(at + count, index + 1)):
                if one not in self._tagged:
                    seen[source] = first + one - at
            at += count
        return f"{where}@{','.join(f'{source}.{seq}' for source, seq in sorted(seen.items()))}"


class Cursor(NamedTuple):
    """A cursor, taken apart."""

    position: int
    #: −1: any node. "0" is everything that the node which is asked still has.
    node: int = -1
    #: The life of a node without a journal; 0 for one with a journal. None: the cursor does not say.
    epoch: int | None = None
    #: By source: the last message before it. None: the cursor does not say, and holds at its own node only.
    seen: dict[int, int] | None = None


_CURSOR: Final = re.compile(
    r"(?:(?P<node>\d{1,5})(?:\.(?P<epoch>\d{1,19}))?:)?(?P<position>\d{1,19})"
    r"(?:@(?P<seen>\d{1,5}\.\d{1,19}(?:,\d{1,5}\.\d{1,19})*)?)?"
)


def parse_cursor(text: str) -> Cursor:
    """Raises `UsageError` for a text that is no cursor."""
    found = _CURSOR.fullmatch(text) if isinstance(text, str) and len(text) <= CURSOR_CHARACTERS_MAX else None
    if found is None:
        shown = text[:100] if isinstance(text, str) else text
        raise UsageError("cursor", shown, "is not one", 'use message.cursor, or "0" for everything the node still has')
    node, epoch, seen = found["node"], found["epoch"], found["seen"]
    pairs = [pair.split(".") for pair in (seen or "").split(",") if pair]
    return Cursor(
        position=int(found["position"]),
        node=-1 if node is None else int(node),
        epoch=int(epoch) if epoch else None,
        seen={int(source): int(seq) for source, seq in pairs} if "@" in text else None,
    )
