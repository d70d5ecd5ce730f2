"""The publisher: gets timestamps for events and gives the events to the event service (paper Figure 5 (a)).

An event is named by its topic, its publisher and its sequence number from the moment it is published. So a request can
be repeated without end, and a second timestamp for it is recognised. Timestamps may come in any order. The events of a
topic go to the service in the order of publication, with rising numbers. A timestamp from before its lease expired
(`leases`) may have a lower number than an earlier event's; such a timestamp is requested again.

At most `window` requests are under way. With a window of 1 an event's timestamp is begun after that of the previous
event is complete, on whatever topic. Order is then causal across topics, too, at the price of a trip up the order for
each event.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from antecede.core import LimitError, Message, Packet
from antecede.core.limits import DEPENDENCIES_MAX, HELD_MESSAGES_MAX
from antecede.protocols.tno.event import encode_event
from antecede.protocols.tno.outbox import ModuleOutbox
from antecede.protocols.tno.packets import Create, Published, PublishedAck, Stamp
from antecede.protocols.tno.records import Asked, Out
from antecede.protocols.tno.retries import Retries
from antecede.protocols.tno.settings import Settings

#: Sends to a node, or to the manager of a topic.
Post: TypeAlias = Callable[[int | str, Packet], None]


class PublisherTick(NamedTuple):
    """Timer: repeat what was not answered."""


class PublishedDue(NamedTuple):
    """Timer: tell the topic's manager what is published."""

    topic: str


class _Topic:
    """The events under way on one topic."""

    def __init__(self) -> None:
        #: The last event published by the application; given to the service; confirmed by it.
        self.asked = self.given = self.out = 0
        #: The number of the last event given to the service.
        self.number = 0
        self.messages: dict[int, Message] = {}
        self.stamps: dict[int, Stamp] = {}
        #: Published events that the manager has not acknowledged, with their numbers.
        self.untold: dict[int, int] = {}
        #: Events given to the service and not confirmed, with their numbers.
        self.unconfirmed: dict[int, int] = {}
        self.due = False


