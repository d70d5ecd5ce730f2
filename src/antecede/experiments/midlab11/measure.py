"""Measures of the TNO paper (6.1), read off a run as it happens.

An event's way has three parts. Its timestamp is made: from the publication until the event service is given the event.
The service carries it: until it has reached a subscriber. The subscriber may hold it: until it is notified. *End to
end* is from the publication to the last subscriber that is notified.

A timestamp has an entry for the event's own topic and for each topic above that some node takes together with it.
TNO+'s further entries, for topics below, are counted apart. Entries are read off the events, so a publisher that
manages a topic itself counts like any other; packets are those that went over a link.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import msgspec

from antecede.core import Message, Packet
from antecede.core.message import TopicMessageId
from antecede.experiments.base import Metrics
from antecede.protocols.tno.event import ENTRY_BYTES, Event, decode_event
from antecede.protocols.tno.packets import PACKETS, Create, Fill, NewOrder, Stamp
from antecede.sim import RunSpec, simulate
from antecede.sim.engine import SilentObserver
from antecede.sim.units import TICKS

#: Ticks of a second: 1 u.t. counts as 1 ms.
SECOND = 1000 * TICKS

_MAKING = (Create, Fill, Stamp)


class _Way:
    """One event."""

    def __init__(self, published: int) -> None:
        self.published = published
        #: When the service first sent it; never, where its publisher is alone.
        self.out: int | None = None
        self.stamp: Event | None = None
        self.came: dict[int, int] = {}
        self.notified: dict[int, int] = {}

    @property
    def end_to_end(self) -> int:
        return max(self.notified.values()) - self.published

    @property
    def ordering(self) -> int:
        return (self.out if self.out is not None else max(self.notified.values())) - self.published

    @property
    def service(self) -> int:
        """Until it had reached the last node that was notified."""
        start = self.published + self.ordering
        return max([time - start for node, time in self.came.items() if node in self.notified], default=0)

    @property
    def held(self) -> list[int]:
        return [self.notified[node] - time for node, time in self.came.items() if node in self.notified]


class Notified(msgspec.Struct, frozen=True):
    """A notification of one subscriber: the event, and whether it was tagged out of order."""

    event: TopicMessageId
    tagged: bool


class Ways(SilentObserver):
    """An observer that follows every event."""

    def __init__(self, *, ordered: bool, keep: Sequence[int] = ()) -> None:
        """`ordered`: are the service's messages events with timestamps? `keep`: whose notifications to list."""
        self.ways: dict[TopicMessageId, _Way] = {}
        self.seen: dict[int, list[Notified]] = {node: [] for node in keep}
        self._ordered = ordered
        self._packets: Counter[str] = Counter()
        self._notified = self._tagged = 0
        self._swaps = 0

    def published(self, now: int, node: int, message: Message) -> None:
        self.ways[message.id] = _Way(now)

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None:
        if isinstance(packet, PACKETS):
            self._packets["making" if isinstance(packet, _MAKING) else "keeping"] += 1
            if isinstance(packet, NewOrder):
                self._swaps = max(self._swaps, packet.epoch)
        for message in packet.messages:
            way = self.ways[message.id]
            if way.out is None:
                way.out = now
                if self._ordered:
                    way.stamp = decode_event(message.topic, message.payload)

    def received(self, now: int, node: int, sender: int, number: int, packet: Packet, size: int) -> None:
        if packet.kind != "post":
            for message in packet.messages:
                if node != message.source:  # which has had it from the beginning
                    self.ways[message.id].came.setdefault(node, now)

    def delivered(self, now: int, node: int, message: Message, *, out_of_order: bool = False) -> None:
        self._notified += 1
        self._tagged += out_of_order
        self.ways[message.id].notified[node] = now
        if node in self.seen:
            self.seen[node].append(Notified(message.id, out_of_order))

    def metrics(self) -> dict[str, Any]:
        """Times in seconds, shares in percent, sizes in entries of 24 bytes."""
        # An event may have no subscriber: the old ones have left, and the new ones have not joined yet.
        ways = [way for way in self.ways.values() if way.notified]
        stamps = [way.stamp for way in ways if way.stamp is not None]
        held = [time for way in ways for time in way.held]
        return {
            "events": len(self.ways),
            "end_to_end": _seconds([way.end_to_end for way in ways]),
            "ordering": _seconds([way.ordering for way in ways]),
            "service": _seconds([way.service for way in ways]),
            "held": _seconds(held),
            "within_second": 100 * fmean([way.end_to_end <= SECOND for way in ways] or [0]),
            "tagged": 100 * self._tagged / max(1, self._notified),
            "entries": fmean([1 + len(stamp.above) for stamp in stamps]) if stamps else 0.0,
            "entries_below": fmean([len(stamp.below) for stamp in stamps]) if stamps else 0.0,
            "making": self._packets["making"] / len(self.ways),
            "keeping": self._packets["keeping"] / len(self.ways),
            "for_others": _for_others(stamps),
            "swaps": self._swaps,
        }

    def series(self, each: int) -> list[tuple[float, float]]:
        """For every `each` events in the order of publication: end-to-end seconds, and bytes of a timestamp."""
        ways = sorted(self.ways.values(), key=lambda way: way.published)
        found = []
        for start in range(0, len(ways) - each + 1, each):
            some = ways[start : start + each]
            entries = [1 + len(way.stamp.above) for way in some if way.stamp is not None]
            times = [way.end_to_end for way in some if way.notified]
            found.append((_seconds(times), ENTRY_BYTES * fmean(entries or [0])))
        return found


def follow(spec: RunSpec, *, keep: Sequence[int] = ()) -> Ways:
    """Run, and follow every event."""
    ways = Ways(ordered=spec.protocol == "tno", keep=keep)
    simulate(spec, measure=False, watch=[ways])
    return ways


def measured(spec: RunSpec) -> Metrics:
    return follow(spec).metrics()


def _seconds(times: Sequence[int]) -> float:
    return fmean(times) / SECOND if times else 0.0


def _for_others(stamps: Sequence[Event]) -> float:
    """Message overhead (paper 6.1): of what a manager does for timestamps, how much is for other topics' events."""
    own: Counter[bytes] = Counter()
    others: defaultdict[bytes, int] = defaultdict(int)
    for stamp in stamps:
        own[stamp.topic] += 1
        for topic, _ in stamp.above:
            others[topic] += 1
    managers = own.keys() | others.keys()
    shares = [others[topic] / (own[topic] + others[topic]) for topic in managers]
    return 100 * fmean(shares) if shares else 0.0
