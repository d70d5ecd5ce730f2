"""The notifier: the order in which a subscriber is notified (paper Figure 6; 5, event buffering).

An incomplete event waits in the `buffer`, for as long as it may. A complete event that the `clock` finds out of order
is tagged. An event of a topic not taken is dropped. A subscription waits among the events: it takes effect when
everything before the numbers it begins with, on topics taken already, was notified.
"""

from collections.abc import Callable
from typing import NamedTuple

from antecede.core import LimitError, Verdict
from antecede.core.limits import HELD_MESSAGES_MAX
from antecede.protocols.tno.buffer import Begin, Buffer, Place
from antecede.protocols.tno.clock import SubscriptionClock
from antecede.protocols.tno.event import Event, TopicId, decode_event, topic_id
from antecede.protocols.tno.outbox import ModuleOutbox
from antecede.protocols.tno.records import Came, Taken, Told
from antecede.protocols.tno.settings import Settings


class Patience(NamedTuple):
    """Timer: an event or a subscription has waited its time."""

    place: Place


class Notifier:
    """The notifier of one node, for all topics."""

    def __init__(
        self,
        out: ModuleOutbox,
        clock: SubscriptionClock,
        taken: frozenset[str],
        begun: Callable[[Begin], None],
        settings: Settings,
    ) -> None:
        """`taken`: topics from the beginning. `begun` is called with a subscription that takes effect."""
        self._out = out
        self._clock = clock
        self._begun = begun
        self._settings = settings
        self._buffer = Buffer(settings.buffer)
        self._active: dict[TopicId, str] = {topic_id(topic): topic for topic in sorted(taken)}
        #: Void numbers whose events have not come after all.
        self._voided: set[Place] = set()
        #: After a crash: events that were waiting.
        self._came: dict[Place, tuple[str, bytes]] = {}
        for topic in self._active:
            clock.joined(topic, ())

    @property
    def held(self) -> int:
        return self._buffer.held

    def waiting(self) -> list[Event]:
        return self._buffer.events()

    # -- topics -------------------------------------------------------------------------------------------------

    def takes(self, topic: str) -> bool:
        return topic_id(topic) in self._active

    def taken(self) -> list[str]:
        return sorted(self._active.values())

    def begin(self, begin: Begin) -> None:
        """All managers know a subscription. When it takes effect, now or later, `begun` is called."""
        needs = [(topic_id(other), n) for other, n in begin.floors if self.takes(other)]
        place = self._buffer.begin(begin, needs)
        if place is not None and self._settings.buffer == 0:
            self._force(place)
        elif place is not None and self._settings.ttl_us:
            self._out.wake_after(self._settings.ttl_us, Patience(place))
        self.settle()

    def enter(self, topic: str, floors: tuple[tuple[str, int], ...]) -> None:
        """The topic is taken from here on."""
        self._out.keep(Taken(topic, floors))
        self._out.joined(topic)
        self._enter(topic, floors)

    def _enter(self, topic: str, floors: tuple[tuple[str, int], ...]) -> None:
        name = topic_id(topic)
        self._active[name] = topic
        self._clock.joined(name, [(topic_id(other), n) for other, n in floors])
        self._buffer.floor(name, self._clock.seen.get(name, 0))

    def leave(self, topic: str) -> None:
        """The topic is no longer taken, if it was."""
        if self._active.pop(topic_id(topic), None) is not None:
            self._out.left(topic)
            self._clock.left(topic_id(topic))
            self._buffer.leave(topic_id(topic))
            self.settle()

    # -- events -------------------------------------------------------------------------------------------------

    def take(self, event: Event, data: bytes) -> None:
        """Take an event of a topic that is taken. Call `settle` afterwards."""
        place = (event.topic, event.number)
        needs = [entry for entry in (*event.above, *event.below) if entry[0] in self._active]
        verdict = self._buffer.offer(event, needs)
        if verdict is Verdict.READY:
            return
        if verdict is Verdict.DUPLICATE and place in self._voided:
            self._voided.discard(place)  # its publisher was slow, not silent
            verdict = Verdict.LATE
        in_order = self._clock.in_order(event)
        if verdict is Verdict.LATE or (verdict is Verdict.WAITING and not in_order):
            self._buffer.mark_settled(place)  # given up before, or out of order for good: there is nothing to wait for
            self._notify(event, in_order=in_order)
        elif verdict is Verdict.WAITING and self._buffer.circles(place):
            # Timestamps that took different routes can contradict each other: one event of a cycle must be shown.
            self._buffer.mark_settled(place)
            self._notify(event, in_order=False)
        elif verdict is Verdict.WAITING:
            self._out.keep(Came(self._active[event.topic], data))
            if self._settings.ttl_us:
                self._out.wake_after(self._settings.ttl_us, Patience(place))
            oldest = self._buffer.overfull()
            if oldest is not None:
                self._force(oldest)
        elif verdict is Verdict.FULL:
            raise LimitError("events held", self._buffer.held, HELD_MESSAGES_MAX, "set a smaller buffer or a ttl")

    def void(self, topic: str, number: int) -> None:
        """Settle a void number, whose event may come after all. Call `settle` afterwards."""
        place = (topic_id(topic), number)
        if not self._buffer.reached(place):
            self._buffer.mark_settled(place)
            self._voided.add(place)
            self._out.keep(Told(*place, False, void=True))

    def settle(self) -> None:
        """Notify events that are complete."""
        while ready := self._buffer.take():
            for item in ready:
                if isinstance(item, Begin):
                    self._begun(item)
                elif item.topic in self._active:
                    self._notify(item, in_order=self._clock.in_order(item))

    def wake(self, timer: Patience) -> None:
        if self._buffer.holds(timer.place):
            self._force(timer.place)
            self.settle()

    def _notify(self, event: Event, *, in_order: bool) -> None:
        if in_order:
            self._clock.notified(event.topic, event.number, event.epoch, event.above)
            self._out.keep(Told(event.topic, event.number, True, event.epoch, event.above))
        else:
            self._clock.tagged(event.topic, event.number)
            self._out.keep(Told(event.topic, event.number, False))
        self._out.deliver(event.message, out_of_order=not in_order)

    def _force(self, place: Place) -> None:
        """Stop waiting: predecessors that are here go first; others are late if they come."""
        path = [place]
        while path:
            if not self._buffer.holds(path[-1]):
                path.pop()
                continue
            first = self._buffer.before(path[-1])
            if first is not None:
                path.append(first)  # there are no cycles in the buffer
                continue
            self._buffer.give_up(path[-1])
            self.settle()
            assert not self._buffer.holds(path[-1]), "an event that waits for nothing comes out"

    # -- crashes ------------------------------------------------------------------------------------------------

    def restore(self, record: Taken | Came | Told) -> None:
        match record:
            case Taken():
                self._enter(record.topic, record.floors)
            case Came():
                event = decode_event(record.topic, record.data)
                self._came[event.topic, event.number] = record.topic, record.data
            case Told():
                place = record.topic, record.number
                self._came.pop(place, None)
                self._buffer.mark_settled(place)
                if record.void:
                    self._voided.add(place)
                    return
                self._voided.discard(place)
                if record.in_order:
                    self._clock.notified(*place, record.epoch, record.above)
                else:
                    self._clock.tagged(*place)

    def forget(self, topic: str) -> None:
        """During restore: the topic was left."""
        self._active.pop(topic_id(topic), None)

    def came(self) -> list[tuple[str, bytes]]:
        """After a crash: return once the events that were waiting, with their topics."""
        came, self._came = self._came, {}
        return list(came.values())
