"""When a message of one topic is delivered: at once, or in causal order.

Plumtree orders nothing. `CausalOrder` is put on top: messages name their immediate predecessors (`core.clocks`), and
the gate holds them until these were delivered. A predecessor that no neighbour has is given up in the end: the held
message with the lowest Lamport clock passes without what it misses. The predecessors of a lost message are unknown, so
from then on every message with a lower clock than the one that passed is late, and is never delivered. Order holds
where completeness does not (`gossip.order` has the same rule).
"""

from collections.abc import Iterable

from antecede.core import Dependency, Frontier, Gate, Message, ProtocolError
from antecede.core.clocks import LamportClock
from antecede.core.gate import FULL


class NoOrder:
    """Delivers each message when it comes. The tree has recognised copies."""

    def stamp(self, topic: str, source: int, seq: int, payload: bytes) -> Message:
        """This node's next message, with its dependencies. It counts as delivered here."""
        return Message(topic, source, seq, (), payload)

    def take(self, message: Message) -> list[Message]:
        """Take a message that came for the first time. Returns the messages that may be delivered now, in order."""
        return [message]

    def lacking(self, message: Message) -> list[tuple[int, int]]:
        """What this message waits for: positions that are neither delivered nor held."""
        return []

    def give_up(self, source: int, seq: int) -> list[Message]:
        """Go on without this message. Returns the messages that may be delivered now, in order."""
        return []

    def restore(self, message: Message, *, own: bool) -> None:
        """This message was published here (`own`) or delivered before a crash."""

    def begin(self, levels: Iterable[Dependency]) -> None:
        """Join behind the messages that a member has delivered."""

    def levels(self) -> tuple[Dependency, ...]:
        """By source: what was delivered here without a hole."""
        return ()

    def leave(self) -> bool:
        """Drop what is held. Returns whether anything is: it may come again."""
        return False

    def holding(self) -> list[Message]:
        return []

    #: Messages up to this Lamport clock are late: a node keeps it across a crash.
    clock_floor = 0

    @property
    def given_up(self) -> int:
        """How many messages this node went on without, or refused because they were late."""
        return 0


class CausalOrder(NoOrder):
    """Holds a message until its immediate predecessors were delivered."""

    def __init__(self) -> None:
        self._gate: Gate[Message] = Gate()
        self._frontier = Frontier()
        self._clock = LamportClock()
        #: Every message up to this Lamport clock that is not delivered is late.
        self.clock_floor = 0
        self._given_up = 0

    def stamp(self, topic: str, source: int, seq: int, payload: bytes) -> Message:
        self._gate.floor(source, seq)
        return Message(topic, source, seq, self._frontier.stamp(), payload, clock=self._clock.stamp())

    def take(self, message: Message) -> list[Message]:
        if message.clock <= self.clock_floor and not self._gate.is_settled(message.source, message.seq):
            self._given_up += 1
            self._gate.mark_settled(message.source, message.seq)
            return self._drain()
        if self._gate.offer(message, ((message.source, message.seq),), message.deps) is FULL:
            raise ProtocolError(f"{self._gate.held} messages are held, and {message.id} cannot be taken")
        return self._drain()

    def lacking(self, message: Message) -> list[tuple[int, int]]:
        gate = self._gate
        wanted = [
            (source, seq)
            for source, last in ((message.source, message.seq - 1), *message.deps)
            for seq in range(gate.reached(source) + 1, last + 1)
            if not gate.is_settled(source, seq)
        ]
        held = {(held.source, held.seq) for held in gate.holding()} if wanted else set()
        return [name for name in wanted if name not in held]

    def give_up(self, source: int, seq: int) -> list[Message]:
        ready: list[Message] = []
        while (held := self._gate.holding()) and not self._gate.is_settled(source, seq):
            passing = min(held, key=lambda message: (message.clock, message.source))
            self.clock_floor = max(self.clock_floor, passing.clock - 1)
            for stream, last in ((passing.source, passing.seq - 1), *passing.deps):
                self._given_up += self._gate.skip(stream, last)
            ready += self._drain()
        return ready

    def restore(self, message: Message, *, own: bool) -> None:
        self._gate.floor(message.source, message.seq)
        self._clock.observe(message.clock)
        if own:
            self._frontier.stamp()  # it covered what was delivered before it
        else:
            self._frontier.observe(message)

    def begin(self, levels: Iterable[Dependency]) -> None:
        for source, seq in levels:
            self._gate.floor(source, seq)

    def levels(self) -> tuple[Dependency, ...]:
        return tuple([(source, seq) for source, seq in self._gate.levels().items() if isinstance(source, int)])

    def leave(self) -> bool:
        self._gate = self._gate.emptied()
        return True

    def holding(self) -> list[Message]:
        return self._gate.holding()

    @property
    def given_up(self) -> int:
        return self._given_up

    def _drain(self) -> list[Message]:
        ready = self._gate.drain()
        for message in ready:
            self._frontier.observe(message)
            self._clock.observe(message.clock)
        return ready
