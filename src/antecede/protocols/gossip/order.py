"""Causal order over overlapping groups at a broker or subscriber, and when to give up.

The order itself is `core.domain_order`. This file adds giving up.

A missing message may be lost for good: only brokers that crashed had it, or it is too old for anyone to keep. A node
that has waited `patience` rounds takes the held message with the lowest Lamport clock, gives up what that message
misses, and lets it pass. The predecessors of a lost message are unknown. So from then on every message with a lower
clock than the one that passed is late: it is refused and counted. (Skipping only the missing messages loses transitive
order.) A broker with a log never gives up in this way (`catching_up`).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from antecede.core import Message, TopicMessageId, Verdict
from antecede.core.clocks import DomainClock
from antecede.core.domain_order import DomainOrder, StreamName
from antecede.core.gate import Stream
from antecede.protocols.gossip.packets import Rumour

#: `Gate.skip` goes position by position. A larger hole is jumped with a floor.
_HOLE_MAX = 100_000


class _Arrival(NamedTuple):
    rumour: Rumour
    #: The round in which it came.
    round: int


class Order(DomainOrder[_Arrival]):
    """Takes messages in any order, and returns them in causal order."""

    def __init__(self, takes: Callable[[str], bool], *, held_max: int, clock: DomainClock | None = None) -> None:
        super().__init__(takes, clock, held_max=held_max)
        #: Every message up to this Lamport clock that is not delivered is late.
        self.clock_floor = 0
        #: The highest Lamport clock delivered.
        self.clock_reached = 0
        #: How many messages were refused because they came too late, passed without what they waited for, and were
        #: not taken for want of room (these come again).
        self.late = self.given_up = self.overflow = 0
        self._turned_away: dict[StreamName, int] = {}

    @staticmethod
    def _message_of(item: _Arrival) -> Message:
        return item.rumour.message

    # -- messages -----------------------------------------------------------------------------------------------------

    def own(self, message: Message) -> None:
        """Count a message that this node published as delivered."""
        self._gate.mark_settled((message.topic, message.source), message.seq)

    def offer(self, rumour: Rumour, now: int) -> list[Rumour]:
        """Take a message in round `now`. Returns what became deliverable."""
        message = rumour.message
        stream = (message.topic, message.source)
        if message.seq <= self._gate.reached(stream):
            return []
        if rumour.clock <= self.clock_floor > 0 and message.id not in self._waiting:
            self.late += 1
            self._gaps.add((stream, message.seq))
            self._gate.mark_settled(stream, message.seq)
            return self._released()
        verdict = self._offer(_Arrival(rumour, now))
        if verdict is Verdict.READY:
            return self._released()
        if verdict is Verdict.FULL:
            self.overflow += 1
            self._turned_away[stream] = max(message.seq, self._turned_away.get(stream, 0))
        elif verdict is Verdict.LATE:
            self.late += 1
        return []

    def floors(self, levels: Iterable[tuple[str, int, int]]) -> list[Rumour]:
        """Start each (topic, source) after the given number: earlier messages predate this node's session."""
        released = [self._passed(arrival) for arrival in self._start_after(levels)]
        return [*released, *self.changed(again=True)]

    def replay(self, message: Message, *, own: bool) -> None:
        """Count a message that this node published (`own`) or delivered before a crash."""
        self._replay(message, own=own)

    def give_up(self, since: int, now: int) -> list[list[Rumour]]:
        """Let pass the messages that came in round `since` or before, and those that precede them.

        Returns what passed, step by step: before each step messages were given up.
        """
        passed: list[list[Rumour]] = []
        while any(arrival.round <= since for arrival in self._waiting.values()):
            arrival = min(self._waiting.values(), key=lambda held: (held.rumour.clock, held.rumour.message.id))
            rumour, message = arrival.rumour, arrival.rumour.message
            self.given_up += 1
            self.clock_floor = max(self.clock_floor, rumour.clock - 1)
            for stream, n in (((message.topic, message.source), message.seq - 1), *self._needs(message)):
                self._skip(stream, n)
            passed.append(self._released())
            self._waiting.pop(message.id, None)
        return passed

    def changed(self, *, again: bool) -> list[Rumour]:
        """This node takes other topics than before, so held messages wait for other entries.

        `again`: offer them again. Otherwise they are dropped and must come again, since a subscriber's copies name only
        entries of the topics it took before.
        """
        held = self._empty()
        released: list[Rumour] = []
        for arrival in held if again else ():
            if self._takes(arrival.rumour.message.topic):  # a message below a floor counts as a duplicate
                released += self.offer(*arrival)
        return released

    def resign(self, clock: int) -> None:
        """Refuse every undelivered message up to this clock: predecessors of what was delivered may never be found."""
        self.given_up += 1
        self.clock_floor = max(self.clock_floor, clock)

    # -- how far it is ------------------------------------------------------------------------------------------------

    def holding(self) -> list[TopicMessageId]:
        return list(self._waiting)

    def holds(self, name: TopicMessageId) -> bool:
        return name in self._waiting

    def reached(self, stream: StreamName) -> int:
        return self._gate.reached(stream)

    @property
    def level(self) -> Mapping[Stream, int]:
        """`reached` of every stream that has moved, to be read at once."""
        return self._gate.level

    def levels(self) -> dict[StreamName, int]:
        return self._gate.levels()  # type: ignore[return-value]

    def missing(self) -> dict[StreamName, int]:
        return self._missing()

    def turned_away(self) -> list[tuple[StreamName, int]]:
        """By stream: the highest number refused for want of room since the last call."""
        found, self._turned_away = self._turned_away, {}
        return list(found.items())

    def _skip(self, stream: object, n: int) -> None:
        assert isinstance(stream, tuple)
        reached = self._gate.reached(stream)
        if n - reached > _HOLE_MAX:
            self._gate.floor(stream, n)
            self._since[stream] = n
        else:
            self._gaps.update([(stream, position) for position in range(reached + 1, n + 1)])
            self._gate.skip(stream, n)

    def _released(self) -> list[Rumour]:
        return [self._passed(arrival) for arrival in self._drain()]

    def _passed(self, arrival: _Arrival) -> Rumour:
        self.clock_reached = max(self.clock_reached, arrival.rumour.clock)
        return arrival.rumour
