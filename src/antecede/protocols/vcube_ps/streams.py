"""The messages of one source on one topic, as one node holds them, and what it knows of how far others are.

Rules of this file: bookkeeping only, no packets and no decisions. What is asked for every message costs a constant; a
look at every member happens once a round of acknowledgements (`settle`), not once an acknowledgement.
"""

from collections.abc import Container, Iterable
from typing import NamedTuple

from antecede.core import Message


class Position(NamedTuple):
    """How far another node is with a stream, by its own word."""

    #: Received without a hole, and numbers held beyond one.
    got: int
    beyond: tuple[int, ...]
    #: Delivered. Counts only where the node knew all the members we know (see `custody`).
    done: int


class Stream:
    """One source on one topic."""

    __slots__ = (
        "_low",
        "_short",
        "_unknown",
        "aged",
        "ahead",
        "announced",
        "armed",
        "attempts",
        "goal",
        "got",
        "heard",
        "log",
        "positions",
        "safe",
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
        self._low = 1
        #: Received since the last acknowledgement.
        self.unacknowledged = 0

        # For whoever looks after the stream (`custody`):
        #: By node.
        self.positions: dict[int, Position] = {}
        #: Nodes that have answered since we took the stream over.
        self.heard: set[int] = set()
        #: Every member that is up and known to follow has delivered up to here.
        self.safe = 0
        #: What the present round waits for, and how many members are short of it.
        self.goal = 0
        self._short = 0
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
            self._advance(seq)
        else:
            self.ahead.add(seq)
        return True

    def begin_after(self, floor: int) -> None:
        """What is at or below `floor` was before our time, or is done."""
        if floor > self.got:
            self.ahead = {seq for seq in self.ahead if seq > floor}
            self._advance(floor)

    def _advance(self, seq: int) -> None:
        ahead = self.ahead
        while seq + 1 in ahead:
            seq += 1
            ahead.discard(seq)
        self.got = seq

    def lacking(self, until: int) -> list[int]:
        """Numbers up to `until` that are not here."""
        return [seq for seq in range(self.got + 1, until + 1) if seq not in self.log]

    def held(self, numbers: Iterable[int]) -> list[Message]:
        """Those of `numbers` that are here."""
        log = self.log
        return [log[seq] for seq in numbers if seq in log]

    def forget(self, until: int) -> None:
        """Nobody will ask for what is at or below `until`."""
        for seq in range(self._low, until + 1):
            self.log.pop(seq, None)
        self._low = max(self._low, until + 1)

    def place(self, node: int, position: Position) -> bool:
        """`node` says how far it is. True when the round may be complete, and `settle` has something to look at."""
        old = self.positions.get(node)
        self.positions[node] = position
        if old is None:
            self._unknown -= 1
            if position.done < self.goal:
                self._short += 1
                self.safe = min(self.safe, position.done)
            return self._unknown <= 0
        if old.done < self.goal <= position.done and self._short:
            self._short -= 1
            return not self._short
        return False

    def settle(self, mine: int, members: Iterable[int], down: Container[int]) -> None:
        """Look at everybody: how far are all, how far are those that are up, and who is short of `mine`?"""
        safe = stable = mine
        short = unknown = 0
        for node in members:
            position = self.positions.get(node)
            if position is None:
                unknown += 1
                stable = 0
                continue
            done = position.done
            if done < stable:
                stable = done
            if node not in down:
                short += done < mine
                if done < safe:
                    safe = done
        self.safe = safe
        self.goal = mine
        self._short, self._unknown = short, unknown
        self.stable = max(self.stable, stable)

    @property
    def settled(self) -> bool:
        """Has everybody who is up and known to follow reached the goal?"""
        return not self._short
