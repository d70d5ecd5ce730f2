"""Causal order over overlapping groups, for a broker or a subscriber: the gate, and when to give up.

A stream is (topic, source). A message waits for the entries it carries of the topics this node takes and passes the
others on. Immediate predecessors *per topic* are what makes that right: m1 on G1, then d on G2, then m2 on G1; a reader
of G1 ignores d and must still find m1 among what m2 names. Waiting for d instead would be for ever.

**Giving up.** What is missing may be with nobody any more: known to brokers that crashed, or stale. Who has waited
`patience` rounds gives up on what the held message with the lowest Lamport clock misses, and lets it pass. Whatever
precedes a missing message is unknown, so from then on everything with a lower clock than the one that passed is late:
refused, counted, never slipped in (to skip what is missing and no more loses transitive order).
"""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from antecede.core import Dependency, Gate, Message, TopicMessageId, Verdict
from antecede.core.gate import Need
from antecede.protocols.gossip.packets import Rumour

#: (topic, source).
StreamName: TypeAlias = tuple[str, int]
#: Skipping goes position by position; a larger hole is jumped.
_HOLE_MAX = 100_000


class Clock(Protocol):
    """What stamps a broker's messages: `core.clocks.DomainFrontier` or `GroupVectors`."""

    def stamp(self, topic: str, seq: int) -> tuple[tuple[Dependency, ...], tuple[tuple[str, int, int], ...]]: ...
    def observe(self, message: Message, known: Callable[[str, int, int], bool]) -> None: ...
    def ahead(self, topic: str) -> tuple[Dependency, ...]: ...
    def entries(self) -> tuple[tuple[str, int, int], ...]: ...
    def merge(self, entries: Iterable[tuple[str, int, int]]) -> None: ...


