"""The publisher's part: gets events their timestamps and gives them to the event service (paper Figure 5 (a)).

An event is named by its topic, its publisher and its number there from the moment it is published, so a request can be
repeated for ever and a second timestamp for it is recognised. Timestamps may come in any order; the events of a topic
go to the service in the order in which they were published, and with numbers that rise. A timestamp of before its
manager lost patience (`leases`) may have a lower number than an event before it got then: that one is asked for again.

At most `window` requests are under way. With a window of 1 an event's timestamp is begun after that of the event before
was complete, on whatever topic, and then order is causal across topics too, at the price of a way up
the order for each event.
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

#: To a node, or to the manager of a topic.
Post: TypeAlias = Callable[[int | str, Packet], None]


class PublisherTick(NamedTuple):
    """A timer: see what was not answered."""


class PublishedDue(NamedTuple):
    """A timer: tell the topic's manager what is out."""

    topic: str


class _Topic:
    """What is on its way on one topic."""

    def __init__(self) -> None:
        #: Published by the application; given to the service; known to be with it.
        self.asked = self.given = self.out = 0
        #: The number of the last that was given to the service.
        self.number = 0
        self.messages: dict[int, Message] = {}
        self.stamps: dict[int, Stamp] = {}
        #: Out, and the manager is not known to know: with the number it has.
        self.untold: dict[int, int] = {}
        #: Given to the service, which has not confirmed it: its number.
        self.unconfirmed: dict[int, int] = {}
        self.due = False


class Publisher:
    """At one node, for all topics."""

    def __init__(
        self, node: int, out: ModuleOutbox, post: Post, *, window: int, retry_us: int, ack_us: int, tries: int = 0
    ) -> None:
        """`tries`: ticks in vain after which it asks no more, until something happens; 0: it goes on for ever."""
        self._node = node
        self._out = out
        self._post = post
        self._window = window
        self._retry_us = retry_us
        self._tries = tries
        self._vain = 0
        self._ack_us = ack_us
        self._topics: dict[str, _Topic] = {}
        self._queue: deque[Message] = deque()
        #: Requests under way, each with the tick in which it was made.
        self._open: dict[tuple[str, int], int] = {}
        self._ticks = 0
        self._ticking = False

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
        self._vain = 0
        self._go_on()
        return message

    def stamped(self, stamp: Stamp) -> None:
        """A timestamp: the first for an event counts."""
        on = self._topics.get(stamp.topic)
        if on is None or stamp.source != self._node or stamp.seq in on.stamps or stamp.seq not in on.messages:
            return
        self._vain = 0
        on.stamps[stamp.seq] = stamp
        self._open.pop((stamp.topic, stamp.seq), None)
        while (due := on.stamps.pop(on.given + 1, None)) is not None:
            if self._is_old(due, on.number):
                self._ask(stamp.topic, due.seq)
                break
            on.given += 1
            on.number = due.number
            message = on.messages.pop(on.given)
            on.unconfirmed[on.given] = due.number
            self._out.ens_publish(stamp.topic, encode_event(message, due.epoch, due.number, due.above, due.below))
        self._go_on()

    def confirmed(self, topic: str) -> None:
        """The service has the next event it was given on `topic`."""
        on = self._on(topic)
        on.out += 1
        on.untold[on.out] = number = on.unconfirmed.pop(on.out)
        self._out.keep(Out(topic, on.out, number))
        if not on.due:
            on.due = True
            self._out.wake_after(self._ack_us, PublishedDue(topic))

    def acknowledged(self, ack: PublishedAck) -> None:
        on = self._on(ack.topic)
        self._vain = 0
        on.untold = {seq: number for seq, number in on.untold.items() if seq > ack.seq}

    def wake(self, timer: PublisherTick | PublishedDue) -> None:
        if isinstance(timer, PublishedDue):
            self._on(timer.topic).due = False
            self._tell(timer.topic)
            self._tick_later()
            return
        self._ticking = False
        self._ticks += 1
        self._vain += 1
        for (topic, seq), tick in self._open.items():
            if tick < self._ticks - 1:  # it has had the time
                self._post(topic, Create(topic, self._node, seq))
        for topic, on in self._topics.items():
            if not on.due:
                self._tell(topic)
        self._tick_later()

    # -- questions ----------------------------------------------------------------------------------------------

    def idle(self, topic: str) -> bool:
        """Is everything published on `topic` with the service?"""
        on = self._topics.get(topic)
        return on is None or on.out == on.asked

    def asked(self, topic: str) -> int:
        """How many were ever published here."""
        return self._on(topic).asked

    @property
    def backlog(self) -> int:
        """Events that have no timestamp yet."""
        return len(self._queue) + len(self._open)

    def busy(self) -> list[str]:
        """The topics on which something is not with the service yet."""
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
        while self._queue and len(self._open) < self._window:
            message = self._queue.popleft()
            on = self._on(message.topic)
            if message.seq not in on.messages or message.seq in on.stamps:
                continue  # an answer to a request of before a crash came first
            self._ask(message.topic, message.seq)
        self._tick_later()

    def _is_old(self, stamp: Stamp, last: int) -> bool:
        """Was it given before the event that has number `last`, and comes before it, was numbered anew?"""
        return stamp.number < last

    def _ask(self, topic: str, seq: int) -> None:
        self._open[topic, seq] = self._ticks
        self._post(topic, Create(topic, self._node, seq))

    def _tell(self, topic: str) -> None:
        untold = self._on(topic).untold
        if untold:
            self._post(topic, Published(topic, self._node, tuple(untold.items())[:DEPENDENCIES_MAX]))

    def encourage(self) -> None:
        """Somebody is back: it may be the one who did not answer."""
        self._vain = 0
        self._tick_later()

    def _tick_later(self) -> None:
        if self._tries and self._vain >= self._tries:
            return
        if not self._ticking and (self._open or any(on.untold for on in self._topics.values())):
            self._ticking = True
            self._out.wake_after(self._retry_us, PublisherTick())

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
        """After a crash: go on with what is not out."""
        self._queue = deque([message for message in self._queue if message.seq > self._on(message.topic).out])
        self._go_on()
