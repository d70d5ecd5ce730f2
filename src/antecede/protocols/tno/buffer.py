"""The subscriber's buffer: holds events that come too early, up to a number and a time (paper 5, event buffering).

An event is *complete* when everything that its timestamp puts before it, on topics taken, is settled: its own topic up
to the previous number, topics above up to their entries, and with TNO+ topics below, too. The gate decides that
(`core.gate`). When the buffer is full, or an event has waited its time, what it waits for is given up: predecessors in
the buffer go first, in order; a predecessor that comes later is late.

The clock decides whether a complete event is also *in order* (`clock`).
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from antecede.core import Gate, Verdict
from antecede.protocols.tno.event import Entry, Event, TopicId


class Begin(NamedTuple):
    """A subscription that takes effect once everything numbered before it, on topics taken already, is settled."""

    topic: str
    version: int
    floors: tuple[tuple[str, int], ...]


#: (topic, number); for a `Begin`: (b"", version).
Place: TypeAlias = tuple[TopicId, int]


class _Held(NamedTuple):
    item: Event | Begin
    needs: Sequence[Entry]


class Buffer:
    """Takes events in any order. `take` returns those that are complete or were given up."""

    def __init__(self, size: int | None) -> None:
        """`size`: how many events it may hold; None: any number."""
        self._size = size
        self._gate: Gate[Event | Begin] = Gate()
        self._held: dict[Place, _Held] = {}
        self._events = 0
        #: By topic: the highest number that an event of another topic ever waited for.
        self._needed: dict[TopicId, int] = {}

    @property
    def held(self) -> int:
        """How many events wait."""
        return self._events

    def events(self) -> list[Event]:
        """The events that wait."""
        return [held.item for held in self._held.values() if isinstance(held.item, Event)]

    def holds(self, place: Place) -> bool:
        return place in self._held

    def offer(self, event: Event, needs: Sequence[Entry]) -> Verdict:
        """READY: `take` returns it. WAITING: it is held. LATE: its number was given up. DUPLICATE: it came before."""
        place = (event.topic, event.number)
        verdict = self._gate.offer(event, (place,), needs)
        if verdict is Verdict.WAITING:
            self._held[place] = _Held(event, ((event.topic, event.number - 1), *needs))
            self._events += 1
            for stream, n in needs:
                if n > self._needed.get(stream, 0):
                    self._needed[stream] = n
        return verdict

    def begin(self, begin: Begin, needs: Sequence[Entry]) -> Place | None:
        """Add a subscription. Returns its place if it must wait."""
        if self._gate.offer(begin, (), needs) is not Verdict.WAITING:
            return None
        place = (b"", begin.version)
        self._held[place] = _Held(begin, needs)
        return place

    def take(self) -> list[Event | Begin]:
        """Return what is complete now, in an order that respects the needs of each."""
        ready = self._gate.drain()
        for item in ready:
            self._forget((b"", item.version) if isinstance(item, Begin) else (item.topic, item.number))
        return ready

    def mark_settled(self, place: Place) -> None:
        """Settle a number outside the buffer: its event was tagged, or is void."""
        self._gate.mark_settled(*place)
        self._forget(place)

    def reached(self, place: Place) -> bool:
        """Is the event here, or is its number settled?"""
        return place in self._held or self._gate.is_settled(*place)

    def floor(self, topic: TopicId, number: int) -> None:
        """Start a topic after `number`."""
        self._gate.floor(topic, number)

    def overfull(self) -> Place | None:
        """The event that has waited longest, if the buffer holds more than it may."""
        if self._size is None or self._events <= self._size:
            return None
        return next(place for place in self._held if place[0])

    def leave(self, topic: TopicId) -> None:
        """Drop the events of a topic, and wait for no more of them."""
        for place in [place for place in self._held if place[0] == topic]:
            self.mark_settled(place)
        awaited = [n for held in self._held.values() for stream, n in held.needs if stream == topic]
        if awaited:
            self._gate.skip(topic, max(awaited))

    def before(self, place: Place) -> Place | None:
        """An event in the buffer that the one at `place` waits for."""
        for stream, n in self._held[place].needs:
            for position in range(self._gate.reached(stream) + 1, n + 1):
                if (stream, position) in self._held:
                    return stream, position
        return None

    def circles(self, place: Place) -> bool:
        """Does the event at `place` wait for events here that wait for it?

        An event that needs a topic up to a number needs every event here of that topic up to there. So it is enough to
        track how far each topic is needed, and to visit each event at most once.
        """
        own, number = place
        if self._needed.get(own, 0) < number:
            return False  # no event ever waited for it
        here: dict[TopicId, list[int]] = {}
        for stream, position in self._held:
            here.setdefault(stream, []).append(position)
        for positions in here.values():
            positions.sort(reverse=True)  # the lowest comes off first
        path = [*self._held[place].needs]
        while path:
            stream, n = path.pop()
            if stream == own and n >= number:
                return True
            positions = here.get(stream, [])
            while positions and positions[-1] <= n:
                path += self._held[stream, positions.pop()].needs
        return False

    def give_up(self, place: Place) -> None:
        """Give up what the event at `place` needs and is not here."""
        for stream, n in self._held[place].needs:
            self._gate.skip(stream, n)

    def _forget(self, place: Place) -> None:
        if self._held.pop(place, None) is not None and place[0]:
            self._events -= 1
