"""The messages of one source on one topic, as one node holds them, and how far it knows other nodes to be.

Rules of this file: bookkeeping only, no packets and no decisions. Work for each message costs a constant. All members
are looked at once for each round of acknowledgements (`settle`), not for each acknowledgement.
"""

from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from antecede.core import Message
from antecede.core.epochs import epoch_base
from antecede.core.numbers import absorb

#: No message is beyond it.
NO_LIMIT: Final = 1 << 63


class Position(NamedTuple):
    """How far another node is with a stream, by its own word."""

    #: Received without a hole, and numbers held beyond one.
    got: int
    beyond: tuple[int, ...]
    #: Delivered. Counts only where the node knew all the members we know (see `custody`).
    done: int


@dataclass(slots=True, eq=False)
class _Round:
    """How many members are short of a goal. All are looked at when a round begins; from then on they are counted."""

    goal: int = 0
    short: int = 0

    def moved(self, old: int, new: int) -> bool:
        """A member moved. True when no member is short any more."""
        if old < self.goal <= new and self.short:
            self.short -= 1
            return not self.short
        return False


@dataclass(slots=True, eq=False)
class Fetching:
    """What a node that is far behind has asked for, in bulk (`catching_up`)."""

    #: The node that is asked, and up to which sequence number there is something to ask for.
    server: int
    target: int = 0
    #: Requests without an answer: first sequence number to last.
    asked: dict[int, int] = field(default_factory=dict)
    #: Nodes that lack message `_seq`; and have all been asked for it once before?
    _lacking: dict[int, tuple[bool, bool]] = field(default_factory=dict)
    _seq: int = 0
    asked_twice: bool = False
    #: Did this node refuse the last answer for want of room?
    refused: bool = False
    #: Pauses without progress, and how far this node was at the last look.
    attempts: int = 0
    seen: int = 0

    def lacking_at(self, seq: int) -> dict[int, tuple[bool, bool]]:
        """Nodes that lack the next message, `seq`; of each: is it further than that, and did it have it once?"""
        if seq != self._seq:
            self._seq = seq
            self._lacking.clear()
            self.asked_twice = False
        return self._lacking


