"""One client, seen from its node: the session owns the connection, and answers the client's requests.

The session trusts nothing that a client sends. Topics are checked against the grants of its token; numbers and sizes by
the bounds of the records. Feeds (`feed`) send messages to the client, `publishing` takes what it publishes.
"""

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from antecede.core import ProtocolError, UsageError
from antecede.node.feed import Feed
from antecede.node.publishing import Publications
from antecede.wire.frames import FrameConnection
from antecede.wire.requests import (
    TO_CLIENT,
    TO_NODE,
    Answer,
    Ask,
    Credit,
    Ended,
    Failed,
    FromNode,
    Info,
    Publish,
    Record,
    Subscribe,
    Unsubscribe,
)
from antecede.wire.security.tokens import Grants
from antecede.wire.topics import check_filter
from antecede.wire.transport import Reason

if TYPE_CHECKING:
    from antecede.node.node import Node

#: Feeds of one client. Each costs a few hundred bytes and an entry in the tree of filters.
FEEDS_MAX: Final = 1024

_encode = msgspec.msgpack.Encoder().encode
#: An array of nine that begins with the tag of `Items`.
_ITEMS_HEAD: Final = b"\x99\xa1m"


class Session:
    """Owns a client's connection."""

    def __init__(self, node: "Node", connection: FrameConnection, name: str, grant: Grants) -> None:
        self.node = node
        self.hub = node.hub
        self.connection = connection
        self.name = name
        self.grant = grant
        self.feeds: dict[int, Feed] = {}
        self._bodies: list[bytes] = []
        self._due = False
        self._publications = Publications(self)
        others = tuple([member.address for member in node.roster.others() if member.address][:64])
        self.send(Info(node.slot, node.epoch, self.hub.position, node.name, others))

    # -- sending -------------------------------------------------------------------------------------------------------

    @property
    def can_write(self) -> bool:
        return self.connection.can_write

    def send(self, record: FromNode) -> None:
        self._bodies.append(TO_CLIENT.encode(record))
        self.touch()

    def send_items(self, feed: int, dropped: int, piece: bytes) -> None:
        """Send `Items`, from columns that `history` encoded once for all feeds."""
        self._bodies.append(b"".join((_ITEMS_HEAD, _encode(feed), _encode(dropped), piece)))
        self.touch()

    def touch(self) -> None:
        """Write the records that have gathered, at the end of this turn."""
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Write the records that have gathered."""
        self._due = False
        self._bodies += map(TO_CLIENT.encode, self._publications.acknowledgements())
        if self._bodies:
            bodies, self._bodies = self._bodies, []
            data = TO_CLIENT.frames(bodies)
            self.node.counts_edge.bytes_sent += len(data)
            self.connection.write(data)

    # -- the connection's owner ----------------------------------------------------------------------------------------

    def frame(self, connection: FrameConnection, body: memoryview) -> None:
        self.node.counts_edge.bytes_received += len(body) + 4
        for record in TO_NODE.decode(body):
            if isinstance(record, Publish):
                self._publications.take(record)
            else:
                self._handle(record)

    def malformed(self, connection: FrameConnection, error: ProtocolError) -> None:
        self.node.refused(connection, Reason.MALFORMED, f"client {self.name!r}: {error}")

    def writable(self, connection: FrameConnection) -> None:
        for feed in list(self.feeds.values()):
            feed.room()

    def closed(self, connection: FrameConnection) -> None:
        for feed in list(self.feeds.values()):
            feed.close()
        self._publications.close()
        self.node.sessions.discard(self)

    def say_goodbye(self) -> None:
        """The node stops: write acknowledgements and messages that have gathered, then close."""
        self.flush()
        self.connection.close()

    # -- requests ------------------------------------------------------------------------------------------------------

    def _handle(self, record: Record) -> None:
        if isinstance(record, Credit):
            feed = self.feeds.get(record.feed)
            if feed is not None:
                feed.credit = min(feed.credit + record.count, feed.window)
                feed.room()
                self.hub.moved()
        elif isinstance(record, Subscribe):
            self._subscribe(record)
        elif isinstance(record, Unsubscribe):
            feed = self.feeds.get(record.feed)
            if feed is not None:
                feed.close()
        elif isinstance(record, Ask):
            if record.what == "status" and self.grant.may_ask:
                self.send(Answer(record.number, msgspec.json.encode(self.node.status())))
            else:
                self._fail(record.number, "denied", f"may not ask for {record.what!r}")

    def _subscribe(self, record: Subscribe) -> None:
        if record.feed in self.feeds:
            raise ProtocolError(f"feed {record.feed} is open already")
        refusal = self._refusal(record)
        if refusal is not None:
            self.send(Ended(record.feed, *refusal))
            return
        feed = Feed(self, self.hub, record)
        self.feeds[record.feed] = feed
        self.hub.open(feed)

    def _refusal(self, record: Subscribe) -> tuple[str, str] | None:
        """Why this feed cannot be opened: the kind and the text of the answer. None: it can."""
        try:
            for pattern in record.filters:
                check_filter(pattern)
        except UsageError as error:
            return "filter", str(error)[:2000]
        denied = next((pattern for pattern in record.filters if not self.grant.may_subscribe(pattern)), None)
        if denied is not None:
            self.hub.counts.refused["subscribe"] += 1
            return "denied", f"may not subscribe to {denied!r}"
        if len(self.feeds) >= FEEDS_MAX:
            return "limit", f"this client has {FEEDS_MAX} open feeds, the most there may be"
        if record.order == "total" and not self.hub.total:
            return "order", f"node {self.node.slot} gives every reader an order of its own"
        return None

    def _fail(self, number: int, kind: str, text: str) -> None:
        self.send(Failed(number, kind, text[:2000]))
