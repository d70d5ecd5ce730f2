"""The errors of the printed algorithm put back, one at a time (docs/errors_in_papers.md).

Each undoes one repair of the clock, of the managers or of the publishers. The search that finds nothing in ours must
find every one of these; otherwise it proves nothing.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from antecede.protocols.tno import Event, Manager, Publisher, SubscriptionClock
from antecede.protocols.tno.event import Entry, TopicId
from antecede.protocols.tno.machine import Judgement, Out
from antecede.protocols.tno.packets import Fill, NewOrder, Request, Stamp


class StrictAnywhere(SubscriptionClock):
    """Definition 3: somewhere the number must be higher, not necessarily on the event's own topic."""

    def __init__(self, *, printed: bool = False) -> None:
        super().__init__(printed=True)

    def in_order(self, event: Event) -> bool:
        entries = [entry for entry in ((event.topic, event.number), *event.above) if entry[0] in self._taken]
        rises = any(self.have.get(topic, 0) < number for topic, number in entries)
        return event.epoch >= self.epoch and rises and all(self.have.get(topic, 0) <= n for topic, n in entries)


class NeedsTwo(Manager):
    """Figure 4 line 06: a topic is in the sequencing group when two subscriptions have both, not one."""

    def _sequencing(self, subscriptions: Collection[tuple[str, ...]]) -> frozenset[str]:
        counts = Counter(topic for topics in subscriptions for topic in topics)
        return frozenset(topic for topic, count in counts.items() if count > 1) - {self.topic}


class ResetsTheClock(SubscriptionClock):
    """Figure 7 line 06: a subscription's timestamp replaces the clock."""

    def joined(self, topic: TopicId, floors: Iterable[Entry]) -> None:
        self._taken.add(topic)
        self.seen.update(floors)
        self.have.update(floors)


class ForgetsWhatItLeft(SubscriptionClock):
    """The clock has entries of the topics subscribed to, so leaving one drops its entry."""

    def left(self, topic: TopicId) -> None:
        self._taken.discard(topic)
        self.seen.pop(topic, None)
        self.have.pop(topic, None)


class SeesOnlyItsOwn(SubscriptionClock):
    """Figure 6 line 03: only entries the clock has are raised."""

    def notified(self, topic: TopicId, number: int, epoch: int, above: Iterable[Entry]) -> None:
        super().notified(topic, number, epoch, [entry for entry in above if entry[0] in self._taken])

    def left(self, topic: TopicId) -> None:
        self._taken.discard(topic)  # what it has of it stays: to forget that is another error


class KnowsNoEpoch(SubscriptionClock):
    """T_s is in every timestamp, but no subscriber takes it, so nobody compares it."""

    def in_order(self, event: Event) -> bool:
        return super().in_order(event._replace(epoch=self.epoch))


class ForgetsItsTags(SubscriptionClock):
    """Ours: shows as in order what came before an event of the same topic that was shown already, tagged."""

    def tagged(self, topic: TopicId, number: int) -> None:
        """Nothing."""


class InfersTheOrder(Manager):
    """A manager that meets a timestamp of a later epoch takes the order from it: only that of a group."""

    _inferred = False

    def judge(self, request: Request) -> Judgement:
        if isinstance(request, NewOrder) and self._inferred and request.epoch == self._state.epoch:
            return "now"
        return super().judge(request)

    def apply(self, request: Request) -> list[Out]:
        if isinstance(request, NewOrder):
            self._inferred = False
        return super().apply(request)

    def _fill(self, fill: Fill) -> list[Out]:
        if fill.epoch > self._state.epoch:
            group = [fill.topic, *[topic for topic, _ in fill.above], *[topic for topic, _ in fill.route]]
            places = sorted(self._state.order.index(topic) for topic in group)
            order = list(self._state.order)
            for place, topic in zip(places, reversed(group), strict=True):
                order[place] = topic
            self._state.epoch, self._state.order = fill.epoch, tuple(order)
            self._inferred = True
            self._refresh()
        return super()._fill(fill)


class TakesAnyNumber(Publisher):
    """Ours: publishes with a number of before its manager lost patience, though an earlier event has a later one."""

    def _is_old(self, stamp: Stamp, last: int) -> bool:
        return False


CLOCKS: tuple[type[SubscriptionClock], ...] = (
    StrictAnywhere,
    ResetsTheClock,
    ForgetsWhatItLeft,
    SeesOnlyItsOwn,
    KnowsNoEpoch,
    ForgetsItsTags,
)
MANAGERS: tuple[type[Manager], ...] = (NeedsTwo, InfersTheOrder)
PUBLISHERS: tuple[type[Publisher], ...] = (TakesAnyNumber,)