class Order:
    """Takes messages in any order, gives them back in causal order."""

    def __init__(self, takes: Callable[[str], bool], *, held_max: int, clock: Clock | None = None) -> None:
        self._takes = takes
        self._held_max = held_max
        self._gate: Gate[Rumour] = Gate(held_max=held_max)
        self._clock = clock
        self._held: dict[TopicMessageId, tuple[Rumour, int]] = {}
        self._since: dict[StreamName, int] = {}
        # Positions counted as reached that were never delivered here.
        self._gaps: set[tuple[StreamName, int]] = set()
        #: Everything up to this Lamport clock that has not been delivered is late. The highest that was.
        self.clock_floor = 0
        self.clock_reached = 0
        #: Messages refused because they came too late, passed without what they waited for, and not taken for want of
        #: room (they come again).
        self.late = self.given_up = self.overflow = 0
        self._turned_away: dict[StreamName, int] = {}

    # -- messages -----------------------------------------------------------------------------------------------------

    def own(self, message: Message) -> None:
        """Published here: it counts as delivered."""
        self._gate.mark_settled((message.topic, message.source), message.seq)

    def offer(self, rumour: Rumour, now: int) -> list[Rumour]:
        """What became deliverable."""
        message = rumour.message
        stream = (message.topic, message.source)
        if message.seq <= self._gate.reached(stream):
            return []
        if rumour.clock <= self.clock_floor and message.id not in self._held:
            self.late += 1
            self._gaps.add((stream, message.seq))
            self._gate.mark_settled(stream, message.seq)
            return self._drain()
        verdict = self._gate.offer(rumour, ((stream, message.seq),), self._needs(message))
        if verdict is Verdict.READY:
            return self._drain()
        if verdict is Verdict.WAITING:
            self._held[message.id] = (rumour, now)
        elif verdict is Verdict.FULL:
            self.overflow += 1
            self._turned_away[stream] = max(message.seq, self._turned_away.get(stream, 0))
        elif verdict is Verdict.LATE:
            self.late += 1
        return []

    def floors(self, levels: Iterable[tuple[str, int, int]]) -> list[Rumour]:
        """What these levels name was before our time."""
        for topic, source, position in levels:
            stream = (topic, source)
            self._gate.floor(stream, position)
            self._since[stream] = max(position, self._since.get(stream, 0))
        released = self._drain()
        return [*released, *self.changed(again=True)]

    def replay(self, message: Message, *, own: bool) -> None:
        """Published or delivered here before a crash."""
        self._gate.floor((message.topic, message.source), message.seq)
        if own and self._clock is not None:
            self._clock.stamp(message.topic, message.seq)
        elif self._clock is not None:
            self._clock.observe(message, self._delivered)

    def give_up(self, since: int, now: int) -> list[Rumour]:
        """Let pass what waits since round `since` or longer, and what lies before it."""
        passed: list[Rumour] = []
        while any(came <= since for _, came in self._held.values()):
            rumour, _ = min(self._held.values(), key=lambda held: (held[0].clock, held[0].message.id))
            message = rumour.message
            self.given_up += 1
            self.clock_floor = max(self.clock_floor, rumour.clock - 1)
            for stream, n in (((message.topic, message.source), message.seq - 1), *self._needs(message)):
                self._skip(stream, n)
            passed += self._drain()
            self._held.pop(message.id, None)
        return passed

    def changed(self, *, again: bool) -> list[Rumour]:
        """This node takes other topics than before: what is held waits for other entries now.

        `again`: offer it again; without, it is dropped and must come again (a subscriber's copies name only what it
        took before). Rare, so a gate is simply filled anew.
        """
        fresh: Gate[Rumour] = Gate(held_max=self._held_max)
        for stream, level in self._gate.levels().items():
            fresh.floor(stream, level)
        self._gate = fresh
        held, self._held = self._held, {}
        released: list[Rumour] = []
        for rumour, came in held.values() if again else ():
            if self._takes(rumour.message.topic):  # what is before our time by now counts as a duplicate
                released += self.offer(rumour, came)
        return released

    def resign(self, clock: int) -> None:
        """What precedes something delivered here may never be found: refuse whatever could, up to this clock."""
        self.given_up += 1
        self.clock_floor = max(self.clock_floor, clock)

    # -- how far it is ------------------------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        return len(self._held)

    def holding(self) -> list[TopicMessageId]:
        return list(self._held)

    def holds(self, name: TopicMessageId) -> bool:
        return name in self._held

    def reached(self, stream: StreamName) -> int:
        return self._gate.reached(stream)

    def levels(self) -> dict[StreamName, int]:
        return self._gate.levels()  # type: ignore[return-value]

    def missing(self) -> dict[StreamName, int]:
        """By stream: up to where something that is held waits for it."""
        return self._gate.missing()  # type: ignore[return-value]

    def turned_away(self) -> list[tuple[StreamName, int]]:
        """By stream: up to where something came that there was no room for, since this was last asked."""
        found, self._turned_away = self._turned_away, {}
        return list(found.items())

    def _needs(self, message: Message) -> list[Need]:
        topic = message.topic
        needs: list[Need] = [((topic, source), seq) for source, seq in message.deps]
        needs += [((other, source), seq) for other, source, seq in message.across if self._takes(other)]
        return needs

    def _skip(self, stream: object, n: int) -> None:
        assert isinstance(stream, tuple)
        reached = self._gate.reached(stream)
        if n - reached > _HOLE_MAX:
            self._gate.floor(stream, n)
            self._since[stream] = n
        else:
            self._gaps.update([(stream, position) for position in range(reached + 1, n + 1)])
            self._gate.skip(stream, n)

    def _drain(self) -> list[Rumour]:
        ready = self._gate.drain()
        for rumour in ready:
            message = rumour.message
            self._held.pop(message.id, None)
            self.clock_reached = max(self.clock_reached, rumour.clock)
            if self._gaps:
                self._gaps.discard(((message.topic, message.source), message.seq))
            if self._clock is not None:
                self._clock.observe(message, self._delivered)
        return ready

    def _delivered(self, topic: str, source: int, seq: int) -> bool:
        """Did this node deliver it, or was it before its time, or given up?"""
        stream = (topic, source)
        if not self._takes(topic) or not self._since.get(stream, 0) < seq <= self._gate.reached(stream):
            return False
        return (stream, seq) not in self._gaps
