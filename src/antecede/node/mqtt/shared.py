"""Shared subscriptions (4.8.2): each message goes to one member of the group.

The group has a feed of its own, with the position up to which messages were handed to members. Members take turns; one
that has no connection, or would let the message wait, is passed over. So a message that was handed on was written, and
stays with the session of its member ([MQTT-4.8.2-4], [MQTT-4.8.2-5]). Until then it is the group's, also after a crash.

While no member is connected the group has no feed. Messages wait in the journal, as long as a session belongs to it.

The group is one of this node. Where members of a group are at several nodes, each node gives the message to one of its
own. A group keeps the causal order of what it hands out, and its members read beside each other: an answer may reach
one member before the question has reached another.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from antecede.core.limits import FEEDS_BYTES_MAX, WINDOW_BYTES_MAX
from antecede.node.feed import Feed
from antecede.node.mqtt.feed import SubscriptionsFeed
from antecede.node.mqtt.items import Item
from antecede.node.mqtt.session import DeviceSession
from antecede.node.shares import Share
from antecede.wire.mqtt.subscriptions import Given, Subscription, Subscriptions
from antecede.wire.requests import Begun, Ended, FromNode

if TYPE_CHECKING:
    from antecede.node.mqtt.server import MqttServer


class SharedGroup:
    """One shared subscription: a group's name and a filter."""

    def __init__(self, server: "MqttServer", one: Subscription, position: int | None) -> None:
        """`position`: where an earlier life of the node was with it; None: it is new."""
        #: The filter as clients write it.
        self.name = one.full
        self.node = server.node
        self.client: object = self
        self.feeds: dict[int, Feed] = {}
        self.feeds_share = Share(self.node.pool, FEEDS_BYTES_MAX)
        self.window_share = Share(self.node.pool, WINDOW_BYTES_MAX)
        #: In the order of their turns.
        self.members: deque[DeviceSession] = deque()
        self._server = server
        self._pattern = one.pattern
        self._subscriptions = Subscriptions()
        self._subscriptions.add(Subscription(pattern=one.pattern, qos=2))
        self._position = server.node.hub.position if position is None else position
        #: It is new, and its feed has not begun.
        self._from_now = position is None
        #: By stream, what was handed on, while messages come from other nodes (`DeviceSession.came_from`).
        self._levels: dict[int, int] | None = None
        #: Messages that no member has room for.
        self._waiting: deque[Item] = deque()
        #: To be called when a new group takes messages.
        self._then: list[Callable[[], None]] = []

    @property
    def position(self) -> int:
        """Messages up to here were handed to a member."""
        waiting = next((item.position for item in self._waiting if item.position), 0)
        if waiting:
            return min(waiting - 1, self._position)
        feed = self.feeds.get(0)
        return self._position if feed is None else max(feed.position, self._position)

    def room(self) -> None:
        """A member may have room."""
        while self._waiting:
            member = self._next_member(self._waiting[0])
            if member is None:
                return
            self._hand(self._waiting.popleft(), member)
        feed = self.feeds.get(0)
        if feed is not None:
            feed.room()
        elif any(member.connection is not None for member in self.members):
            self._open()

    def left(self) -> None:
        """A member has left, or lost its connection."""
        if all(member.connection is None for member in self.members):
            self._position = self.position
            self._waiting.clear()
            feed = self.feeds.get(0)
            if feed is not None:
                feed.close()

    def _open(self) -> None:
        node = self.node
        since = -1 if self._from_now else min(self._position, node.hub.position)
        seen: tuple[tuple[int, int], ...] = ()
        if self._levels is not None and not self._from_now:
            since, seen = 0, tuple(self._levels.items()) or ((node.slot, 0),)
        feed = SubscriptionsFeed(self, node.hub, self._subscriptions, (self._pattern,), since, seen)
        self.feeds[0] = feed
        node.taking.need(feed.partitions, feed.open)

    def when_in_force(self, then: Callable[[], None]) -> None:
        """Call `then` once messages that are published from now on are handed out."""
        if self._from_now:
            self._then.append(then)
        else:
            then()

    def _next_member(self, item: Item) -> DeviceSession | None:
        """The next member that is given the message at once; None: there is none."""
        assert item.message is not None
        for _ in range(len(self.members)):
            member = self.members[0]
            self.members.rotate(-1)
            one = member.subscriptions.get(self.name)
            if one is not None and member.can_write and member.outbox.takes(min(one.qos, item.message.qos)):
                return member
        return None

    def _hand(self, item: Item, member: DeviceSession) -> None:
        one = member.subscriptions.get(self.name)
        assert one is not None
        given = Given(one.qos, (one.identifier,) if one.identifier else (), one.retain_as_published)
        self._position = max(self._position, item.position)
        if self._levels is not None and item.name is not None:
            stream, seq = item.name
            self._levels[stream] = max(seq, self._levels.get(stream, 0))
        member.outbox.give([item._replace(given=given)])
        self._server.keeper.touch_group(self)

    # -- what the feed calls (`FeedOwner`) -----------------------------------------------------------------------------

    @property
    def can_write(self) -> bool:
        return not self._waiting and any(member.can_write and member.has_quota for member in self.members)

    def send(self, record: FromNode) -> None:
        if isinstance(record, Begun):
            if self._from_now:
                self._position = max(self._position, record.position)
            feed = self.feeds.get(0)
            if isinstance(feed, SubscriptionsFeed) and (
                self._from_now or (not record.position and self._levels is None)
            ):
                self._levels = feed.among(dict(record.counts))
            self._from_now = False
            self._go_by_position()
            self._server.keeper.touch_group(self)
            then, self._then = self._then, []
            for do in then:
                do()
        elif isinstance(record, Ended) and record.kind == "gap":
            self._position = max(self._position, record.first - 1)
            self.node.hub.turns.add(self, self._open_again)

    def _open_again(self) -> int:
        if 0 not in self.feeds and any(member.connection is not None for member in self.members):
            self._open()
        return 1

    def send_items(self, feed: int, dropped: int, piece: bytes) -> None:
        for position, message, name in self._server.opened_messages.of_piece(piece):
            item = Item(position, message, Given(0, (), False), group=self, name=name)
            member = self._next_member(item) if not self._waiting else None
            if member is None:
                self._waiting.append(item)
            else:
                self._hand(item, member)
        found = self.feeds.get(0)
        if isinstance(found, SubscriptionsFeed):
            found.renew_credit()
        self._go_by_position()

    def _go_by_position(self) -> None:
        """Go by position alone, once the group has handed on all messages that come from other nodes."""
        feed = self.feeds.get(0)
        if isinstance(feed, SubscriptionsFeed) and feed.live and not self._waiting and feed.stands_alone:
            self._levels = None

    def flush(self) -> None:
        """Members flush themselves."""


class SharedGroups:
    """The groups of one node, by the filters as clients write them."""

    def __init__(self, server: "MqttServer") -> None:
        self._server = server
        self._groups: dict[str, SharedGroup] = {}
        #: As they were when the node stopped.
        self.positions: dict[str, int] = {}

    def join(self, session: DeviceSession, one: Subscription, then: Callable[[], None] | None = None) -> None:
        """`then`: the subscription is in force."""
        group = self._groups.get(one.full)
        if group is None:
            position = self.positions.pop(one.full, None)
            group = self._groups[one.full] = SharedGroup(self._server, one, position)
            self._server.keeper.touch_group(group)
        if session not in group.members:
            group.members.append(session)
        session.groups[one.full] = group
        group.room()
        if then is not None:
            group.when_in_force(then)

    def leave(self, session: DeviceSession, full: str) -> None:
        group = session.groups.pop(full, None)
        if group is not None:
            group.members.remove(session)
            group.left()
            if not group.members:
                del self._groups[full]
                self._server.keeper.forget_group(group)
