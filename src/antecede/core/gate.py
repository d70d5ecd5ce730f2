"""The gate holds messages until they are deliverable, and returns them in order. Every protocol uses this one.

Every ordering of the five papers is a set of named counters, and messages that wait until counters reach given values.
A message has a position in one or more streams (`pos`) and lower bounds that it waits for (`needs`). Protocols differ
only in these headers:

    ordering                 stream           needs
    FIFO                     (source, topic)  –
    causal, one topic        source           barrier or changed clock entries
    causal across topics     (source, topic)  frontier of the topics the node takes
    localized                link             the node's column of the dependencies
    rounds                   broker           ages
    total                    topic            timestamp, before

A position is *settled* once its message was delivered, tagged as out of order or given up, or once it lies at or below
the floor of its stream.

Two rules keep the gate fast. A message waits on its first missing need only, and resumes the scan there when that
counter has risen: a message costs time in proportion to its own header, however many are held. A counter that rises
wakes exactly the messages that waited for the values it passed.
"""

import enum
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from antecede.core.errors import UsageError
from antecede.core.limits import HELD_MESSAGES_MAX
from antecede.core.numbers import absorb

T = TypeVar("T")
Stream: TypeAlias = Hashable
#: "This stream has reached at least n."
Need: TypeAlias = tuple[Stream, int]


class Counters(Generic[T]):
    """Named counters that only rise, and items that wait until some of them reach given values."""

    __slots__ = ("_waiting", "beyond", "level", "waiting")

    def __init__(self) -> None:
        #: Counter values. A stream that is not in the dict stands at 0.
        self.level: dict[Stream, int] = {}
        #: By stream: numbers added beyond a hole. The counter stands below the hole.
        self.beyond: dict[Stream, set[int]] = {}
        #: How many items wait.
        self.waiting = 0
        # stream -> level -> items waiting for it, each with those of its needs that were not looked at yet.
        self._waiting: dict[Stream, dict[int, list[tuple[T, Iterator[Need]]]]] = {}

    def has(self, stream: Stream, n: int) -> bool:
        """Is `n` at or below the counter, or among the numbers beyond a hole?"""
        return n <= self.level.get(stream, 0) or n in self.beyond.get(stream, ())

    def add(self, stream: Stream, n: int) -> list[T]:
        """Add the number `n`, and raise the counter as far as there is no hole. Returns the items that became free."""
        reached = self.level.get(stream, 0)
        if n == reached + 1 and not self.beyond and stream not in self._waiting:  # mostly
            self.level[stream] = n
            return []
        if n > reached + 1:
            self.beyond.setdefault(stream, set()).add(n)
            return []
        return self.raise_to(stream, n)

    def start_after(self, stream: Stream, n: int) -> list[T]:
        """Count every number up to `n` as added. Returns the items that became free."""
        if stream in self.beyond:
            self.beyond[stream] = {number for number in self.beyond[stream] if number > n}
        return self.raise_to(stream, n)

    def met(self, needs: Iterable[Need]) -> bool:
        level = self.level
        return all(level.get(stream, 0) >= n for stream, n in needs)

    def wait(self, item: T, needs: Iterable[Need]) -> bool:
        """True when all `needs` are met; otherwise `item` is held and comes out of `raise_to` later."""
        level = self.level
        rest = iter(needs)
        for stream, n in rest:
            if level.get(stream, 0) < n:
                self.waiting += 1
                waiting = self._waiting.get(stream)
                if waiting is None:
                    self._waiting[stream] = {n: [(item, rest)]}
                elif n in waiting:
                    waiting[n].append((item, rest))
                else:
                    waiting[n] = [(item, rest)]
                return False
        return True

    def raise_to(self, stream: Stream, n: int) -> list[T]:
        """Raise `stream` to `n`, and over the numbers added right behind it. Returns the items that became free."""
        level = self.level
        old = level.get(stream, 0)
        if n <= old:
            return []
        if self.beyond and stream in self.beyond:
            n = absorb(n, self.beyond[stream])
            if not self.beyond[stream]:
                del self.beyond[stream]
        level[stream] = n
        waiting = self._waiting.get(stream)
        if waiting is None:
            return []
        # Scan the levels passed or the levels waited for, whichever are fewer: a stream that jumps by two each time
        # must not scan everything that is held each time.
        reached: Sequence[int] = range(old + 1, n + 1)
        if len(reached) > len(waiting):
            reached = sorted(value for value in waiting if value <= n)
        satisfied: list[T] = []
        for value in reached:
            for item, rest in waiting.pop(value, ()):
                self.waiting -= 1
                if self.wait(item, rest):
                    satisfied.append(item)
        if not waiting:
            del self._waiting[stream]
        return satisfied

    def items(self) -> list[tuple[T, Iterator[Need]]]:
        """The items that wait, each with those of its needs that were not looked at yet."""
        return [one for waiting in self._waiting.values() for items in waiting.values() for one in items]

    def missing(self) -> dict[Stream, int]:
        """For each stream that an item waits on, the highest value waited for: what a pull would ask for."""
        return {stream: max(waiting) for stream, waiting in self._waiting.items()}


