"""One client, seen from its node: what it may do, what it asked for, and what it is owed.

A session believes nothing a client says: topics are checked against the token's grants here, numbers and sizes by the
records' bounds, order by the hub. What it publishes follows everything the node has given it, and what its `after`
names: a publication whose predecessors this node has not delivered yet (the client has read them elsewhere) waits, and
the client's later ones behind it.
"""

import asyncio
import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from antecede.core import AntecedeError, Message, ProtocolError, UsageError
from antecede.core.errors import StoppedError
from antecede.node.feed import Feed
from antecede.wire.envelope import unmarked, unseal
from antecede.wire.frames import FrameConnection
from antecede.wire.requests import (
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
from antecede.wire.security.tokens import Grants
from antecede.wire.topics import check_filter, check_topic
from antecede.wire.transport import Reason

if TYPE_CHECKING:
    from antecede.node.node import Node

log = logging.getLogger("antecede.node")

#: Publications of one client that may wait here. A client holds back long before (`client.bus`).
WAITING_MAX: Final = 65_536
#: Feeds of one client. Each costs a few hundred bytes and a place in the tree of filters.
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
        self._over = False
        self._bodies: list[bytes] = []
        self._due = False
        #: Number, seq, how many.
        self._acks: list[tuple[int, int, int]] = []
        #: Publications behind one that waits for its predecessors, or for the node to have room, and their number.
        self._waiting: deque[Publish] = deque()
        self._waiting_count = 0
        self._blocked = False
        others = tuple([member.address for member in node.roster.others() if member.address][:64])
        self.send(Info(node.slot, node.epoch, self.hub.position, node.name, others))

    # -- sending -------------------------------------------------------------------------------------------------------

    @property
    def can_write(self) -> bool:
        return self.connection.can_write

    def send(self, record: FromNode) -> None:
        self._bodies.append(TO_CLIENT.encode(record))
        self._touch()

    def send_items(self, feed: int, dropped: int, piece: bytes) -> None:
        """`records.Items`, put together from columns that were encoded once for everybody (`history`)."""
        self._bodies.append(b"".join((_ITEMS_HEAD, _encode(feed), _encode(dropped), piece)))
        self._touch()

    def _touch(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Write what has gathered."""
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
            if isinstance(record, Publish):
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
            if record.order == "total" and not self.hub.total:
                feed.end("order", f"node {self.node.slot} gives every reader an order of its own")
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
        payloads = unmarked(record.payloads)  # or a client could pretend that rows of a release were published
        try:
            topics = [envelope.topic for envelope in map(unseal, payloads)]
            refused = {topic for topic in set(topics) if not self.grant.may_publish(check_topic(topic))}
        except UsageError as error:
            raise ProtocolError(str(error)) from None
        at = 0
        if not refused:
            at = self._publish_run(record, payloads, topics)
        for index in range(at, len(payloads)):
            if topics[index] in refused:
                self.hub.counts.refused["publish"] += 1
                self._fail(record.number + index, "denied", f"may not publish on {topics[index]!r}")
            else:
                self._publish_one(record.number + index, payloads[index], record.level)

    def _publish_run(self, record: Publish, payloads: list[bytes], topics: list[str]) -> int:
        """As many as the node takes together; how many of them are dealt with."""
        at = 0
        while at < len(payloads):
            try:
                messages, done = self.node.publish_payloads(payloads[at:] if at else payloads, record.level)
            except AntecedeError as error:
                self._refuse(record.number + at, len(payloads) - at, error)
                return len(payloads)
            if not messages:
                break
            run = (record.number + at, messages[0].seq, len(messages))
            self.hub.called(messages[0], topics[at : at + len(messages)])
            at += len(messages)
            if done is None:
                self._acks.append(run)
                self._touch()
            else:
                done.add_done_callback(partial(self._settled, *run))
        return at

    def _publish_one(self, number: int, payload: bytes, level: int) -> None:
        try:
            answer = self.node.publish_payload(payload, level)
        except AntecedeError as error:
            self._refuse(number, 1, error)
            return
        if isinstance(answer, Message):
            self._acks.append((number, answer.seq, 1))
            self._touch()
        else:
            answer.add_done_callback(partial(self._settled, number, 0, 1))

    def _settled(self, number: int, seq: int, count: int, done: "asyncio.Future[Message]") -> None:
        """A run of publications is safe; `seq` is the first one's number, 0 for one that had none yet."""
        if self._over or done.cancelled():
            return
        error = done.exception()
        if error is None:
            self._acks.append((number, seq or done.result().seq, count))
            self._touch()
        else:
            for one in range(number, number + count):
                self._fail(one, "stopped", str(error), uncertain=isinstance(error, StoppedError))

    def _refuse(self, number: int, count: int, error: AntecedeError) -> None:
        """Nothing was published of these."""
        for one in range(number, number + count):
            self._fail(one, "usage" if isinstance(error, UsageError) else "stopped", str(error))

    def _fail(self, number: int, kind: str, text: str, *, uncertain: bool = False) -> None:
        self.send(Failed(number, kind, text[:2000], uncertain))

    # -- waiting -------------------------------------------------------------------------------------------------------

    def _block(self, record: Publish) -> None:
        self._blocked = True
        self._waiting.appendleft(record)
        self._waiting_count += len(record.payloads)

    def _queue(self, record: Publish) -> None:
        self._waiting_count += len(record.payloads)
        if self._waiting_count > WAITING_MAX:
            raise ProtocolError(f"more than {WAITING_MAX} publications wait: hold back until some are acknowledged")
        self._waiting.append(record)

    def _unblock(self) -> None:
        self._blocked = False
        while self._waiting and not self._blocked and not self._over:
            record = self._waiting.popleft()
            self._waiting_count -= len(record.payloads)
            try:
                self._publish(record)
            except ProtocolError as error:
                self.malformed(self.connection, error)
                self.connection.close()
