"""The session of one MQTT client at this node (4.1): it may outlive its connections, and the node's process.

It owns the subscriptions, the QoS 1 and 2 exchanges, one feed for all subscriptions, and the will. `outbox.Outbox` has
the messages to the client, in their order. `client.Client` is its connection, if it has one.

**Order.** Messages come from the feed in causal order and are written in that order. One that must wait for the
client's acknowledgements (its receive maximum) holds back those behind it, also of QoS 0. Meanwhile the feed is behind
and keeps its position only. A message counts as read by the client when its PUBLISH is written.

**Without a connection** the session has no feed, only the position up to which messages were handed on, and the
positions of those that are under way. Their payloads are read from the journal when the client is back. A QoS 0 message
that was published meanwhile is not given later.
"""

import secrets
import time
from collections.abc import Callable
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

import msgspec

from antecede.core.limits import FEEDS_BYTES_MAX, WINDOW_BYTES_MAX
from antecede.core.partitions import split_stream
from antecede.node.feed import Feed
from antecede.node.mqtt.feed import SubscriptionsFeed
from antecede.node.mqtt.items import Item
from antecede.node.mqtt.outbox import Outbox
from antecede.node.mqtt.store import Card, CardFlight, SessionRecord
from antecede.node.shares import Share
from antecede.wire.mqtt.envelopes import publisher_tag
from antecede.wire.mqtt.flows import Incoming, Outgoing
from antecede.wire.mqtt.packets import Will
from antecede.wire.mqtt.subscriptions import Subscription, Subscriptions
from antecede.wire.requests import Begun, Ended, FromNode

if TYPE_CHECKING:
    from antecede.node.mqtt.client import Client
    from antecede.node.mqtt.server import MqttServer
    from antecede.node.mqtt.shared import SharedGroup

#: A session of this expiry never ends by itself (3.1.2.11.2).
NEVER: Final = 0xFFFF_FFFF
#: Messages that may be under way to a client which accepts more, or says nothing (3.1.1). Each costs memory here.
IN_FLIGHT_MAX: Final = 128
#: By so much a CONNECT is later than that at the node which the client came from, whatever the clocks say.
_LATER_S: Final = 0.001
#: Subscriptions of one session.
SUBSCRIPTIONS_MAX: Final = 4096
#: Levels by stream that its subscriptions keep (`Subscription.after`).
_LEVELS_MAX: Final = 4096
#: Messages that a client may have under way to us.
RECEIVE_MAXIMUM: Final = 1024


