"""One client, seen from its node: what it may do, what it asked for, and what it is owed.

A session believes nothing a client says: topics are checked against the token's grants here, numbers and sizes by the
records' bounds, order by the hub. What it publishes follows everything the node has given it, and what its `after`
names: a publication whose predecessors this node has not delivered yet (the client has read them elsewhere) waits, and
the client's later ones behind it.
"""

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec

from antecede.core import AntecedeError, Message, ProtocolError, UsageError
from antecede.live.client.records import (
    TO_CLIENT,
    TO_NODE,
    Acks,
    Answer,
    Ask,
    Credit,
    Failed,
    FromNode,
    Info,
    Publish,
    Record,
    Subscribe,
    Unsubscribe,
)
from antecede.live.envelope import unseal
from antecede.live.errors import StoppedError
from antecede.live.frames import FrameConnection
from antecede.live.node.feed import Feed
from antecede.live.security.tokens import Grants
from antecede.live.topics import check_filter, check_topic
from antecede.live.transport import Reason

if TYPE_CHECKING:
    from antecede.live.node.node import Node

log = logging.getLogger("antecede.live")

#: Publications of one client that may wait here. A client holds back long before (`client.bus`).
WAITING_MAX: Final = 65_536
#: Feeds of one client. Each costs a few hundred bytes and a place in the tree of filters.
FEEDS_MAX: Final = 1024

_encode = msgspec.msgpack.Encoder().encode


class Session:
    """Owns a client's connection."""

    def __init__(self, node: "Node", connection: FrameConnection, name: str, grant: Grants) -> None:
        self.node = node
        self.hub = node.hub
        self.connection = connection
        self.name = name
        self.grant = grant
        self.feeds: dict[int, Feed] = {}
        self._over = False
        self._bodies: list[bytes] = []
        self._due = False
        self._acks: list[tuple[int, int]] = []
        #: Publications behind one that waits for its predecessors, or for the node to have room.
        self._waiting: deque[Publish] = deque()
        self._blocked = False
        others = tuple([member.address for member in node.roster.others() if member.address][:64])
        self.send(Info(node.slot, node.memory, self.hub.position, node.name, others))

    # -- sending -------------------------------------------------------------------------------------------------------

    @property
    def can_write(self) -> bool:
        return self.connection.can_write

    def send(self, record: FromNode) -> None:
        self._bodies.append(TO_CLIENT.encode(record))
        self._touch()

    def send_items(self, feed: int, raws: list[bytes], dropped: int) -> None:
        """`records.Items`, put together from what was encoded once for everybody."""
        count = len(raws)
        head = bytes((0x90 | count,)) if count < 16 else b"\xdc" + count.to_bytes(2, "big")
        self._bodies.append(b"".join((b"\x94\xa1m", _encode(feed), head, *raws, _encode(dropped))))
        self._touch()

    def _touch(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._due = False
        if self._acks:
            self._bodies.append(TO_CLIENT.encode(Acks(self.node.slot, tuple(self._acks))))
            self._acks.clear()
        if self._bodies:
            bodies, self._bodies = self._bodies, []
            data = TO_CLIENT.frames(bodies)
            self.node.counts_edge.bytes_sent += len(data)
            self.connection.write(data)

    # -- the connection's owner ----------------------------------------------------------------------------------------

    def frame(self, connection: FrameConnection, body: memoryview) -> None:
        self.node.counts_edge.bytes_received += len(body) + 4
        for record in TO_NODE.decode(body):
            kind = type(record)
            if kind is Publish:
                assert isinstance(record, Publish)
                if self._blocked:
                    self._queue(record)
                else:
                    self._publish(record)
            else:
                self._handle(record)

    def malformed(self, connection: FrameConnection, error: ProtocolError) -> None:
        self.node.refused(connection, Reason.MALFORMED, f"client {self.name!r}: {error}")

    def writable(self, connection: FrameConnection) -> None:
        for feed in list(self.feeds.values()):
            feed.room()

    def closed(self, connection: FrameConnection) -> None:
        self._over = True
        for feed in list(self.feeds.values()):
            feed.close()
        self._waiting.clear()
        self.node.sessions.discard(self)

    def say_goodbye(self) -> None:
        """The node stops. What was acknowledged and given is written first."""
        self._flush()
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
        if record.feed in self.feeds or len(self.feeds) >= FEEDS_MAX:
            raise ProtocolError(f"feed {record.feed} is open already, or there are too many")
        feed = None
        try:
            for pattern in record.filters:
                check_filter(pattern)
            feed = Feed(self, self.hub, record)
            for pattern in record.filters:
                if not self.grant.may_subscribe(pattern):
                    self.hub.counts.refused["subscribe"] += 1
                    feed.end("denied", f"may not subscribe to {pattern!r}")
                    return
        except UsageError as error:
            raise ProtocolError(str(error)) from None  # clients check their filters before they send them
        self.feeds[record.feed] = feed
        self.hub.open(feed)

    def _publish(self, record: Publish) -> None:
        if record.after and not self.hub.has(record.after):
            self._block(record)
            self.hub.when_delivered(record.after, self._unblock)
            return
        if self.node.busy:
            self._block(record)
            self.node.when_free(self._unblock)
            return
        try:
            topic = check_topic(unseal(record.payload).topic)
        except UsageError as error:
            raise ProtocolError(str(error)) from None
        if not self.grant.may_publish(topic):
            self.hub.counts.refused["publish"] += 1
            self._fail(record.number, "denied", f"may not publish on {topic!r}")
            return
        number = record.number
        try:
            answer = self.node.publish_payload(record.payload, record.level)
        except AntecedeError as error:
            self._fail(number, "usage" if isinstance(error, UsageError) else "stopped", str(error))
            return
        if isinstance(answer, Message):
            self._acks.append((number, answer.seq))
            self._touch()
        else:
            answer.add_done_callback(lambda done: self._settled(number, done))

    def _settled(self, number: int, done: "asyncio.Future[Message]") -> None:
        if self._over or done.cancelled():
            return
        error = done.exception()
        if error is None:
            self._acks.append((number, done.result().seq))
            self._touch()
        else:
            self._fail(number, "stopped", str(error), uncertain=isinstance(error, StoppedError))

    def _fail(self, number: int, kind: str, text: str, *, uncertain: bool = False) -> None:
        self.send(Failed(number, kind, text[:2000], uncertain))

    # -- waiting -------------------------------------------------------------------------------------------------------

    def _block(self, record: Publish) -> None:
        self._blocked = True
        self._waiting.appendleft(record)

    def _queue(self, record: Publish) -> None:
        if len(self._waiting) >= WAITING_MAX:
            raise ProtocolError(f"more than {WAITING_MAX} publications wait: hold back until some are acknowledged")
        self._waiting.append(record)

    def _unblock(self) -> None:
        self._blocked = False
        while self._waiting and not self._blocked and not self._over:
            try:
                self._publish(self._waiting.popleft())
            except ProtocolError as error:
                self.malformed(self.connection, error)
                self.connection.close()
