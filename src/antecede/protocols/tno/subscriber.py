"""The subscriber: which topics are taken, and from which number on (paper Figures 7 and 8). `notifier` has the order.

To subscribe, the event service comes first, so that no event between the subscription's timestamp and the service's
first event is missed. Then the subscription visits the managers of all its topics, the lowest first; each registers it
and adds how far it has come. The subscription takes effect when everything before these numbers, on topics taken
already, was notified. Until then events of the new topic are held. Changes are made one at a time, each with a version.

It matters to visit the lowest first, by the order of one epoch. An event of the lower topic without an entry for the
higher one was then numbered before any event of the higher one that this subscriber will be notified of.
"""

from collections import deque
from collections.abc import Callable
from typing import Literal, NamedTuple

from antecede.core import LimitError, Packet
from antecede.core.limits import HELD_MESSAGES_MAX
from antecede.protocols.tno.attachment import Attachments
from antecede.protocols.tno.buffer import Begin
from antecede.protocols.tno.clock import SubscriptionClock
from antecede.protocols.tno.event import Event, decode_event
from antecede.protocols.tno.notifier import Notifier, Patience
from antecede.protocols.tno.order import Ranks
from antecede.protocols.tno.outbox import ModuleOutbox
from antecede.protocols.tno.packets import FillSub, SubAck, SubAgain, SubDone, UpdateSub, Void, VoidAck
from antecede.protocols.tno.records import Came, Taken, Told, Versioned, Wanted
from antecede.protocols.tno.settings import Settings


class SubscriberTick(NamedTuple):
    """Timer: the change under way was not answered."""

    version: int


class _Change(NamedTuple):
    what: Literal["join", "leave"]
    topic: str


