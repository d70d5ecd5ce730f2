"""The session of one MQTT client at this node (4.1): it may outlive its connections.

It owns the subscriptions, the QoS 1 and 2 exchanges, one feed for all subscriptions, and the will. `client.Client` is
its connection, if it has one.

**Order.** Messages come from the feed in causal order and are written in that order. One that must wait for the
client's acknowledgements (its receive maximum) holds back those behind it, also of QoS 0. Meanwhile the feed is behind
and keeps its position only. A message counts as read by the client when its PUBLISH is written.

**Without a connection** the session has no feed, only the position up to which messages were handed on. A QoS 0 message
that was published meanwhile is not given later.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from antecede.core.limits import FEEDS_BYTES_MAX, WINDOW_BYTES_MAX
from antecede.node.feed import Feed
from antecede.node.mqtt.feed import SubscriptionsFeed
from antecede.node.shares import Share
from antecede.wire.mqtt.envelopes import ApplicationMessage, publisher_tag
from antecede.wire.mqtt.flows import Flight, Incoming, Outgoing
from antecede.wire.mqtt.packets import Publish, Will
from antecede.wire.mqtt.properties import Properties
from antecede.wire.mqtt.subscriptions import Given, Subscription, Subscriptions
from antecede.wire.requests import Begun, Ended, FromNode

if TYPE_CHECKING:
    from antecede.node.mqtt.client import Client
    from antecede.node.mqtt.server import MqttServer

#: Messages that may be under way to a client which accepts more, or says nothing (3.1.1). Each costs memory here.
IN_FLIGHT_MAX: Final = 128
#: Messages that a client may have under way to us.
RECEIVE_MAXIMUM: Final = 1024
#: A session of this expiry never ends by itself (3.1.2.11.2).
NEVER: Final = 0xFFFF_FFFF


class Item(NamedTuple):
    """A message for the client."""

    position: int
    message: ApplicationMessage
    given: Given
    #: It was retained when the client subscribed.
    retained: bool = False


class DeviceSession:
    """One client, by its client identifier."""

    def __init__(self, server: "MqttServer", client_id: str) -> None:
        self.server = server
        self.node = server.node
        self.hub = server.node.hub
        self.client_id = client_id
        self.tag = publisher_tag(client_id)
        #: Seconds that it lives without a connection.
        self.expiry_s = 0
        #: When it lost its connection, by the wall clock; None: it has one.
        self.left_s: float | None = None
        self.will: Will | None = None
        self.subscriptions = Subscriptions()
        self.outgoing: Outgoing[Item] = Outgoing(IN_FLIGHT_MAX)
        self.incoming = Incoming(RECEIVE_MAXIMUM)
        self.connection: Client | None = None
        #: Every message up to this position was handed to the client, or does not match.
        self.position = self.hub.position
        #: QoS 0 messages up to this position were published while it had no connection.
        self._attached_at = 0
        self._pending: deque[Item] = deque()
        #: Retained messages to be given once the feed has given everything up to a position.
        self._retained: deque[tuple[int, list[Item]]] = deque()
        # What `FeedOwner` asks for.
        self.name = client_id
        self.client: object = self
        self.feeds: dict[int, Feed] = {}
        self.feeds_share = Share(self.node.pool, FEEDS_BYTES_MAX)
        self.window_share = Share(self.node.pool, WINDOW_BYTES_MAX)

    @property
    def feed(self) -> SubscriptionsFeed | None:
        feed = self.feeds.get(0)
        assert feed is None or isinstance(feed, SubscriptionsFeed)
        return feed

    @property
    def safe_position(self) -> int:
        """Messages up to here need not be given again: they were handed on, or did not match."""
        if self._pending:
            return min(self._pending[0].position - 1, self.position)
        feed = self.feed
        return self.position if feed is None else max(self.position, feed.position)

    # -- connections ---------------------------------------------------------------------------------------------------

    def attach(self, connection: "Client", receive_maximum: int) -> None:
        """The client has connected: resend what is under way, then read on."""
        self.connection = connection
        self.client = connection.client
        self.left_s = None
        self.outgoing.receive_maximum = min(receive_maximum, IN_FLIGHT_MAX)
        self._attached_at = self.hub.position

    def resume(self) -> None:
        """CONNACK was written: send what is under way again ([MQTT-4.4.0-1]), then read on."""
        assert self.connection is not None
        for flight in self.outgoing:
            self._send_again(flight)
        self._open_feed()

    def detach(self) -> None:
        """The connection is gone."""
        self.position = self.safe_position
        self.connection = None
        self.left_s = time.time()
        self._pending.clear()
        self._retained.clear()
        self.incoming.disconnected()
        feed = self.feed
        if feed is not None:
            feed.close()

    def _send_again(self, flight: Flight[Item]) -> None:
        connection = self.connection
        assert connection is not None
        if flight.released:
            connection.release(flight.packet_id)
        elif not self._write(flight.message, flight, dup=True):
            self.outgoing.drop(flight.packet_id)

    # -- subscriptions -------------------------------------------------------------------------------------------------

    def subscribe(self, one: Subscription, then: Callable[[], None]) -> bool:
        """Add or replace a subscription that is not shared; `then`: it is in force. False: it costs too much."""
        feed = self.feed
        if feed is not None:
            if not feed.widen(one.pattern, then):
                return False
            self.subscriptions.add(one)
            return True
        self.subscriptions.add(one)
        self.position = self.hub.position
        self._open_feed(then)
        return True

    def unsubscribe(self, full: str) -> bool:
        """Remove a subscription; whether there was one."""
        former = self.subscriptions.remove(full)
        if former is None:
            return False
        if not former.group and self.feed is not None:
            self.feed.narrow(former.pattern)
        return True

    def _open_feed(self, then: Callable[[], None] | None = None) -> None:
        patterns = tuple([one.pattern for one in self.subscriptions if not one.group])
        if not patterns or self.feed is not None:
            return
        since = min(self.position, self.hub.position)
        feed = SubscriptionsFeed(self, self.hub, self.subscriptions, patterns, since)
        self.feeds[0] = feed

        def opened() -> None:
            feed.open()
            if then is not None:
                then()

        self.node.taking.need(feed.partitions, opened)

    def skip_to(self, position: int) -> None:
        """Go on behind messages that cannot be read any more."""
        if self.connection is not None:
            self.position = max(self.position, position)
            self._open_feed()

    # -- what the feed calls (`FeedOwner`) -----------------------------------------------------------------------------

    @property
    def can_write(self) -> bool:
        return self.connection is not None and not self._pending and self.connection.can_write

    def send(self, record: FromNode) -> None:
        if isinstance(record, Begun):
            self._give_retained()
        elif isinstance(record, Ended):
            self.server.feed_ended(self, record)

    def send_items(self, feed: int, dropped: int, piece: bytes) -> None:
        """Messages from the feed, in its order."""
        for position, message in self.server.open_items(piece):
            self._give_retained(before=position)
            given = self.subscriptions.decide(message.topic, position, own=message.publisher == self.tag)
            if given is not None and (position > self._attached_at or min(given.qos, message.qos)):
                self._pending.append(Item(position, message, given))
        if self.feed is not None:
            self.feed.renew_credit()
        self.pump()

    def flush(self) -> None:
        self._give_retained()
        if self.connection is not None:
            self.connection.flush()

    # -- messages to the client ----------------------------------------------------------------------------------------

    def give(self, item: Item) -> None:
        """Give a message that does not come from the feed, behind those that wait."""
        self._pending.append(item)
        self.pump()

    def give_retained(self, items: list[Item]) -> None:
        """Give retained messages in their order, as the node knows them now: behind all that was delivered so far."""
        if items:
            self._retained.append((self.hub.position, items))
            self._give_retained()

    def _give_retained(self, before: int | None = None) -> None:
        """Give the retained messages whose turn has come: the feed has reached their position, or goes `before`."""
        while self._retained:
            position, items = self._retained[0]
            feed = self.feed
            behind = feed is not None and (not feed.live or feed.lagging) and feed.position < position
            if behind and (before is None or before <= position):
                return
            self._retained.popleft()
            self._pending.extend(items)
        if before is None:
            self.pump()

    def pump(self) -> None:
        """Write messages in their order, until one must wait for an acknowledgement."""
        pending = self._pending
        if self.connection is None or not pending:
            return
        while pending:
            item = pending[0]
            qos = min(item.given.qos, item.message.qos)
            if qos and not self.outgoing.room:
                return
            pending.popleft()
            self.position = max(self.position, item.position) if not item.retained else self.position
            flight = self.outgoing.begin(item, qos) if qos else None
            if not self._write(item, flight, dup=False) and flight is not None:
                self.outgoing.drop(flight.packet_id)
        self.connection.flush_later()

    def acknowledged(self) -> None:
        """A message is done: there is room for others."""
        self.pump()
        if not self._pending and self.feed is not None:
            self.feed.room()

    def _write(self, item: Item, flight: Flight[Item] | None, *, dup: bool) -> bool:
        """Write a PUBLISH. False: it has expired, or is larger than the client accepts."""
        assert self.connection is not None
        message, given = item.message, item.given
        properties = message.properties
        changed: dict[str, object] = {}
        expires_us = message.expires_us()
        if expires_us is not None:
            left_us = expires_us - time.time_ns() // 1000
            if left_us <= 0 and not dup:  # [MQTT-3.3.2-5]
                return False
            assert properties.message_expiry_s is not None
            changed["message_expiry_s"] = max(0, min(properties.message_expiry_s, -(-left_us // 1_000_000)))
        if given.identifiers:
            changed["subscription_ids"] = given.identifiers
        if changed:
            properties = Properties(**{**msgspec.structs.asdict(properties), **changed})
        packet = Publish(
            topic=message.topic,
            payload=message.payload,
            qos=0 if flight is None else flight.qos,
            # [MQTT-3.3.1-8], [MQTT-3.3.1-12], [MQTT-3.3.1-13]
            retain=item.retained or (given.retain_as_published and message.retain),
            dup=dup,
            packet_id=0 if flight is None else flight.packet_id,
            properties=properties,
        )
        return self.connection.publish(packet)
