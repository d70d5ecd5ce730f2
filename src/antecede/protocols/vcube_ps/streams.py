"""The messages of one source on one topic, as one node holds them, and what it knows of how far others are.

Rules of this file: bookkeeping only, no packets and no decisions. What is asked for every message costs a constant; a
look at every member happens once a round of acknowledgements (`settle`), not once an acknowledgement.
"""

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from antecede.core import Message
from antecede.core.numbers import absorb


class Position(NamedTuple):
    """How far another node is with a stream, by its own word."""

    #: Received without a hole, and numbers held beyond one.
    got: int
    beyond: tuple[int, ...]
    #: Delivered. Counts only where the node knew all the members we know (see `custody`).
    done: int


class _Round:
    """How many are short of a goal. Everybody is looked at when a round begins; then it is a matter of counting."""

    __slots__ = ("goal", "short")

    def __init__(self) -> None:
        self.goal = 0
        self.short = 0

    def moved(self, old: int, new: int) -> bool:
        """Somebody moved. True when nobody is short any more."""
        if old < self.goal <= new and self.short:
            self.short -= 1
            return not self.short
        return False


class Stream:
    """One source on one topic."""

    __slots__ = (
        "_arrival",
        "_delivery",
        "_unknown",
        "aged",
        "ahead",
        "announced",
        "armed",
        "arrived",
        "attempts",
        "got",
        "heard",
        "log",
        "low",
        "positions",
        "source",
        "stable",
        "unacknowledged",
    )

    def __init__(self, source: int) -> None:
        self.source = source
        #: What is held, by number: received and not known to be delivered everywhere.
        self.log: dict[int, Message] = {}
        #: Received without a hole, or before our time.
        self.got = 0
        #: Numbers held behind a hole.
        self.ahead: set[int] = set()
        #: Every member has delivered up to here, those that are down included.
        self.stable = 0
        #: The lowest number that may be here. What is below is stable, or was too much to hold.
        self.low = 1
        #: Received since the last acknowledgement.
        self.unacknowledged = 0

        # For whoever looks after the stream (`custody`):
        #: By node.
        self.positions: dict[int, Position] = {}
        #: Nodes that have answered since we took the stream over.
        self.heard: set[int] = set()
        #: Every member that is up and known to follow has received up to here.
        self.arrived = 0
        self._arrival = _Round()
        self._delivery = _Round()
        self._unknown = 0
        #: What was there at the last look: younger messages may simply be under way.
        self.aged = 0
        self.announced = 0
        self.armed = False
        self.attempts = 0

    def take(self, message: Message) -> bool:
        """Hold `message`. False when it was here before."""
        seq, log = message.seq, self.log
        if seq <= self.got or seq in log:
            return False
        log[seq] = message
        if seq == self.got + 1:
            self.got = absorb(seq, self.ahead)
        else:
            self.ahead.add(seq)
        return True

    def take_run(self, messages: Sequence[Message]) -> bool:
        """`take` for messages that are all new and come right behind what was received; False: not so, none is held."""
        first, source, topic = self.got + 1, self.source, messages[0].topic
        if self.ahead or messages[0].seq != first:
            return False
        numbers = range(first, first + len(messages))
        for message, seq in zip(messages, numbers, strict=True):
            if message.seq != seq or message.source != source or message.topic != topic:
                return False
        self.log.update(zip(numbers, messages, strict=True))
        self.got = numbers[-1]
        return True

    def hold(self, message: Message) -> None:
        """Hold a message from before our time, for others."""
        if message.seq >= self.low:
            self.log[message.seq] = message

    def rewind(self, done: int) -> None:
        """What was received and not delivered counts as never received: this node leaves."""
        for seq in range(done + 1, self.got + 1):
            self.log.pop(seq, None)
        for seq in self.ahead:
            self.log.pop(seq, None)
        self.ahead.clear()
        self.got = done

    def begin_after(self, floor: int) -> None:
        """What is at or below `floor` was before our time, or is done."""
        if floor > self.got:
            self.ahead = {seq for seq in self.ahead if seq > floor}
            self.got = absorb(floor, self.ahead)

    def lacking(self, until: int) -> list[int]:
        """Numbers up to `until` that are not here."""
        return [seq for seq in range(self.got + 1, until + 1) if seq not in self.log]

    def held(self, numbers: Iterable[int]) -> list[Message]:
        """Those of `numbers` that are here."""
        log = self.log
        return [log[seq] for seq in numbers if seq in log]

    def forget(self, until: int) -> None:
        """Nobody will ask for what is at or below `until`."""
        for seq in range(self.low, until + 1):
            self.log.pop(seq, None)
        self.low = max(self.low, until + 1)

    def place(self, node: int, position: Position, *, counts: bool) -> bool:
        """`node` says how far it is. True when the round may be complete, and `settle` has something to look at.

        Rounds count members that are up; others are only written down.
        """
        old = self.positions.get(node)
        self.positions[node] = position
        if not counts:
            return False
        if old is None:
            self._unknown -= 1
            self._arrival.short += position.got < self._arrival.goal
            self._delivery.short += position.done < self._delivery.goal
            self.arrived = min(self.arrived, position.got)
            return self._unknown <= 0
        arrived = self._arrival.moved(old.got, position.got)
        return self._delivery.moved(old.done, position.done) or arrived

    def settle(self, done: int, members: Iterable[int], down: Container[int]) -> None:
        """Look at everybody. `done` is how far this node itself has delivered."""
        arrived, stable = self.got, done
        behind = late = unknown = 0
        for node in members:
            position = self.positions.get(node)
            if position is None:
                unknown += 1
                stable = 0
                continue
            if position.done < stable:
                stable = position.done
            if node not in down:
                behind += position.got < self.got
                late += position.done < done
                if position.got < arrived:
                    arrived = position.got
        self.arrived = arrived
        self._arrival.goal, self._arrival.short = self.got, behind
        self._delivery.goal, self._delivery.short = done, late
        self._unknown = unknown
        self.stable = max(self.stable, stable)

    @property
    def settled(self) -> bool:
        """Has everybody who is up and known to follow got everything there was when we last looked?"""
        return not self._arrival.short