class Publisher:
    """The publisher of one node, for all topics."""

    def __init__(self, node: int, out: ModuleOutbox, post: Post, settings: Settings) -> None:
        self._node = node
        self._out = out
        self._post = post
        self._settings = settings
        self._topics: dict[str, _Topic] = {}
        self._queue: deque[Message] = deque()
        #: Requests under way, with the tick in which each was made.
        self._open: dict[tuple[str, int], int] = {}
        self._ticks = 0
        wake = lambda: self._out.wake_after(settings.retry_us, PublisherTick())  # noqa: E731
        self._retries = Retries(settings.tries, self._waits, wake)
        self.encourage = self._retries.encourage

    # -- inputs -------------------------------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes) -> Message:
        if len(self._queue) >= HELD_MESSAGES_MAX:
            raise LimitError("events to be stamped", len(self._queue), HELD_MESSAGES_MAX, "publish more slowly")
        on = self._on(topic)
        on.asked += 1
        message = Message(topic, self._node, on.asked, (), payload)
        on.messages[message.seq] = message
        self._out.keep(Asked(message))
        self._queue.append(message)
        self._retries.answered()
        self._go_on()
        return message

    def stamped(self, stamp: Stamp) -> None:
        """A timestamp came: the first for an event counts."""
        on = self._topics.get(stamp.topic)
        if on is None or stamp.source != self._node or stamp.seq in on.stamps or stamp.seq not in on.messages:
            return
        self._retries.answered()
        on.stamps[stamp.seq] = stamp
        self._open.pop((stamp.topic, stamp.seq), None)
        while (due := on.stamps.pop(on.given + 1, None)) is not None:
            if self._is_old(due, on.number):
                self._request_anew(due, at_once=due is not stamp)
                break
            on.given += 1
            on.number = due.number
            message = on.messages.pop(on.given)
            on.unconfirmed[on.given] = due.number
            self._out.ens_publish(stamp.topic, encode_event(message, due.epoch, due.number, due.above, due.below))
        self._go_on()

    def confirmed(self, topic: str) -> None:
        """The service has the next event given to it on `topic`."""
        on = self._on(topic)
        on.out += 1
        on.untold[on.out] = number = on.unconfirmed.pop(on.out)
        self._out.keep(Out(topic, on.out, number))
        if not on.due:
            on.due = True
            self._out.wake_after(self._settings.ack_us, PublishedDue(topic))

    def acknowledged(self, ack: PublishedAck) -> None:
        on = self._on(ack.topic)
        self._retries.answered()
        on.untold = {seq: number for seq, number in on.untold.items() if seq > ack.seq}

    def wake(self, timer: PublisherTick | PublishedDue) -> None:
        if isinstance(timer, PublishedDue):
            self._on(timer.topic).due = False
            self._tell(timer.topic)
            self._retries.go_on()
            return
        self._ticks += 1
        self._retries.ticked()
        for (topic, seq), tick in self._open.items():
            if tick < self._ticks - 1:  # a full tick has passed
                self._post(topic, Create(topic, self._node, seq))
        for topic, on in self._topics.items():
            if not on.due:
                self._tell(topic)
        self._retries.go_on()

    # -- questions ----------------------------------------------------------------------------------------------

    def idle(self, topic: str) -> bool:
        """Is everything published on `topic` with the service?"""
        on = self._topics.get(topic)
        return on is None or on.out == on.asked

    def asked(self, topic: str) -> int:
        """How many events were ever published here."""
        return self._on(topic).asked

    @property
    def backlog(self) -> int:
        """How many events have no timestamp yet."""
        return len(self._queue) + len(self._open)

    def busy(self) -> list[str]:
        """The topics with events that are not with the service yet."""
        return [topic for topic in self._topics if not self.idle(topic)]

    def unfinished(self) -> list[str]:
        return [f"waits to publish on {topic}" for topic in self.busy()]

    # -- inside -------------------------------------------------------------------------------------------------

    def _on(self, topic: str) -> _Topic:
        on = self._topics.get(topic)
        if on is None:
            on = self._topics[topic] = _Topic()
        return on

    def _go_on(self) -> None:
        while self._queue and len(self._open) < self._settings.window:
            message = self._queue.popleft()
            on = self._on(message.topic)
            if message.seq not in on.messages or message.seq in on.stamps:
                continue  # an answer to a request from before a crash came first
            self._ask(message.topic, message.seq)
        self._retries.go_on()

    def _is_old(self, stamp: Stamp, last: int) -> bool:
        """Was it given before the previous event, which has number `last`, was numbered anew?"""
        return stamp.number < last

    def _ask(self, topic: str, seq: int) -> None:
        self._open[topic, seq] = self._ticks
        self._post(topic, Create(topic, self._node, seq))

    def _request_anew(self, old: Stamp, *, at_once: bool) -> None:
        """Ask for another timestamp in place of `old`.

        The manager that has just answered with `old` would do so again. The next tick asks then: a node that is
        publisher and manager would otherwise ask itself for ever.
        """
        if at_once:
            self._ask(old.topic, old.seq)
        else:
            self._open[old.topic, old.seq] = self._ticks

    def _tell(self, topic: str) -> None:
        untold = self._on(topic).untold
        if untold:
            self._post(topic, Published(topic, self._node, tuple(untold.items())[:DEPENDENCIES_MAX]))

    def _waits(self) -> bool:
        return bool(self._open) or any(on.untold for on in self._topics.values())

    # -- crashes ------------------------------------------------------------------------------------------------

    def restore(self, record: Asked | Out) -> None:
        if isinstance(record, Asked):
            message = record.message
            on = self._on(message.topic)
            on.asked = message.seq
            on.messages[message.seq] = message
            self._queue.append(message)
        else:
            on = self._on(record.topic)
            on.given = on.out = record.seq
            on.number = record.number
            on.untold[record.seq] = record.number
            on.messages.pop(record.seq, None)

    def start(self) -> None:
        """Continue after a crash with what is not published."""
        self._queue = deque([message for message in self._queue if message.seq > self._on(message.topic).out])
        self._go_on()