class Subscriber:
    """The subscriber of one node, for all topics."""

    def __init__(
        self,
        node: int,
        out: ModuleOutbox,
        post: Callable[[int | str, Packet], None],
        settings: Settings,
        clock: SubscriptionClock,
    ) -> None:
        taken = settings.founders.get(node, frozenset())
        self._node = node
        self._out = out
        self._post = post
        self._settings = settings
        #: How often the change under way was requested.
        self._tried = 0
        self._ranks, self._epoch = Ranks(settings.order), 0
        self._notifier = Notifier(out, clock, taken, self._begin, settings)
        self._service = Attachments(out, taken)
        #: Topics that the application wants, and those that managers may have registered.
        self.wants = set(taken)
        self._registered = set(taken)
        #: By topic not taken yet: what came of it.
        self._hold: dict[str, list[tuple[Event, bytes] | int]] = {}
        self._version = 0
        self._changes: deque[_Change] = deque()
        self._now: _Change | None = None
        #: Is no answer awaited? For a leave: the managers whose answers are awaited.
        self._answered = True
        self._unacked: set[str] = set()
        #: After a crash: topics that the service may give, wanted or not.
        self._mentioned: set[str] = set()

    @property
    def held(self) -> int:
        return self._notifier.held + sum(len(held) for held in self._hold.values())

    def waiting(self) -> list[Event]:
        """Events that came and are not notified."""
        held = [item[0] for some in self._hold.values() for item in some if not isinstance(item, int)]
        return [*self._notifier.waiting(), *held]

    def takes(self, topic: str) -> bool:
        return self._notifier.takes(topic)

    # -- the application ----------------------------------------------------------------------------------------

    def subscribe(self, topic: str) -> None:
        if topic in self.wants:
            return
        self.wants.add(topic)
        self._out.keep(Wanted(topic, True))
        self._hold[topic] = []
        self.need(topic)
        self._change(_Change("join", topic))

    def unsubscribe(self, topic: str) -> None:
        if topic not in self.wants:
            return
        self.wants.discard(topic)
        self._out.keep(Wanted(topic, False))
        self._hold.pop(topic, None)
        self._notifier.leave(topic)
        self._change(_Change("leave", topic))

    # -- the event service --------------------------------------------------------------------------------------

    def served(self, topic: str) -> None:
        """The service gives this node the events of `topic` from now on."""
        if self._service.joined(topic) and self._now == _Change("join", topic):
            self._ask()

    def not_served(self, topic: str) -> None:
        """The service no longer gives `topic`. If it broke off, subscribe again."""
        if self._service.left(topic) and topic in self.wants:
            self._rejoin(topic)

    def _rejoin(self, topic: str) -> None:
        """Events of `topic` were missed: take it from another number on."""
        self._hold[topic] = []
        self._notifier.leave(topic)
        join = _Change("join", topic)
        if self._now == join:  # asks again when it is served; an answer to the present request would be too early
            self._version += 1
            self._answered = True
        elif join not in self._changes:
            self._change(join)

    def need(self, topic: str) -> None:
        """Attach to `topic` at the service, to take it or to publish on it."""
        self._service.need(topic)

    def release(self, topic: str) -> None:
        """Detach from `topic` at the service."""
        self._service.release(topic)

    def unneeded(self) -> list[str]:
        """Topics that the service gives and that are not wanted."""
        unwanted = self._service.besides(self.wants)
        if not unwanted:
            return []
        busy = {change.topic for change in (self._now, *self._changes) if change is not None}
        return sorted(set(unwanted) - busy)

    def arrived(self, topic: str, data: bytes) -> None:
        """The service gave an event."""
        event = decode_event(topic, data)
        hold = self._hold.get(topic)
        if hold is not None:
            if len(hold) >= HELD_MESSAGES_MAX:
                raise LimitError(f"events of {topic}", len(hold), HELD_MESSAGES_MAX, "check the topic's managers")
            hold.append((event, data))
        elif self.takes(topic):
            self._notifier.take(event, data)
            self._notifier.settle()

    # -- managers -----------------------------------------------------------------------------------------------

    def voided(self, void: Void) -> None:
        self._post(void.topic, VoidAck(void.topic, self._node, void.numbers))
        if void.topic in self._hold:
            self._hold[void.topic] += void.numbers
        elif self.takes(void.topic):
            for number in void.numbers:
                self._notifier.void(void.topic, number)
            self._notifier.settle()

    def joined(self, done: SubDone) -> None:
        """All managers know the subscription, and said how far they are."""
        if done.version != self._version or self._now is None or self._now.what != "join":
            return
        if self._answered:
            return
        self._answered = True
        self._notifier.begin(Begin(self._now.topic, done.version, done.floors))

    def joined_too_early(self, again: SubAgain) -> None:
        """The order of topics has changed: ask again."""
        if again.epoch > self._epoch:
            self._ranks, self._epoch = Ranks(again.order), again.epoch
            if self._now is not None and self._now.what == "join" and not self._answered:
                self._send_change()

    def acknowledged(self, ack: SubAck) -> None:
        if ack.version == self._version and self._now is not None and self._now.what == "leave":
            self._unacked.discard(ack.topic)
            if not self._unacked:
                self._changed()

    def wake(self, timer: SubscriberTick | Patience) -> None:
        if isinstance(timer, Patience):
            self._notifier.wake(timer)
        elif timer.version == self._version and self._now is not None and not self._answered:
            self._send_change()

    def unfinished(self) -> list[str]:
        return [f"waits to {change.what} {change.topic}" for change in (self._now, *self._changes) if change]

    # -- changes of the subscription, one at a time -------------------------------------------------------------

    def _change(self, change: _Change) -> None:
        self._changes.append(change)
        self._next_change()

    def _next_change(self) -> None:
        while self._now is None and self._changes:
            self._now = self._changes.popleft()
            if self._now.what == "leave":
                self._notifier.leave(self._now.topic)
                self._registered.discard(self._now.topic)
                self._unacked = {*self._registered, self._now.topic}
                self._ask()
            elif self._now.topic not in self.wants or self.takes(self._now.topic):
                self._now = None  # left before it was begun
            elif self._service.gives(self._now.topic):
                self._ask()

    def encourage(self) -> None:
        """A node is back, perhaps the one that did not answer: try again."""
        tries = self._settings.tries
        if tries and self._tried >= tries and self._now is not None and not self._answered:
            self._tried = 0
            self._send_change()

    def _changed(self) -> None:
        self._now, self._answered = None, True
        self._next_change()

    def _ask(self) -> None:
        assert self._now is not None
        self._version += 1
        self._tried = 0
        self._answered = False
        if self._now.what == "join":
            self._registered.add(self._now.topic)
        self._out.keep(Versioned(self._version, tuple(sorted(self._registered))))
        self._send_change()

    def _send_change(self) -> None:
        assert self._now is not None
        topics = tuple(sorted(self._registered))
        if self._now.what == "join":
            route = self._ranks.upwards(self._registered)
            self._post(route[0], FillSub(self._node, self._version, topics, self._epoch, route, ()))
        else:
            for topic in sorted(self._unacked):
                taken = topics if topic in self._registered else ()
                self._post(topic, UpdateSub(topic, self._node, self._version, taken))
        self._tried += 1
        if not self._settings.tries or self._tried < self._settings.tries:
            self._out.wake_after(self._settings.retry_us, SubscriberTick(self._version))

    def _begin(self, begin: Begin) -> None:
        """The topic is taken from here on."""
        if begin.version != self._version:
            return  # the service broke off meanwhile
        if _Change("leave", begin.topic) in self._changes:
            self._changed()  # it was left meanwhile; what is held of it is for when it is taken again
            return
        self._notifier.enter(begin.topic, begin.floors)
        for item in self._hold.pop(begin.topic):
            if isinstance(item, int):
                self._notifier.void(begin.topic, item)
            else:
                self._notifier.take(*item)
        self._changed()

    # -- crashes ------------------------------------------------------------------------------------------------

    def restore(self, record: Wanted | Versioned | Taken | Came | Told) -> None:
        match record:
            case Wanted():
                self._mentioned.add(record.topic)
                if record.wanted:
                    self.wants.add(record.topic)
                else:
                    self.wants.discard(record.topic)
                    self._notifier.forget(record.topic)
            case Versioned():
                self._version = record.version
                self._registered = set(record.topics)
            case Taken() | Came() | Told():
                self._notifier.restore(record)

    def start(self, served: Callable[[str], bool]) -> None:
        """Continue after a crash with what was requested. `served` says which topics the service still gives."""
        known = self.wants | self._registered | self._mentioned
        self._service.begin(sorted([topic for topic in known if served(topic)]))
        for topic in self._notifier.taken():
            if not self._service.gives(topic):
                self._notifier.leave(topic)  # the service had broken off
        for topic, data in self._notifier.came():
            self.arrived(topic, data)
        for topic in sorted(self._registered - self.wants):
            self._change(_Change("leave", topic))
        for topic in sorted(self.wants.difference(self._notifier.taken())):
            self.wants.discard(topic)
            self.subscribe(topic)