@dataclass(slots=True, eq=False)
class Stream:
    """One source on one topic."""

    source: int
    #: Messages in memory, by number: received and not known to be delivered everywhere. And their payload bytes.
    log: dict[int, Message] = field(default_factory=dict)
    log_bytes: int = 0
    #: Received without a hole, or before our time.
    got: int = 0
    #: Numbers held behind a hole.
    ahead: set[int] = field(default_factory=set)
    #: Every member has delivered up to here, those that are down included.
    stable: int = 0
    #: The lowest number that may be in memory. What is below is stable, or was too much to hold.
    low: int = 1
    #: What is at or below this predates the node's present session on the topic.
    floor: int = 0
    #: Set while this node is far behind and fetches in bulk.
    fetching: Fetching | None = None
    #: Received since the last acknowledgement.
    unacknowledged: int = 0

    # For the seam between two owners of the source's number (`closing`):
    #: The epoch that has begun; messages of former ones are taken up to `limit` only.
    epoch: int = 0
    limit: int = NO_LIMIT
    #: The last message that was delivered here before the present session on the topic.
    earlier: int = 0
    #: How far each node is with former epochs, that is at least its floor, and what it has itself delivered of them.
    ends: dict[int, tuple[int, int]] = field(default_factory=dict)
    #: The last message of former epochs; −1: not known yet.
    last: int = -1
    #: By epoch that has begun: the last message before it.
    seams: dict[int, int] = field(default_factory=dict)

    # For the custodian (`custody`):
    #: By node.
    positions: dict[int, Position] = field(default_factory=dict)
    #: Nodes that have answered since we took the stream over.
    heard: set[int] = field(default_factory=set)
    #: Every member that is up, known to follow and not behind has received up to here.
    arrived: int = 0
    #: Members too far behind for the window to wait for them. They catch up by themselves (`catching_up`).
    behind: set[int] = field(default_factory=set)
    #: Is a timer armed that ends the wait for members that hold the window up?
    holding_up: bool = False
    #: While members are behind: what was published when the present period began, and how far each of them was.
    pace: tuple[int, dict[int, int]] | None = None
    _arrival: _Round = field(default_factory=_Round)
    _delivery: _Round = field(default_factory=_Round)
    _unknown: int = 0
    #: What was there at the last look: younger messages may simply be under way.
    aged: int = 0
    announced: int = 0
    armed: bool = False
    attempts: int = 0

    def take(self, message: Message) -> bool:
        """Hold `message`. False when it was here before."""
        seq, log = message.seq, self.log
        if seq <= self.got or seq in log:
            return False
        log[seq] = message
        self.log_bytes += len(message.payload)
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
        self._append(numbers, messages)
        return True

    def take_own(self, messages: Sequence[Message]) -> None:
        """`take` for messages that this node has just stamped: a run of this stream."""
        first = self.got + 1
        if self.ahead or messages[0].seq != first:
            for message in messages:
                self.take(message)
        else:
            self._append(range(first, first + len(messages)), messages)

    def _append(self, numbers: range, messages: Sequence[Message]) -> None:
        self.log.update(zip(numbers, messages, strict=True))
        self.log_bytes += sum([len(message.payload) for message in messages])
        self.got = numbers[-1]

    def hold(self, message: Message) -> None:
        """Hold a message from before our time, for others."""
        if message.seq >= self.low and message.seq not in self.log:
            self.log[message.seq] = message
            self.log_bytes += len(message.payload)

    def rewind(self, done: int) -> None:
        """What was received and not delivered counts as never received: this node leaves."""
        self._drop([seq for seq in self.log if seq > done])
        self.ahead.clear()
        self.got = done
        self.fetching = None

    @property
    def ending(self) -> bool:
        """Has an epoch begun, and is the end of the former ones not known to be delivered by all members?"""
        return self.got < epoch_base(self.epoch)

    def begin_epoch(self, epoch: int, done: int) -> bool:
        """The source's former owner is gone: end what it published. False: nothing was open, or that is known."""
        if epoch <= self.epoch:
            return False
        self.epoch = epoch
        if not self.ending:
            return False
        self.end(done)
        return True

    def end(self, done: int) -> None:
        """Take nothing more of former epochs until the last message is known, and drop what was not delivered."""
        self.last = -1
        self.ends.clear()
        self.rewind(done)
        self.limit = 0 if self.ending else NO_LIMIT
        self.positions.clear()
        self.heard.clear()
        self.behind.clear()
        self.pace = None

    def delivered(self, done: int) -> int:
        """The last message delivered here, in any session. `done`: how far this node is, at least its floor."""
        return done if done > self.floor else min(self.earlier, done)

    def close(self, epoch: int, last: int) -> None:
        """The messages before `epoch` end with `last`; go on behind the seam."""
        self.seams[epoch] = last
        base = epoch_base(epoch)
        self.begin_after(base)
        self.forget(base)
        self.stable = max(self.stable, base)
        self.announced = max(self.announced, base)
        self.arrived = max(self.arrived, base)
        if not self.ending:
            self.limit = NO_LIMIT
            self.positions.clear()

    def begin_after(self, floor: int) -> None:
        """What is at or below `floor` was before our time, or is done."""
        if floor > self.got:
            self.ahead = {seq for seq in self.ahead if seq > floor}
            self.got = absorb(floor, self.ahead)
            if self.limit < NO_LIMIT and not self.ending:
                self.limit = NO_LIMIT

    def lacking(self, until: int, limit: int) -> list[int]:
        """The first `limit` numbers up to `until` that are not here."""
        log = self.log
        found: list[int] = []
        for seq in range(self.got + 1, until + 1):
            if len(found) == limit:
                break
            if seq not in log:
                found.append(seq)
        return found

    def held(self, numbers: Iterable[int]) -> list[Message]:
        """Those of `numbers` that are here."""
        log = self.log
        return [log[seq] for seq in numbers if seq in log]

    def run_from(self, first: int, last: int, bytes_max: int) -> list[Message]:
        """Messages in memory from `first` on without a hole, at least one if it is here, about `bytes_max` at most."""
        found: list[Message] = []
        size = 0
        for seq in range(first, last + 1):
            message = self.log.get(seq)
            if message is None or size >= bytes_max:
                break
            found.append(message)
            size += len(message.payload)
        return found

    def forget(self, until: int) -> None:
        """Hold nothing at or below `until` any more."""
        if until >= self.low:
            self.low, low = until + 1, self.low
            if until >= self.got and max(self.log, default=0) <= until:  # mostly so at a node that is alone
                self.log.clear()
                self.log_bytes = 0
                return
            numbers: Iterable[int] = range(low, until + 1)
            if len(self.log) < until - low:
                numbers = [seq for seq in self.log if seq <= until]
            self._drop(numbers)

    def trim(self, done: int, count_max: int, bytes_max: int) -> None:
        """Hold no more than that of what was delivered here: older messages can be read from the driver's log."""
        if len(self.log) > count_max:
            self.forget(min(done, self.got - count_max))
        while self.log_bytes > bytes_max and self.low <= done:
            self.forget(min(done, self.low + len(self.log) // 8))

    def _drop(self, numbers: Iterable[int]) -> None:
        for seq in numbers:
            message = self.log.pop(seq, None)
            if message is not None:
                self.log_bytes -= len(message.payload)

    def place(self, node: int, position: Position, *, counts: bool) -> bool:
        """`node` says how far it is. True when the round may be complete, and `settle` has something to look at.

        Rounds count members that are up; others are only written down.
        """
        old = self.positions.get(node)
        self.positions[node] = position
        if not counts or node in self.behind:
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
        """Look at all members. `done` is how far this node itself has delivered."""
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
            if node not in down and node not in self.behind:
                behind += position.got < self.got
                late += position.done < done
                if position.got < arrived:
                    arrived = position.got
        self.arrived = arrived
        self._arrival.goal, self._arrival.short = self.got, behind
        self._delivery.goal, self._delivery.short = done, late
        self._unknown = unknown
        self.stable = max(self.stable, stable)

    def sort_out(self, members: Collection[int], down: Container[int], window: int) -> None:
        """Tell members that keep up from those behind: more than a window short, until they are within half of one."""
        if self.behind:
            self.behind.intersection_update(members)
        for node in members:
            position = self.positions.get(node)
            if position is None or node in down:
                self.behind.discard(node)
            elif self.got - position.got > window:
                self.behind.add(node)
            elif node in self.behind and self.got - position.got <= window // 2:
                self.behind.discard(node)

    def paced(self, seq: int, window: int) -> int:
        """How many messages may be published in this period so that members that are behind catch up.

        A quarter of a window, and one for every two that the slowest of those members has received since it began.
        """
        if self.pace is None:
            return window
        began, reached = self.pace
        gains = [self.positions[node].got - got for node, got in reached.items() if node in self.behind]
        return began + max(1, window // 4) + max(0, min(gains, default=2 * window)) // 2 - seq

    @property
    def settled(self) -> bool:
        """Have all members that are up and keep up received what there was when we last looked?"""
        return not self._arrival.short
