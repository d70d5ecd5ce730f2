"""The feed of one MQTT session: one for all its subscriptions, so that a client gets all messages in causal order.

A feed of a client of our own has its filters from the start. This one is given filters and loses them as the client
subscribes and unsubscribes. A message that the feed gives may be older than the subscription that it matches: the
session leaves those out (`Subscription.since`).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from antecede.core.limits import FILTER_LEVEL_BYTES
from antecede.core.partitions import split_stream
from antecede.node.feed import Feed
from antecede.node.owners import FeedOwner
from antecede.node.shares import feed_bytes
from antecede.wire.mqtt.subscriptions import Subscriptions
from antecede.wire.requests import CREDIT_MAX, Subscribe

if TYPE_CHECKING:
    from antecede.node.hub import Hub


def filter_bytes(pattern: str) -> int:
    """The memory that a filter costs, about."""
    return FILTER_LEVEL_BYTES * (pattern.count("/") + 1) + 4 * len(pattern)


class SubscriptionsFeed(Feed):
    """Takes what the subscriptions of a session match."""

    def __init__(
        self,
        session: FeedOwner,
        hub: "Hub",
        subscriptions: Subscriptions,
        patterns: tuple[str, ...],
        since: int,
        seen: tuple[tuple[int, int], ...] = (),
    ) -> None:
        """`patterns`: of the subscriptions, at least one. `seen`: by stream, what the client had at another node."""
        wanted = Subscribe(0, patterns, CREDIT_MAX, since=since, seen=seen, window=CREDIT_MAX, over_gaps=True)
        super().__init__(session, hub, wanted)
        session.feeds_share.add(feed_bytes(wanted))
        self._subscriptions = subscriptions
        #: Called when everything up to now was given.
        self.on_live: Callable[[], None] | None = None
        self.on_close = lambda: session.node.taking.release(self.partitions)

    @property
    def stands_alone(self) -> bool:
        """Does its position say what the client was given? Not where the node lacks messages behind it."""
        if not self.position or any(self.hub.delivered.get(at, 0) < seq for at, seq in self.had.items()):
            return False
        return all(gap.partition not in self.partitions for gap in self.hub.history.gaps_from(self.position))

    def delivered(self) -> dict[int, int]:
        """By stream of its partitions: how far this node is."""
        return self.among(self.hub.delivered)

    def among(self, levels: Mapping[int, int]) -> dict[int, int]:
        """Those of its partitions."""
        return {at: seq for at, seq in levels.items() if split_stream(at)[0] in self.partitions}

    def takes(self, topic: str) -> bool:
        return self._subscriptions.takes(topic)

    def widen(self, pattern: str, then: Callable[[], None]) -> bool:
        """Take what `pattern` matches, too; `then`: it does. False: the client's filters cost too much memory."""
        if pattern in self.patterns:
            then()
            return True
        size = filter_bytes(pattern)
        if not self.session.feeds_share.take(size):
            return False
        self._bytes += size
        self._look_on()
        self.patterns = (*self.patterns, pattern)
        self.hub.widen(self, pattern)
        more = self.hub.partitions.of_filter(pattern) - self.partitions
        self.partitions |= more
        self.session.node.taking.need(more, then)
        return True

    def narrow(self, pattern: str) -> None:
        if pattern in self.patterns:
            self._look_on()
            self.patterns = tuple([one for one in self.patterns if one != pattern])
            self.hub.narrow(self, pattern)
            size = filter_bytes(pattern)
            self._bytes -= size
            self.session.feeds_share.give_back(size)

    def _become_live(self) -> None:
        super()._become_live()
        if self.on_live is not None:
            self.flush()
            self.on_live()

    def _look_on(self) -> None:
        """A live feed has looked at everything up to now, with the filters that it had."""
        if self.live and not self.lagging:
            self.position = max(self.position, self.hub.position)

    def renew_credit(self) -> None:
        """The session's own bounds stop the feed, by `can_write`."""
        self.credit = CREDIT_MAX