class Verdict(enum.Enum):
    """The gate's answer to a message that was offered."""

    READY = "ready"  # the next `drain` returns it
    WAITING = "waiting"  # held: a message it needs is missing
    DUPLICATE = "duplicate"  # its position is held or settled: drop it
    LATE = "late"  # its position was given up: it cannot be delivered in order any more
    FULL = "full"  # the bound on held messages is reached: refused, offer it again


#: Bound once: looking up a member of an enumeration costs as much as a call, and every message needs these.
READY: Final = Verdict.READY
WAITING: Final = Verdict.WAITING
FULL: Final = Verdict.FULL


class Settled(NamedTuple):
    """The settled positions of a gate. With the messages it holds, a gate in another process can go on from here."""

    #: `reached` of every stream that has moved.
    levels: dict[Stream, int]
    #: Positions settled beyond a hole.
    beyond: dict[Stream, set[int]]
    #: Positions given up whose messages have not arrived.
    given_up: dict[Stream, set[int]]


#: A held message: (item, pos). A plain tuple, since one is made for every message.
_Entry: TypeAlias = tuple[T, Sequence[Need]]


class Gate(Generic[T]):
    """Takes messages in any order, and returns each once, in an order that respects their headers.

    With `contiguous` positions (the default) a message also waits for the one just before it in each of its streams.
    Without, positions may jump (rounds), and a message waits for its `needs` only.
    """

    def __init__(self, *, contiguous: bool = True, held_max: int = HELD_MESSAGES_MAX) -> None:
        if held_max < 1:
            raise UsageError("held_max", held_max, "a gate must be able to hold a message", "use at least 1")
        self._contiguous = contiguous
        self._held_max = held_max
        # Positions settled without a hole, and the messages that wait for more of them.
        self._got: Counters[_Entry[T]] = Counters()
        # Positions settled beyond a hole: the counters' own dict.
        self._beyond = self._got.beyond
        # Positions given up: a message that arrives there is late, not a duplicate.
        self._skipped: dict[Stream, set[int]] = {}
        # Where this node's part of a stream begins (a join, a restart).
        self._floor: dict[Stream, int] = {}
        self._inside: set[Need] = set()
        # Positions of held messages that were settled outside the gate: these messages are dropped at their turn.
        self._void: set[Need] = set()
        self._ready: list[_Entry[T]] = []

    @property
    def held(self) -> int:
        """How many messages wait for a missing one."""
        return self._got.waiting

    def reached(self, stream: Stream) -> int:
        """The position up to which `stream` is settled without a hole."""
        return self._got.level.get(stream, 0)

    @property
    def level(self) -> Mapping[Stream, int]:
        """`reached` of every stream that has moved, to be read at once."""
        return self._got.level

    def is_settled(self, stream: Stream, n: int) -> bool:
        """Was position `n` delivered, tagged or given up, or is it at or below the floor?"""
        return self._got.has(stream, n)

    def levels(self) -> dict[Stream, int]:
        """`reached` of every stream that has moved."""
        return dict(self._got.level)

    def missing(self) -> dict[Stream, int]:
        """For each stream that a message waits on, the highest position waited for."""
        return self._got.missing()

    def offer(self, item: T, pos: Sequence[Need], needs: Sequence[Need] = ()) -> Verdict:
        """Give a message to the gate. After the verdict READY, call `drain`."""
        got, inside = self._got, self._inside
        level = got.level
        behind = False
        for place in pos:
            stream, n = place
            reached = level.get(stream, 0)
            if n <= reached or place in inside or (self._beyond and n in self._beyond.get(stream, ())):
                # A message below the floor of one stream may be new in another, which must not stall.
                news = [place for place in pos if place[1] > self._floor.get(place[0], 0)]
                if 0 < len(news) < len(pos):
                    return self.offer(item, news, needs)
                return self._already(stream, n)
            if n > reached + 1:
                behind = True
        if behind and self._contiguous:
            needs = (*[(stream, n - 1) for stream, n in pos], *needs)
        if got.waiting >= self._held_max and not got.met(needs):
            return FULL
        for place in pos:
            inside.add(place)
        entry = (item, pos)
        if needs and not got.wait(entry, needs):
            return WAITING
        self._ready.append(entry)
        return READY

    def admit(self, stream: Stream, n: int, needs: Iterable[Need] = ()) -> bool:
        """Settle a message as delivered if it is next in its stream, has all it needs, and no message waits for it.

        This is the common case in one step. On False nothing has changed: `offer` the message.
        """
        got = self._got
        level = got.level
        if level.get(stream, 0) != n - 1 or not self._contiguous:
            return False
        if stream in got._waiting or self._beyond:
            return False
        if self._inside and (stream, n) in self._inside:
            return False
        for other, least in needs:
            if level.get(other, 0) < least:
                return False
        level[stream] = n
        return True

    def admit_run(self, stream: Stream, first: int, last: int) -> bool:
        """`admit` consecutive messages of one stream without needs: all of them or none."""
        got = self._got
        if got.level.get(stream, 0) != first - 1 or not self._contiguous:
            return False
        if stream in got._waiting or self._beyond:
            return False
        if self._inside and any((stream, n) in self._inside for n in range(first, last + 1)):
            return False
        got.level[stream] = last
        return True

    def drain(self) -> list[T]:
        """Return the messages that may be delivered now, in order, with those that waited only for these."""
        out: list[T] = []
        ready, inside, got = self._ready, self._inside, self._got
        for item, pos in ready:  # grows during the loop
            if (self._floor or self._void) and self._dropped(pos):
                self._void.difference_update(pos)
            else:
                out.append(item)
            for place in pos:
                inside.discard(place)
                freed = got.raise_to(place[0], place[1])  # no hole is before it: the message has waited for that
                if freed:
                    ready += freed
        ready.clear()
        return out

    def floor(self, stream: Stream, n: int) -> None:
        """Start `stream` after `n`: positions up to `n` are settled, and held messages there are dropped."""
        if n > self._floor.get(stream, 0):
            self._floor[stream] = n
            self._ready.extend(self._got.start_after(stream, n))

    def skip(self, stream: Stream, n: int) -> int:
        """Give up the missing positions of `stream` up to `n`. Returns how many. A message that arrives there is late.

        Held messages of the stream keep their turn: only holes are filled. Where positions jump, only holes before the
        first held message are filled: skip again once it is delivered.
        """
        skipped = 0
        for position in range(self.reached(stream) + 1, n + 1):
            if (stream, position) in self._inside:
                if not self._contiguous:
                    break
            elif position > self.reached(stream) and position not in self._beyond.get(stream, ()):
                self._skipped.setdefault(stream, set()).add(position)
                self._ready.extend(self._settle(stream, position))
                skipped += 1
        return skipped

    def mark_settled(self, stream: Stream, n: int) -> None:
        """Settle position `n`, which was handled outside the gate (tagged and shown, or void).

        A message held at that position is dropped.
        """
        self._skipped.get(stream, set()).discard(n)
        if (stream, n) in self._inside:
            self._void.add((stream, n))
        self._ready.extend(self._settle(stream, n))

    def gave_up(self, stream: Stream, n: int) -> bool:
        """Was position `n` skipped, and has its message not been settled since?"""
        return n in self._skipped.get(stream, ())

    def forget(self, stream: Stream) -> None:
        """Drop a stream that holds nothing: should it come again, it begins anew."""
        for remembered in (self._got.level, self._floor, self._beyond, self._skipped):
            remembered.pop(stream, None)

    def settled(self) -> Settled:
        """Return what to store of a gate. After `resume`, offer held messages again."""
        return Settled(
            dict(self._got.level),
            {stream: set(positions) for stream, positions in self._beyond.items()},
            {stream: set(positions) for stream, positions in self._skipped.items() if positions},
        )

    def resume(self, settled: Settled) -> None:
        """Go on where another gate stopped. This gate must be new."""
        if self._got.level or self._inside:
            raise UsageError("gate", self.levels(), "has begun already", "resume into a new one")
        self._got.level.update(settled.levels)
        self._beyond.update((stream, set(positions)) for stream, positions in settled.beyond.items())
        self._skipped.update((stream, set(positions)) for stream, positions in settled.given_up.items())

    def holding(self) -> list[T]:
        """The messages that wait for a missing one."""
        return [item for (item, _), _ in self._got.items()]

    def emptied(self) -> "Gate[T]":
        """Return a new gate that starts where this one has come, and holds nothing."""
        fresh: Gate[T] = Gate(contiguous=self._contiguous, held_max=self._held_max)
        for stream, level in self._got.level.items():
            fresh.floor(stream, level)
        return fresh

    def _already(self, stream: Stream, n: int) -> Verdict:
        return Verdict.LATE if n in self._skipped.get(stream, ()) else Verdict.DUPLICATE

    def _dropped(self, pos: Sequence[Need]) -> bool:
        """Was a held message settled outside the gate, or is it at or below the floor in all of its streams?"""
        if not self._void.isdisjoint(pos):
            return True
        return bool(pos) and all(n <= self._floor.get(stream, 0) for stream, n in pos)

    def _settle(self, stream: Stream, n: int) -> list[_Entry[T]]:
        """Settle position `n`, and return the messages that waited for it."""
        return self._got.add(stream, n) if self._contiguous else self._got.raise_to(stream, n)
