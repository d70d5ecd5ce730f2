"""The gate: holds messages until they are deliverable, and says which became so. It exists once.

Every ordering of the five papers is *named counters plus "wait until they reach these values"*. A message has
a position in one or more streams (`pos`), lower bounds it waits for (`needs`), and for total order upper bounds
it must not be overtaken by (`caps`). What differs between protocols is only who fills these in:

    ordering                 stream           needs                              caps
    FIFO                     (source, topic)  –                                  –
    causal, one topic        source           barrier or changed clock entries   –
    causal across topics     (source, topic)  frontier of the topics I take      –
    localized                link             my column of the dependencies      –
    rounds                   broker           ages                               –
    total                    topic            timestamp, before                  timestamp

Two rules keep it fast. A message waits on its *first* missing need only, and resumes the scan there when that
counter has moved: the cost of a message is proportional to its own header, never to what is held. A counter that
moves wakes exactly those that waited for the value it reached.
"""

import enum
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from antecede.core.errors import UsageError
from antecede.core.limits import HELD_MESSAGES_MAX

T = TypeVar("T")
Stream: TypeAlias = Hashable
#: "this stream has reached at least n"
Need: TypeAlias = tuple[Stream, int]


class _Levels(dict[Stream, int]):
    """Counter values; one never heard of stands at 0 and takes no room.

    Where it counts, ask with `get(stream, 0)`: what a subclass does for an absent key costs even where none is absent.
    """

    __slots__ = ()

    def __missing__(self, stream: Stream) -> int:
        return 0


class Counters(Generic[T]):
    """Named counters that only rise, and items that wait until some of them reach given values."""

    __slots__ = ("_waiting", "level", "waiting")

    def __init__(self) -> None:
        self.level = _Levels()
        #: How many items wait.
        self.waiting = 0
        # stream -> level -> items waiting for it, each with those of its needs that were not looked at yet.
        self._waiting: dict[Stream, dict[int, list[tuple[T, Iterator[Need]]]]] = {}

    def met(self, needs: Iterable[Need]) -> bool:
        level = self.level
        return all(level[stream] >= n for stream, n in needs)

    def wait(self, item: T, needs: Iterable[Need]) -> bool:
        """True when all `needs` are met; otherwise `item` is held and comes out of `raise_to` later."""
        reached = self.level.get
        rest = iter(needs)
        for stream, n in rest:
            if reached(stream, 0) < n:
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
        """Set `stream` to `n` if that is higher. Returns the items that now have all they need."""
        level = self.level
        old = level.get(stream, 0)
        if n <= old:
            return []
        level[stream] = n
        waiting = self._waiting.get(stream)
        if waiting is None:
            return []
        # Look at the levels passed or at the levels waited for, whichever are fewer: a stream that jumps by two at a
        # time must not look through everything that is held each time.
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

    def missing(self) -> dict[Stream, int]:
        """For each stream somebody waits on, the highest value waited for: what a pull would ask for."""
        return {stream: max(waiting) for stream, waiting in self._waiting.items()}


class Verdict(enum.Enum):
    """What the gate says of a message that was offered."""

    READY = "ready"  # it comes out of the next `drain`
    WAITING = "waiting"  # held: something it needs is missing
    DUPLICATE = "duplicate"  # delivered, held or accounted for already: drop it
    LATE = "late"  # given up on, or overtaken: it cannot be delivered in order any more
    FULL = "full"  # the bound on held messages is reached: not taken, offer it again


#: Bound once: looking up a member of an enumeration costs as much as a call, and these are asked for at every message.
READY, WAITING, FULL = Verdict.READY, Verdict.WAITING, Verdict.FULL


class Accounts(NamedTuple):
    """What a gate remembers beside the messages it holds: enough to go on in another process."""

    #: `reached` of every stream that has moved.
    levels: dict[Stream, int]
    #: Positions accounted for beyond a hole.
    beyond: dict[Stream, set[int]]
    #: Positions given up, of which nothing has come.
    given_up: dict[Stream, set[int]]


#: A message inside the gate with its place in the order: (item, pos, caps). A tuple: one is made for every message.
_Entry: TypeAlias = tuple[T, Sequence[Need], Sequence[Need]]


