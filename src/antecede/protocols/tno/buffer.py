"""The subscriber's buffer: what comes too early waits, for so many others and so long (paper 5, event buffering).

An event is *complete* when everything its timestamp says came before it, of the topics taken, is accounted for: its own
topic up to the number before its own, topics above up to their entries, and with TNO+ topics below too. That is the
gate (`core.gate`). Where the buffer is full, or an event has waited its time, what it waits for is given up: whatever
of it is in the buffer goes first, in order; what is not there is late should it come.

Whether a complete event is also *in order* is for the clock to say (`clock`).
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from antecede.core import Gate, Verdict
from antecede.protocols.tno.event import Entry, Event, TopicId


class Begin(NamedTuple):
    """A subscription that takes effect once all that was numbered before it, on topics taken already, is done with."""

    topic: str
    version: int
    floors: tuple[tuple[str, int], ...]


#: A topic and a number; no topic and a version for a `Begin`.
Place: TypeAlias = tuple[TopicId, int]


class _Held(NamedTuple):
    item: Event | Begin
    needs: Sequence[Entry]


class Buffer:
    """Takes events in any order. What comes out of `take` is complete, or was given up."""

    def __init__(self, size: int | None) -> None:
        """`size`: events it holds at most; None: any number."""
        self._size = size
        self._gate: Gate[Event | Begin] = Gate()
        self._held: dict[Place, _Held] = {}
        self._events = 0
        #: By topic: how far events of other topics ever waited for it.
        self._needed: dict[TopicId, int] = {}

    @property
    def held(self) -> int:
        """Events that wait."""
        return self._events

    def events(self) -> list[Event]:
        """Those that wait."""
        return [held.item for held in self._held.values() if isinstance(held.item, Event)]

    def holds(self, place: Place) -> bool:
        return place in self._held

    def offer(self, event: Event, needs: Sequence[Entry]) -> Verdict:
        """READY: `take` has it. WAITING: it is held. LATE: it was given up. DUPLICATE: it is here or was."""
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
        """A subscription; its place when it has to wait."""
        if self._gate.offer(begin, (), needs) is not Verdict.WAITING:
            return None
        place = (b"", begin.version)
        self._held[place] = _Held(begin, needs)
        return place

    def take(self) -> list[Event | Begin]:
        """What is complete now, in an order that respects what each needs."""
        ready = self._gate.drain()
        for item in ready:
            self._forget((b"", item.version) if isinstance(item, Begin) else (item.topic, item.number))
        return ready

    def mark_settled(self, place: Place) -> None:
        """It was dealt with otherwise: tagged, or void."""
        self._gate.mark_settled(*place)
        self._forget(place)

    def reached(self, place: Place) -> bool:
        """Is it here, or was it dealt with, or before our time?"""
        return place in self._held or self._gate.is_settled(*place)

    def floor(self, topic: TopicId, number: int) -> None:
        """Start a topic after `number`."""
        self._gate.floor(topic, number)

    def overfull(self) -> Place | None:
        """The event that has waited longest, if there are more than there may be."""
        if self._size is None or self._events <= self._size:
            return None
        return next(place for place in self._held if place[0])

    def leave(self, topic: TopicId) -> None:
        """Hold nothing of a topic, and wait for nothing of it."""
        for place in [place for place in self._held if place[0] == topic]:
            self.mark_settled(place)
        awaited = [n for held in self._held.values() for stream, n in held.needs if stream == topic]
        if awaited:
            self._gate.skip(topic, max(awaited))

    def before(self, place: Place) -> Place | None:
        """Something in the buffer that the one at `place` waits for."""
        for stream, n in self._held[place].needs:
            for position in range(self._gate.reached(stream) + 1, n + 1):
                if (stream, position) in self._held:
                    return stream, position
        return None

    def circles(self, place: Place) -> bool:
        """Does the one at `place` wait for others here that wait for it?

        Whoever needs a topic up to a number needs all that is here of it up to there, so how far each topic is needed
        says everything; each event here is looked at once at most.
        """
        own, number = place
        if self._needed.get(own, 0) < number:
            return False  # nobody ever waited for it
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
        """Wait no more for what the one at `place` needs and is not here."""
        for stream, n in self._held[place].needs:
            self._gate.skip(stream, n)

    def _forget(self, place: Place) -> None:
        if self._held.pop(place, None) is not None and place[0]:
            self._events -= 1