class DeviceSession:
    """One client, by its client identifier."""

    def __init__(self, server: "MqttServer", client_id: str) -> None:
        self.server = server
        self.keeper = server.keeper
        self.node = server.node
        self.hub = server.node.hub
        self.client_id = client_id
        #: The name of the token that it belongs to: no other may take it over.
        self.owner = ""
        self.tag = publisher_tag(client_id)
        #: Tells it from other sessions of the same client, in the packet identifiers of QoS 2 messages.
        self.generation = secrets.randbits(32)
        #: Seconds that it lives without a connection.
        self.expiry_s = 0
        #: When it lost its connection, by the wall clock; None: it has one.
        self.left_s: float | None = None
        self.will: Will | None = None
        #: When the will is due, by the wall clock; None: not before the connection ends.
        self.will_due_s: float | None = None
        self.subscriptions = Subscriptions()
        self.groups: dict[str, SharedGroup] = {}
        self.outgoing: Outgoing[Item] = Outgoing(IN_FLIGHT_MAX)
        self.incoming = Incoming(RECEIVE_MAXIMUM)
        self.connection: Client | None = None
        #: Every message up to this position was handed to the client, or does not match.
        self.position = self.hub.position
        #: The record that it was restored from covers all deliveries up to this position; 0: it was not restored.
        self.restored_at = 0
        #: When its client connected last, by the wall clock.
        self.connected_s = 0.0
        #: By stream, what the client was given: it was at another node, or this one took a partition again that it had
        #: left, and gets the past from others. None: `position` says it.
        self.came_from: dict[int, int] | None = None
        #: The node that it came from has it still: its feed has not begun here.
        self.arriving = False
        #: To be called when it has come.
        self._settled: list[Callable[[], None]] = []
        self._moved: list[CardFlight] = []
        #: Its subscriptions are new, and its feed has not begun.
        self._from_now = False
        #: Levels that its subscriptions have (`Subscription.after`), or more.
        self._levels = 0
        #: Subscriptions that are not in force: their SUBACK was not sent, and they are not kept.
        self._waiting: set[str] = set()
        #: Changes that other nodes are to be told of (`moving`).
        self.told = 0
        #: QoS 0 messages up to this position were published while it had no connection.
        self._attached_at = 0
        self.outbox = Outbox(self)
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
    def kept(self) -> bool:
        """Must it survive the end of the node's process?"""
        return not self.arriving and (self.expiry_s > 0 or self.will is not None)

    def expired(self, now_s: float) -> bool:
        """Was it without a connection for as long as it lives so (3.1.2.11.2)?"""
        return self.left_s is not None and self.expiry_s != NEVER and now_s >= self.left_s + self.expiry_s

    @property
    def has_quota(self) -> bool:
        """May another QoS 1 or 2 message be sent?"""
        return self.outgoing.room

    @property
    def safe_position(self) -> int:
        """Messages up to here need not be given again: they were handed on, or did not match."""
        waiting = self.outbox.first_position
        if waiting is not None:
            return min(waiting - 1, self.position)
        feed = self.feed
        return self.position if feed is None else max(self.position, feed.position)

    @property
    def _reads_along(self) -> bool:
        """Was everything that was delivered so far written to the client, if it is for it?"""
        return self.feed is not None and self.feed.live and not self.feed.lagging and self.outbox.empty

    @property
    def _up_to_date(self) -> bool:
        """Was it acknowledged, too? Else another node may give it again, with what follows."""
        return self._reads_along and not len(self.outgoing)

    # -- what is kept --------------------------------------------------------------------------------------------------

    def record(self) -> SessionRecord:
        received = self.incoming.durable
        return SessionRecord(
            self.client_id,
            self.generation,
            self.owner,
            self.expiry_s,
            self.left_s,
            self.will,
            self.will_due_s,
            tuple([one for one in self.subscriptions if one.full not in self._waiting]),
            self.safe_position,
            tuple(self.outbox.records()),
            tuple(received),
            self.hub.position,
            None if self.came_from is None else tuple(self.came_from.items()),
            tuple(self.moved),
            tuple(received.values()),
            self.connected_s,
        )

    @property
    def moved(self) -> list[CardFlight]:
        """Messages under way that are at no position here, as far as is known."""
        return [*self._moved, *self.outbox.elsewhere()]

    def restore(self, record: SessionRecord) -> None:
        self.generation = record.generation
        self.owner, self.expiry_s, self.left_s = record.owner, record.expiry_s, record.left_s
        self.connected_s = record.connected_s
        self.will, self.will_due_s = record.will, record.will_due_s
        self.position, self.restored_at = record.position, record.looked
        self.incoming.restore(dict(zip_longest(record.received, record.received_at, fillvalue=0)))
        for one in record.subscriptions:
            self.subscriptions.add(one)
        for flight in record.flights:
            self.outbox.restore(flight, flight.position)
        self.came_from = None if record.seen is None else dict(record.seen)
        self._moved = list(record.moved)
        self._levels = sum([len(one.after) for one in self.subscriptions])

    def adopt(self, card: Card) -> None:
        """Go on with a session that another node has."""
        self.owner, self.generation = card.owner, card.generation
        self.came_from, self.arriving = dict(card.seen), True
        self.position, self.restored_at = 0, self.hub.position
        for one in card.subscriptions:
            self.subscriptions.add(msgspec.structs.replace(one, since=0))
        self.incoming.restore(dict.fromkeys(card.received, 0))
        self._moved = list(card.flights)
        if card.left_s is None:
            self.outgoing.skip_ids()
        self._levels = sum([len(one.after) for one in self.subscriptions])

    async def _find_moved(self) -> None:
        """Find the messages that are under way in the journal of this node.

        Its node told of the session after it had delivered them, so they came here before. Only a node that did not
        take their partition lacks them: then the feed is to give them, with all that follows them in their stream.
        """
        while self._moved and self.came_from is not None:
            one = self._moved[0]
            flight, stream, seq = msgspec.structs.astuple(one)
            position = 0 if flight.released else await self.server.find(stream, seq)
            if one not in self._moved:  # the client has connected again meanwhile
                continue
            self._moved.remove(one)
            if position is None:
                self.came_from[stream] = min(self.came_from.get(stream, 0), seq - 1)
            else:
                self.outbox.restore(flight, position)

    # -- connections ---------------------------------------------------------------------------------------------------

    def attach(self, connection: "Client", receive_maximum: int) -> None:
        """The client has connected."""
        self.connection = connection
        self.client = connection.client
        self.left_s = self.will_due_s = None
        self.outgoing.receive_maximum = min(receive_maximum, IN_FLIGHT_MAX)
        self._attached_at = self.hub.position
        # Later than at the node that it came from: clocks may disagree.
        self.connected_s = max(time.time(), self.connected_s + _LATER_S)

    def resume(self) -> None:
        """CONNACK was written: send what is under way again ([MQTT-4.4.0-1]), then read on."""
        if self._moved or self.outbox.unread():
            self.outbox.held = True
            self.node.tasks.start("reads messages for an MQTT session again", self._restore_messages(self.connection))
        else:
            self._go_on()

    async def _restore_messages(self, connection: "Client | None") -> None:
        await self._find_moved()
        await self.outbox.read_again()
        if self.connection is connection and connection is not None:
            self._go_on()

    def _go_on(self) -> None:
        self.outbox.opened()
        self._open_feed()
        if self.feed is None:
            self._settled_here()
            self._go_by_position()
        for group in self.groups.values():
            group.room()
        self.outbox.pump()

    def _settled_here(self) -> None:
        """A session that came from another node is this node's from now on."""
        if self.arriving:
            self.arriving = False
            self.keeper.touch(self)
            # The former node forgets it then. This one must have it, even if it is killed.
            self.keeper.when_kept(lambda: self.server.cards.tell(self))
            settled, self._settled = self._settled, []
            for then in settled:
                then()

    def _go_by_position(self) -> None:
        """Go by positions of this node, once it has given or passed all that the client was or is given elsewhere.

        Subscriptions drop their levels (`Subscription.after`) when the client is up to date: nothing older can come.
        """
        if self._levels and self.came_from is None and self._up_to_date:
            self._levels = 0
            for one in self.subscriptions:
                if one.after:
                    self.subscriptions.add(msgspec.structs.replace(one, after=()))
        if self.came_from is None or self.arriving or not self.outbox.all_here:
            return
        if self.feed is None or (self.feed.live and self.feed.stands_alone):
            self.position = self.hub.position if self.feed is None else self.feed.position
            self.came_from = None
            self.keeper.touch(self)
            self.server.cards.tell(self)

    def _go_by_stream(self) -> None:
        """This node has just taken partitions for a subscription: its position may stand before what it lacks there."""
        feed = self.feed
        assert feed is not None
        if self.came_from is not None or not feed.stands_alone:
            had = self.came_from or {}
            self.came_from = {at: max(seq, had.get(at, 0)) for at, seq in feed.delivered().items()}

    def gave(self, item: Item) -> None:
        """A message of the feed was written."""
        self.position = max(self.position, item.position)
        if self.came_from is not None and item.name is not None:
            stream, seq = item.name
            self.came_from[stream] = max(seq, self.came_from.get(stream, 0))

    def detach(self) -> None:
        """The connection is gone."""
        self.position = self.safe_position
        self.connection = None
        self.left_s = time.time()
        self.outbox.closed()
        self.incoming.disconnected()
        feed = self.feed
        if feed is not None:
            feed.close()

    # -- subscriptions -------------------------------------------------------------------------------------------------

    def subscribe(self, one: Subscription, then: Callable[[], None]) -> bool:
        """Add or replace a subscription; `then`: it is in force. False: it costs too much memory."""
        if self.arriving:
            # If the session does not come after all, it stays as the former node has it: without this subscription.
            told, then = then, lambda: self._settled.append(told) if self.arriving else told()
        if one.group:
            self.subscriptions.add(one)
            self.server.groups.join(self, one, then)
            return True
        if self.subscriptions.get(one.full) is None:
            then = self._when_in_force(one, then)
        feed = self.feed
        if feed is not None:
            self.subscriptions.add(one)
            if not feed.widen(one.pattern, then):
                self.subscriptions.remove(one.full)
                self._waiting.discard(one.full)
                return False
            return True
        if all(other.group for other in self.subscriptions):  # else messages wait for the others
            self.position = self.hub.position
            self._from_now = True
        self.subscriptions.add(one)
        self._open_feed(then)
        return True

    def _when_in_force(self, one: Subscription, then: Callable[[], None]) -> Callable[[], None]:
        """What to do when a new subscription is in force: the client is not to be given messages from before."""
        partitions = self.hub.partitions.of_filter(one.pattern)
        taken = frozenset([partition for partition in partitions if self.node.taking.takes(partition)])
        levels = {at: seq for at, seq in self.hub.delivered.items() if split_stream(at)[0] in taken}
        self._waiting.add(one.full)

        def in_force() -> None:
            self._waiting.discard(one.full)
            now = self.subscriptions.get(one.full)
            if self._reads_along:
                self._go_by_stream()
            if now is not None and not self._up_to_date:
                # The past that comes first may hold messages from before, also at another node.
                more = {at: seq for at, seq in self.hub.delivered.items() if split_stream(at)[0] in partitions - taken}
                after = tuple({**levels, **more}.items())
                if self._levels + len(after) <= _LEVELS_MAX:
                    self.subscriptions.add(msgspec.structs.replace(now, after=after))
                    self._levels += len(after)
            if self.server.sessions.get(self.client_id) is self:
                self.keeper.touch(self)
            then()

        return in_force

    def unsubscribe(self, full: str) -> bool:
        """Remove a subscription; whether there was one."""
        former = self.subscriptions.remove(full)
        self._waiting.discard(full)
        if former is None:
            return False
        if former.group:
            self.server.groups.leave(self, full)
        elif self.feed is not None:
            self.feed.narrow(former.pattern)
        return True

    def _open_feed(self, then: Callable[[], None] | None = None) -> None:
        patterns = tuple([one.pattern for one in self.subscriptions if not one.group])
        if not patterns or self.feed is not None:
            return
        # A feed that begins now begins once the node takes its partitions; what they had before is not for this client.
        since = -1 if self._from_now else min(self.position, self.hub.position)
        seen: tuple[tuple[int, int], ...] = ()
        if self.came_from is not None and not self._from_now:
            # An empty list would mean that the client has had nothing.
            since, seen = 0, tuple(self.came_from.items()) or ((self.node.slot, 0),)
        feed = SubscriptionsFeed(self, self.hub, self.subscriptions, patterns, since, seen)
        feed.on_live = self._live
        self.feeds[0] = feed

        def opened() -> None:
            feed.open()
            if then is not None:
                then()

        self.node.taking.need(feed.partitions, opened)

    def _live(self) -> None:
        self.outbox.retained_due()
        self._go_by_position()

    def skip_to(self, position: int) -> None:
        """Go on behind messages that cannot be read any more."""
        if self.connection is not None:
            self.position = max(self.position, position)
            self._open_feed()

    # -- what the feed calls (`FeedOwner`) -----------------------------------------------------------------------------

    @property
    def can_write(self) -> bool:
        return self.connection is not None and self.outbox.empty and self.connection.can_write

    def send(self, record: FromNode) -> None:
        if isinstance(record, Begun):
            if self.feed is not None and (self._from_now or (not record.position and self.came_from is None)):
                # What it is given next may be at other nodes, and stand at no position of this one.
                self.came_from = self.feed.among(dict(record.counts))
            self._from_now = False
            if self.came_from is None:
                self.position = max(self.position, record.position)
            self._settled_here()
            self._go_by_position()
            self.outbox.retained_due()
            self.keeper.touch(self)
        elif isinstance(record, Ended):
            self.server.feed_ended(self, record)

    def send_items(self, feed: int, dropped: int, piece: bytes) -> None:
        """Messages from the feed, in its order."""
        for position, message, name in self.server.opened_messages.of_piece(piece):
            self.outbox.retained_due(before=position)
            own = message.publisher == self.tag
            given = self.subscriptions.decide(message.topic, position, own=own, name=name)
            if given is not None and (position > self._attached_at or min(given.qos, message.qos)):
                self.outbox.add(Item(position, message, given, name=name))
        if self.feed is not None:
            self.feed.renew_credit()
        self.outbox.pump()
        self._go_by_position()

    def flush(self) -> None:
        self.outbox.retained_due()
        if self.connection is not None:
            self.connection.flush()

    # -- messages to the client ----------------------------------------------------------------------------------------

    def acknowledged(self) -> None:
        """Messages are done: there is room for others."""
        self.keeper.touch(self)
        self.outbox.pump()
        self._go_by_position()
        if self.outbox.empty:
            self.room()

    def room(self) -> None:
        """The client can be given more."""
        if self.feed is not None:
            self.feed.room()
        for group in list(self.groups.values()):
            group.room()