class Gate(Generic[T]):
    """Takes messages in any order, gives them back in an order that respects their headers, each once.

    With `contiguous` positions (the default) a message also waits for the one just before it in each of its
    streams. Without, positions may jump (rounds) and only `needs` are waited for.
    """

    def __init__(self, *, contiguous: bool = True, held_max: int = HELD_MESSAGES_MAX) -> None:
        if held_max < 1:
            raise UsageError("held_max", held_max, "a gate that may hold nothing orders nothing", "use at least 1")
        self._contiguous = contiguous
        self._held_max = held_max
        # What is accounted for (delivered, tagged or given up) without a hole, and who waits for more.
        self._got: Counters[_Entry[T]] = Counters()
        # Positions accounted for beyond a hole.
        self._beyond: dict[Stream, set[int]] = {}
        # Where the last position accounted for was tagged, skipped or late: the last that was delivered in order or is
        # before our time. Elsewhere that is `_got`, and so nothing is written down for most streams (see `_have`).
        self._have_less: dict[Stream, int] = {}
        # Positions given up: an arrival there is late, not a duplicate.
        self._skipped: dict[Stream, set[int]] = {}
        # Positions before our time (a join, a restart).
        self._floor = _Levels()
        self._inside: set[Need] = set()
        # Positions inside that were dealt with outside meanwhile: their messages are dropped when their turn comes.
        self._void: set[Need] = set()
        self._ready: list[_Entry[T]] = []
        self._late: list[T] = []

    @property
    def held(self) -> int:
        """Messages that wait for something."""
        return self._got.waiting

    def reached(self, stream: Stream) -> int:
        """Up to where `stream` is accounted for without a hole."""
        return self._got.level[stream]

    def accounted(self, stream: Stream, n: int) -> bool:
        """Is position `n` dealt with: delivered, tagged, given up, or before our time?"""
        return n <= self._got.level[stream] or n in self._beyond.get(stream, ())

    def levels(self) -> dict[Stream, int]:
        """`reached` of every stream that has moved."""
        return dict(self._got.level)

    def missing(self) -> dict[Stream, int]:
        """For each stream somebody waits on, the highest position waited for."""
        return self._got.missing()

    def offer(self, item: T, pos: Sequence[Need], needs: Sequence[Need] = (), caps: Sequence[Need] = ()) -> Verdict:
        """Give a message to the gate. When the verdict is READY, `drain` has news."""
        got, inside = self._got, self._inside
        level = got.level
        behind = False
        for place in pos:
            stream, n = place
            reached = level.get(stream, 0)
            if n <= reached or place in inside or (self._beyond and n in self._beyond.get(stream, ())):
                # What is before our time in one of its streams may be news in another, which must not stall.
                news = [place for place in pos if place[1] > self._floor[place[0]]]
                if 0 < len(news) < len(pos):
                    return self.offer(item, news, needs, caps)
                return self._already(stream, n)
            if n > reached + 1:
                behind = True
        if caps and self._overtaken(caps):
            return Verdict.LATE
        if behind and self._contiguous:
            needs = (*[(stream, n - 1) for stream, n in pos], *needs)
        if got.waiting >= self._held_max and not got.met(needs):
            return FULL
        inside.update(pos)
        entry = (item, pos, caps)
        if needs and not got.wait(entry, needs):
            return WAITING
        self._ready.append(entry)
        return READY

    def admit(self, stream: Stream, n: int, needs: Iterable[Need] = ()) -> bool:
        """The common case in one step: true when a message at this position is deliverable, which it then counts as.

        That is when it is next in its stream, all it needs is there, and nothing else waits for it. Otherwise nothing
        has happened: `offer` it.
        """
        got = self._got
        level = got.level
        if level.get(stream, 0) != n - 1 or not self._contiguous:
            return False
        if stream in got._waiting or self._beyond or stream in self._have_less:
            return False
        if self._inside and (stream, n) in self._inside:
            return False
        reached = level.get
        for other, least in needs:
            if reached(other, 0) < least:
                return False
        level[stream] = n
        return True

    def admit_run(self, stream: Stream, first: int, last: int) -> bool:
        """`admit` for messages of one stream that need nothing else, all of them or none."""
        got = self._got
        if got.level.get(stream, 0) != first - 1 or not self._contiguous:
            return False
        if stream in got._waiting or self._beyond or stream in self._have_less:
            return False
        if self._inside and any((stream, n) in self._inside for n in range(first, last + 1)):
            return False
        got.level[stream] = last
        return True

    def drain(self) -> list[T]:
        """The messages that may be delivered now, in order. Those that waited only for these are among them."""
        out: list[T] = []
        ready, inside, have_less = self._ready, self._inside, self._have_less
        for item, pos, caps in ready:  # grows while we walk it
            delivered = False
            if (self._floor or self._void) and self._dropped(pos):
                self._void.difference_update(pos)
            elif caps and self._overtaken(caps):
                self._late.append(item)
            else:
                delivered = True
                out.append(item)
            for place in pos:
                stream, n = place
                inside.discard(place)
                if delivered and not self._beyond and stream not in have_less:
                    woken = self._got.raise_to(stream, n)  # what `_account` does when nothing unusual happened
                else:
                    woken = self._account(stream, n, delivered)
                if woken:
                    ready += woken
        ready.clear()
        return out

    def take_late(self) -> list[T]:
        """Messages that were overtaken while they waited. They are accounted for and not in any `drain`."""
        late, self._late = self._late, []
        return late

    def floor(self, stream: Stream, n: int) -> None:
        """Start `stream` after `n`: what lies at or below it was before our time, also what is held of it."""
        if n > self._floor[stream]:
            self._floor[stream] = n
            have = max(self._have(stream), n)
            if stream in self._beyond:
                self._beyond[stream] = {position for position in self._beyond[stream] if position > n}
            self._ready.extend(self._jump(stream, n))
            self._set_have(stream, have)

    def skip(self, stream: Stream, n: int) -> int:
        """Give up on what is missing of `stream` up to `n`; should it come after all, it is late. Returns how many.

        What is held of the stream keeps its turn: only the holes are filled. Where positions jump there are no holes
        to fill behind a held message, only before it: skip again once it is delivered.
        """
        skipped = 0
        for position in range(self._got.level[stream] + 1, n + 1):
            if (stream, position) in self._inside:
                if not self._contiguous:
                    break
            elif position > self._got.level[stream] and position not in self._beyond.get(stream, ()):
                self._skipped.setdefault(stream, set()).add(position)
                self._ready.extend(self._account(stream, position))
                skipped += 1
        return skipped

    def mark_settled(self, stream: Stream, n: int) -> None:
        """Position `n` was dealt with outside the gate (tagged and shown, or void): nobody waits for it.

        A message held at that position is not delivered any more.
        """
        self._skipped.get(stream, set()).discard(n)
        if (stream, n) in self._inside:
            self._void.add((stream, n))
        self._ready.extend(self._account(stream, n))

    def gave_up(self, stream: Stream, n: int) -> bool:
        """Was position `n` skipped, and has nothing come of it since?"""
        return n in self._skipped.get(stream, ())

    def accounts(self) -> Accounts:
        """What to keep of a gate whose messages have no caps; hand it to `resume`, then offer what was held again."""
        return Accounts(
            dict(self._got.level),
            {stream: set(positions) for stream, positions in self._beyond.items()},
            {stream: set(positions) for stream, positions in self._skipped.items() if positions},
        )

    def resume(self, accounts: Accounts) -> None:
        """Go on where another gate was. This one must be new."""
        if self._got.level or self._inside:
            raise UsageError("gate", self.levels(), "has begun already", "resume into a new one")
        self._got.level.update(accounts.levels)
        self._beyond.update((stream, set(positions)) for stream, positions in accounts.beyond.items())
        self._skipped.update((stream, set(positions)) for stream, positions in accounts.given_up.items())

    def _already(self, stream: Stream, n: int) -> Verdict:
        return Verdict.LATE if n in self._skipped.get(stream, ()) else Verdict.DUPLICATE

    def _dropped(self, pos: Sequence[Need]) -> bool:
        """Was a message dealt with outside since it came in, or is it before our time in all of its streams?"""
        if not self._void.isdisjoint(pos):
            return True
        return bool(pos) and all(n <= self._floor[stream] for stream, n in pos)

    def _have(self, stream: Stream) -> int:
        """The highest position delivered in order or before our time: what caps are held against."""
        have = self._have_less.get(stream)
        return self._got.level[stream] if have is None else have

    def _set_have(self, stream: Stream, have: int) -> None:
        if have < self._got.level[stream]:
            self._have_less[stream] = have
        else:
            self._have_less.pop(stream, None)

    def _overtaken(self, caps: Sequence[Need]) -> bool:
        return any(self._have(stream) > n for stream, n in caps)

    def _account(self, stream: Stream, n: int, delivered: bool = False) -> list[_Entry[T]]:
        """`n` is dealt with: raise the counter as far as there is no hole."""
        level = self._got.level.get(stream, 0)
        if self._contiguous and n > level + 1:
            self._beyond.setdefault(stream, set()).add(n)
            return []
        have = self._have_less.get(stream, level)
        woken = self._jump(stream, n) if n > level else []
        self._set_have(stream, max(have, n) if delivered else have)
        return woken

    def _jump(self, stream: Stream, n: int) -> list[_Entry[T]]:
        """Everything up to `n` is dealt with, and what lies accounted for right behind it."""
        beyond = self._beyond.get(stream)
        if beyond is not None:
            while n + 1 in beyond:
                n += 1
                beyond.discard(n)
            if not beyond:
                del self._beyond[stream]
        return self._got.raise_to(stream, n)
