"""Messages that some feeds are given before their turn.

The driver shows packets as they arrive (`arrived`). A message that is not delivered within the same turn of the event
loop waits for others. Feeds of order `none` are given it then, feeds of order `fifo` behind the previous message of its
source. Feeds with a maximum age are given it when it has that age (`max_age`); one timer serves all of them.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from antecede.core import Message, Packet
from antecede.journal.clock import wall_us
from antecede.node.history import Entry, topic_of
from antecede.node.max_age import MaxAge
from antecede.wire.envelope import time_of

if TYPE_CHECKING:
    from antecede.node.feed import Feed
    from antecede.node.hub import Hub

#: The timer rings at least so often while messages wait: the time of day may be set.
_RING_S: Final = 1.0


class EarlyOffers:
    """Offers messages to the feeds of a hub before their turn."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        #: How many feeds may be given messages before their turn, and how many of them by their order.
        self.feeds = 0
        self._orders: Counter[str] = Counter()
        #: By maximum age in microseconds: what decides for the feeds that have it.
        self.ages: dict[int, MaxAge[Entry]] = {}
        self._aged: Counter[int] = Counter()
        #: The time of day. Ages are measured by it.
        self.now_us: Callable[[], int] = wall_us
        self._timer: asyncio.TimerHandle | None = None
        self._rings_us = 0
        # Messages that just arrived; those that are not delivered yet, by stream.
        self._arrived: list[Message] = []
        self._ahead: dict[int, dict[int, Entry]] = {}
        self._fifo: dict[int, int] = {}

    def open(self, feed: "Feed") -> None:
        self.feeds += feed.takes_early
        self._orders[feed.order] += feed.takes_early
        if feed.max_age_us:
            self._aged[feed.max_age_us] += 1
            feed.left_out.limit(self.ages.setdefault(feed.max_age_us, MaxAge(feed.max_age_us)))

    def close(self, feed: "Feed") -> None:
        self.feeds -= feed.takes_early
        self._orders[feed.order] -= feed.takes_early
        if feed.max_age_us:
            self._aged[feed.max_age_us] -= 1
            if not self._aged[feed.max_age_us]:
                del self._aged[feed.max_age_us], self.ages[feed.max_age_us]
        if not self.feeds:
            self._ahead = {}

    def arrived(self, packets: Iterable[Packet]) -> None:
        """Packets that arrived, before the protocol has put their messages in order."""
        if not self._arrived:
            asyncio.get_running_loop().call_soon(self._hurry)
        known = self._hub.partitions.number
        self._arrived += [message for packet in packets for message in packet.messages if known(message.topic) >= 0]

    def settle(self, streams: list[int], messages: list[Message]) -> None:
        """These messages were delivered."""
        for age in self.ages.values():
            for stream, message in zip(streams, messages, strict=True):
                age.settle((stream, message.seq))
        waiting = self._ahead
        if not waiting:
            return
        for stream, message in zip(streams, messages, strict=True):
            ahead = waiting.get(stream)
            if ahead is not None:
                ahead.pop(message.seq, None)
        for stream in list(waiting):
            self._go_on(stream)
            if not waiting[stream]:
                del waiting[stream]

    def skip(self, reached: Mapping[int, int]) -> None:
        """Messages up to these, by stream, are never delivered."""
        for stream, last in reached.items():
            ahead = self._ahead.get(stream, {})
            for seq in [seq for seq in ahead if seq <= last]:
                del ahead[seq]
                for age in self.ages.values():
                    age.settle((stream, seq))

    def _hurry(self) -> None:
        """Offer messages that arrived in the last turn and are not delivered yet."""
        arrived, self._arrived = self._arrived, []
        if not self.feeds:
            return
        hub = self._hub
        now_us = self.now_us() if self.ages else 0
        for stream, message in zip(hub.partitions.streams(arrived), arrived, strict=True):
            seq = message.seq
            ahead = self._ahead.setdefault(stream, {})
            if seq <= hub.delivered.get(stream, 0) or seq in ahead:
                continue
            entry = ahead[seq] = Entry(0, message, stream, 0, topic_of(message))
            self._offer(entry, "none")
            self._go_on(stream)
            if self.ages:
                self._hold(entry, now_us)
        for stream in [stream for stream, ahead in self._ahead.items() if not ahead]:
            del self._ahead[stream]
        self._set_timer()
        hub.flush()

    def _go_on(self, stream: int) -> None:
        """Give `fifo` feeds the messages of this stream that follow those they have."""
        ahead = self._ahead.get(stream, {})
        last = max(self._fifo.get(stream, 0), self._hub.delivered.get(stream, 0))
        while last and last + 1 in ahead:  # before its first delivery a stream may begin anywhere
            last += 1
            self._offer(ahead[last], "fifo")
        self._fifo[stream] = last

    def _offer(self, entry: Entry, order: str) -> None:
        if entry.topic is not None and self._orders[order]:
            self._hub.offer_early(entry, [feed for feed in self._hub.matching(entry.topic) if feed.order == order])

    # -- feeds with a maximum age --------------------------------------------------------------------------------------

    def _hold(self, entry: Entry, now_us: int) -> None:
        """A message waits: for at most as long as it may be old."""
        if entry.topic is not None:
            message = entry.message
            waits = entry._replace(held_us=now_us)  # when it came, until it is released
            for max_age_us in {feed.max_age_us for feed in self._hub.matching(entry.topic)} - {0}:
                name = entry.stream, message.seq
                self.ages[max_age_us].hold(name, time_of(message.payload), message.clock, waits, now_us)

    def release_due(self) -> None:
        """Do what the timer would, if it is due: the turn of other messages has come, and those may be later."""
        if self._timer is not None and self.now_us() >= self._rings_us:
            self.release()

    def release(self) -> None:
        """Give messages that have reached the maximum age of feeds to those feeds."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_us = self.now_us()
        for max_age_us, age in list(self.ages.items()):
            for waits in age.release(now_us):
                assert waits.topic is not None
                feeds = [feed for feed in self._hub.matching(waits.topic) if feed.max_age_us == max_age_us]
                self._hub.offer_early(waits._replace(held_us=max(0, now_us - waits.held_us)), feeds)
        self._set_timer()
        self._hub.flush()

    def _set_timer(self) -> None:
        due = [due_us for age in self.ages.values() if (due_us := age.next_due_us()) is not None]
        if due and (self._timer is None or min(due) < self._rings_us):
            if self._timer is not None:
                self._timer.cancel()
            self._rings_us = min(due)
            delay_s = min(_RING_S, max(0, self._rings_us - self.now_us()) / 1_000_000)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self.release)
