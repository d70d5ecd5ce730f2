"""One client, seen from its node: the session owns the connection, and answers the client's requests.

The session trusts nothing that a client sends. Topics are checked against the grants of its token before anything is
kept; numbers and sizes by the bounds of the records and of what a client may hold (`shares`). Feeds (`feed`) send
messages to the client, `publishing` takes what it publishes.

Two things stop the session from reading its connection. A client that does not read its answers is read again when it
has. A client that sent more records than fit a turn is read again when those were handled, in steps (`turns`).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from antecede.core import ProtocolError, UsageError
from antecede.core.limits import FEEDS_BYTES_MAX, STEP_COST_MAX, WINDOW_BYTES_MAX
from antecede.node.feed import Feed
from antecede.node.feed_opening import open_feed
from antecede.node.publishing import Publications
from antecede.node.shares import Share
from antecede.wire.frames import WRITE_BYTES_HIGH, FrameConnection
from antecede.wire.once import OncePerTurn
from antecede.wire.requests import (
    TO_CLIENT,
    TO_NODE,
    Answer,
    Ask,
    Credit,
    Ended,
    Failed,
    FromClient,
    FromNode,
    Info,
    Publish,
    Subscribe,
    Unsubscribe,
    items_body,
)
from antecede.wire.security.tokens import ANYBODY, Grants
from antecede.wire.transport import Reason

if TYPE_CHECKING:
    from antecede.node.node import Node

#: What records cost beside a small one (`turns`): opening a feed, one that begins in the past, and a question.
_SUBSCRIBE_COST: Final = 8
_REPLAY_COST: Final = 32
_ASK_COST: Final = 16
#: Bytes of a frame whose decoding costs as much as a small record.
_BODY_BYTES_PER_COST: Final = 2048


class Session:
    """Owns a client's connection."""

    def __init__(self, node: "Node", connection: FrameConnection, name: str, grant: Grants) -> None:
        self.node = node
        self.hub = node.hub
        self.connection = connection
        self.name = name
        self.grant = grant
        self.feeds: dict[int, Feed] = {}
        #: What its feeds cost, and the messages that wait in them.
        self.feeds_share = Share(node.pool, FEEDS_BYTES_MAX)
        self.window_share = Share(node.pool, WINDOW_BYTES_MAX)
        #: With whom it shares its turns: connections with the same token.
        self.client: object = self if grant is ANYBODY else grant.name
        #: Records of the last frame that are yet to be handled.
        self._records: Iterator[FromClient] = iter(())
        #: A frame that is not decoded yet.
        self._body = b""
        self._turn_due = False
        self._over = False
        self._bodies: list[bytes] = []
        self._bodies_bytes = 0
        #: Write the records that have gathered, at the end of this turn.
        self.touch = OncePerTurn(self.flush)
        self._publications = Publications(self)
        others = tuple([member.address for member in node.roster.others() if member.address][:64])
        self.send(Info(node.slot, node.epoch, self.hub.position, node.name, others))

    # -- sending -------------------------------------------------------------------------------------------------------

    @property
    def can_write(self) -> bool:
        """Does the client read what it was sent? Records that gather in this turn count, too."""
        return self._bodies_bytes < WRITE_BYTES_HIGH and self.connection.can_write

    def send(self, record: FromNode) -> None:
        self._gather(TO_CLIENT.encode(record))

    def send_items(self, feed: int, dropped: int, piece: bytes) -> None:
        """Send `Items`, from columns that `history` encoded once for all feeds."""
        self._gather(items_body(feed, dropped, piece))

    def _gather(self, body: bytes) -> None:
        self._bodies.append(body)
        self._bodies_bytes += len(body)
        self.touch()

    def flush(self) -> None:
        """Write the records that have gathered."""
        self._bodies += map(TO_CLIENT.encode, self._publications.acknowledgements())
        if self._bodies:
            stopped = self._bodies_bytes >= WRITE_BYTES_HIGH
            bodies, self._bodies = self._bodies, []
            self._bodies_bytes = 0
            data = TO_CLIENT.frames(bodies)
            self.node.counts_edge.bytes_sent += len(data)
            self.connection.write(data)
            if stopped and self.connection.can_write:
                self.writable(self.connection)

    # -- the connection's owner ----------------------------------------------------------------------------------------

    def frame(self, connection: FrameConnection, body: memoryview) -> None:
        self.node.counts_edge.bytes_received += len(body) + 4
        if not self.hub.turns.at_once(self.client):
            self._body = bytes(body)
            self._stop_reading()
            return
        self._records = iter(TO_NODE.decode(body))
        self._handle_some()

    def malformed(self, connection: FrameConnection, error: ProtocolError) -> None:
        self.node.refused(connection, Reason.MALFORMED, f"client {self.name!r}: {error}")

    def writable(self, connection: FrameConnection) -> None:
        for feed in list(self.feeds.values()):
            feed.room()
        self._read_on()

    def closed(self, connection: FrameConnection) -> None:
        self._over = True
        self._records, self._body = iter(()), b""
        self._publications.close()
        self.node.sessions.discard(self)
        self._close_some()

    def _close_some(self) -> int:
        """Close feeds, as many as fit a turn, and the others in later turns; what that cost."""
        cost = 0
        while self.feeds and cost < STEP_COST_MAX:
            feed = next(iter(self.feeds.values()))
            cost += feed.closing_cost
            feed.close()
        if self.feeds:
            self.hub.turns.add(self.client, self._close_some)
        return cost

    def say_goodbye(self) -> None:
        """The node stops: write acknowledgements and messages that have gathered, then close."""
        self.flush()
        self.connection.close()

    # -- requests ------------------------------------------------------------------------------------------------------

    def _handle_some(self) -> None:
        """Handle the records in hand, until they have cost enough for a turn or the client reads no answers."""
        spend, client = self.hub.turns.spend, self.client
        for record in self._records:
            if spend(client, self._handle(record)) or not self.can_write:
                self._stop_reading()
                return

    def _stop_reading(self) -> None:
        self.connection.pause()
        self._read_on()

    def _read_on(self) -> None:
        """Read on in one of the next turns if there is room for answers. Without room `writable` calls again."""
        if self.connection.paused and self.can_write and not self._turn_due:
            self._turn_due = True
            self.hub.turns.add(self.client, self._take_turn)

    def _take_turn(self) -> int:
        """Handle more records, then read on."""
        self._turn_due = False
        if self._over or not self.can_write:
            return 0
        cost = len(self._body) // _BODY_BYTES_PER_COST
        try:
            if self._body:
                body, self._body = self._body, b""
                self._records = iter(TO_NODE.decode(body))
            for record in self._records:
                cost += self._handle(record)
                if cost >= STEP_COST_MAX or not self.can_write:
                    self._stop_reading()
                    return cost
        except ProtocolError as error:
            self.connection.fail(error)
            return cost
        self.connection.resume()
        return cost + 1

    def _handle(self, record: FromClient) -> int:
        """Do what a record asks; what that cost (`turns`)."""
        if isinstance(record, Publish):
            return self._publications.take(record)
        if isinstance(record, Credit):
            feed = self.feeds.get(record.feed)
            if feed is not None:
                feed.credit = min(feed.credit + record.count, feed.window)
                feed.room()
                self.hub.moved()
            return 1
        if isinstance(record, Subscribe):
            return self._subscribe(record)
        if isinstance(record, Unsubscribe):
            feed = self.feeds.get(record.feed)
            if feed is not None:
                feed.close()
            return 1
        return self._asked(record)

    def _asked(self, record: Ask) -> int:
        if record.what == "status" and self.grant.may_ask:
            self.send(Answer(record.number, msgspec.json.encode(self.node.status())))
        elif record.what.startswith("forget ") and self.grant.may_operate:
            work = self._forget(record.number, record.what.removeprefix("forget "))
            self.node.tasks.start("forgets a node", work)
        else:
            self.send(Failed(record.number, "denied", f"may not ask for {record.what[:100]!r}"))
            return 1
        return _ASK_COST

    async def _forget(self, number: int, name: str) -> None:
        try:
            done = await self.node.membership.forget(name)
        except UsageError as error:
            self.send(Failed(number, "refused", str(error)))
        else:
            self.send(Answer(number, msgspec.json.encode({"done": done})))

    def _subscribe(self, record: Subscribe) -> int:
        if record.feed in self.feeds:
            raise ProtocolError(f"feed {record.feed} is open already")
        refusal = open_feed(self, record)
        if refusal is not None:
            self.send(Ended(record.feed, *refusal))
            return 2 + 2 * len(record.filters)
        return (_SUBSCRIBE_COST if record.since < 0 else _REPLAY_COST) + 4 * len(record.filters)
