"""One subscription over HTTP, as server-sent events. It is a feed of the node, like that of every other client.

The id of an event is the cursor right behind its message: `Last-Event-ID` goes on there, at this node or at another,
without loss. An event without data moves that id on; browsers do not show it. The names of events:

  gap     messages are missing here; the stream goes on behind them
  ended   the stream is over, and why
  (none)  a message

The socket is the only queue. While its reader takes nothing the feed waits, and goes on from memory or journal. After
`STALL_S` the connection is closed (`connection`); the reader can come back with its last id.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from antecede.core import ProtocolError, UsageError
from antecede.core.errors import LostHistoryError
from antecede.core.limits import FEEDS_BYTES_MAX, WINDOW_BYTES_MAX
from antecede.core.partitions import message_name
from antecede.node.feed import Feed, Missing
from antecede.node.feed_opening import open_feed
from antecede.node.history import Gap
from antecede.node.http.answers import SOON, Answer, refusal
from antecede.node.http.messages import described
from antecede.node.shares import Share
from antecede.wire.cursors import Cursor, MessageId, ReaderPosition, positions_of
from antecede.wire.frames import WRITE_BYTES_HIGH
from antecede.wire.once import OncePerTurn
from antecede.wire.requests import CREDIT_MAX, Begun, Ended, FromNode, Info, Items, Seen, Subscribe, items_body
from antecede.wire.security.tokens import ANYBODY, Grants

if TYPE_CHECKING:
    from antecede.node.http.connection import Connection
    from antecede.node.node import Node

KIND: Final = "text/event-stream; charset=utf-8"
#: A stream without events writes a comment so often: proxies and readers see that it lives.
_ALIVE_S: Final = 15.0

_items = msgspec.msgpack.Decoder(Items)


class StreamFeed(Feed):
    """Tells of gaps, and goes on behind them."""

    session: "Stream"

    def __init__(self, session: "Stream", hub: Any, wanted: Subscribe) -> None:
        super().__init__(session, hub, wanted)
        self._told_of: set[Gap] = set()

    def minds(self, gap: Gap) -> bool:
        return gap not in self._told_of and super().minds(gap)

    def end_at(self, gap: Gap) -> None:
        self._told_of.add(gap)
        self.flush()
        self.session.tell_gap(gap.in_words(), gap.missing)


class Stream:
    """The reader of one stream. It owns a feed, as a session of our own protocol does."""

    def __init__(self, node: "Node", connection: "Connection", grant: Grants) -> None:
        self.node = node
        self.name = f"HTTP {connection.host}"
        self.grant = grant
        #: With whom it shares its turns: connections with the same token.
        self.client: object = self if grant is ANYBODY else grant.name
        self.feeds: dict[int, Feed] = {}
        self.feeds_share = Share(node.pool, FEEDS_BYTES_MAX)
        self.window_share = Share(node.pool, WINDOW_BYTES_MAX)
        self._connection = connection
        self._filters: tuple[str, ...] = ()
        self._field = "since"
        self._max_age_us = 0
        self._reached = ReaderPosition()
        #: Feeds opened so far: one, and one behind each gap that ended the former.
        self._opened = 0
        #: The gap behind which the feed begins, to be told of once it has.
        self._gap: tuple[str, Missing] | None = None
        self._begun = False
        self._over = False
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._flush_later = OncePerTurn(self.flush)
        self._wrote = False
        self._alive: asyncio.TimerHandle | None = None

    # -- opening -------------------------------------------------------------------------------------------------------

    def open(self, filters: tuple[str, ...], field: str, cursor: Cursor | None, max_age_us: int = 0) -> Answer | None:
        """Begin behind the cursor, or now; the answer, if that cannot be done. `field`: what named the cursor."""
        self._filters, self._field, self._max_age_us = filters, field, max_age_us
        self._connection.attach(self)
        info = Info(self.node.slot, self.node.epoch, self.node.hub.position)
        try:
            since, seen = self._reached.begin_at(info, cursor)
        except UsageError as error:
            return refusal(400, field, error.value, error.problem, "ask that node, or use a newer id")
        except LostHistoryError as error:
            return refusal(410, field, "" if cursor is None else cursor.position, str(error), "leave it out")
        return self._open(since, seen)

    def _open(self, since: int, seen: Seen, *, over_gaps: bool = False) -> Answer | None:
        self._opened += 1
        wanted = Subscribe(
            self._opened,
            self._filters,
            CREDIT_MAX,
            since,
            seen=seen,
            window=CREDIT_MAX,
            over_gaps=over_gaps,
            max_age_us=self._max_age_us,
        )
        refused = open_feed(self, wanted, StreamFeed)
        return None if refused is None else self._refusal(*refused)

    def _refusal(self, kind: str, text: str) -> Answer:
        """The answer to a request for a stream that cannot begin."""
        if kind == "denied":
            return refusal(403, "filter", ", ".join(self._filters), text, "use a token with a grant")
        if kind == "filter":
            return refusal(400, "filter", ", ".join(self._filters), text, "write filters as in a/+/b or a/%23")
        if kind == "age":
            return refusal(400, "max_age", self._max_age_us / 1_000_000, text, "leave it out")
        if kind == "usage":
            return refusal(400, self._field, "", text, 'give the id of an event of this cluster, or "0"')
        return refusal(503, "stream", ", ".join(self._filters), text, "try again later", headers=SOON)

    def _go_on(self, record: Ended) -> None:
        """Retention removed what comes next, or no node has it: go on behind that."""
        if self._over:
            return
        self._gap = (record.text, record.missing)
        seen = tuple((self._reached.seen or {}).items())
        if record.missing:
            refused = self._open(0, seen or ((self.node.slot, 0),), over_gaps=True)
        else:
            refused = self._open(max(record.first - 1, 0), seen)
        if refused is not None:
            self.end("the feed could not go on behind the gap; try again")

    # -- what the feed sends -------------------------------------------------------------------------------------------

    @property
    def can_write(self) -> bool:
        """Does the reader take what was written? What gathers in this turn counts, too."""
        return self._out_bytes < WRITE_BYTES_HIGH and self._connection.can_write and not self._over

    def send(self, record: FromNode) -> None:
        if isinstance(record, Begun):
            self._begin(record)
        elif isinstance(record, Ended):
            if record.kind == "gap":
                asyncio.get_running_loop().call_soon(self._go_on, record)
            elif self._begun:
                self.end(record.text)
            else:
                self._over = True
                self._connection.answer(self._refusal(record.kind, record.text))

    def _begin(self, record: Begun) -> None:
        """The feed has begun; or, later on: it has taken everything up to there."""
        self._reached.begun(record)
        if not self._begun:
            self._begun = True
            self._connection.begin_stream(KIND)
            self._wrote = True
            self._keep_alive()
        feed = self.feeds.get(record.feed)
        if feed is not None:
            feed.over_gaps = False  # the next one is told of again
        gap, self._gap = self._gap, None
        if gap is not None:
            self.tell_gap(*gap)
        self._gather(b"id: %s\n\n" % self._reached.cursor.encode())

    def send_items(self, feed: int, dropped: int, piece: bytes) -> None:
        record = _items.decode(items_body(feed, dropped, piece))
        positions = positions_of(record)
        cursors = self._reached.take(record, positions).cursors(positions)
        names = (MessageId(source, first + one) for source, first, count in record.ids for one in range(count))
        for index, (name, payload, cursor) in enumerate(zip(names, record.payloads, cursors, strict=True)):
            try:
                told = described(name, payload)
            except ProtocolError:
                continue  # of a peer that is no node of ours
            deps = record.deps.get(index)
            if deps:
                told["after"] = [message_name(*one) for one in deps]
            if index in record.out_of_order:
                told["out_of_order"] = True
            self._gather(b"id: %s\ndata: %s\n\n" % (cursor.encode(), msgspec.json.encode(told)))
        given = self.feeds.get(feed)
        if given is not None:
            given.credit = CREDIT_MAX  # the socket is the bound

    def tell_gap(self, text: str, missing: Missing) -> None:
        """Tell the reader that messages are missing here."""
        named = [{"first": message_name(at, first), "last": message_name(at, last)} for at, first, last in missing]
        told = msgspec.json.encode({"problem": text, "missing": named})
        self._gather(b"event: gap\nid: %s\ndata: %s\n\n" % (self._reached.cursor.encode(), told))

    def _gather(self, data: bytes) -> None:
        self._out.append(data)
        self._out_bytes += len(data)
        self._flush_later()

    def flush(self) -> None:
        """Write what has gathered."""
        if self._out and self._begun and not self._over:
            stopped = self._out_bytes >= WRITE_BYTES_HIGH
            data = b"".join(self._out)
            self._out, self._out_bytes = [], 0
            self._wrote = True
            self._connection.write(data)
            if stopped and self._connection.can_write:
                self.writable()

    def _keep_alive(self) -> None:
        if self._over:
            return
        if not self._wrote and self._connection.can_write:
            self._connection.write(b":\n\n")
        self._wrote = False
        self._alive = asyncio.get_running_loop().call_later(_ALIVE_S, self._keep_alive)

    # -- what the connection tells -------------------------------------------------------------------------------------

    def writable(self) -> None:
        for feed in list(self.feeds.values()):
            feed.room()
            self.node.hub.moved()

    def closed(self) -> None:
        """The connection is gone."""
        self._over = True
        if self._alive is not None:
            self._alive.cancel()
        for feed in list(self.feeds.values()):
            feed.close()

    def end(self, problem: str) -> None:
        """Say why the stream ends, and end it."""
        if not self._begun and not self._over:
            self._over = True
            self._connection.answer(
                refusal(503, "stream", ", ".join(self._filters), problem, "try again", headers=SOON)
            )
        elif not self._over:
            self._gather(b"event: ended\ndata: %s\n\n" % msgspec.json.encode({"problem": problem}))
            self.flush()
            self._over = True
            self._connection.end_stream()
