"""Δ-causal order for feeds with a maximum age (Baldoni et al. 1996): late messages are skipped, none waits beyond Δ.

A message is *late* when it is older than Δ, by the time at which it was published. A message that waits for others is
given, before its turn, when it is Δ old. Its predecessors were published before it, so they are late by then. A feed
that skips them when their turn comes is therefore given messages in causal order.

That needs clocks that agree. Publishers' clocks may differ by a quarter of Δ, because Lamport times are compared, too:

  release  With a message that is Δ old go the waiting ones of a lower Lamport time that are at least ¾ Δ old: they may
           precede it. All are given by Lamport time.
  skip     A message that comes after those is late at ½ Δ already, if its Lamport time is lower than one of theirs.

A message given before its turn is at least ¾ Δ old, so by clocks that far apart its predecessors are at least ½ Δ old.
A message without a Lamport time (0) is judged by its age alone. A message from a clock that is ahead counts as
published when it arrived: it does not wait for longer than Δ either.

This module reads no clock: times are arguments, in microseconds.
"""

from heapq import heapify, heappop, heappush
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")

#: A message: its stream and sequence number.
Name: TypeAlias = tuple[int, int]

#: Entries of messages that no longer wait are removed when there are more of them than waiting messages, and than this.
_STALE_MAX: Final = 1000


class _Waiting(NamedTuple):
    """A message that waits, to be compared by its time."""

    time_us: int
    clock: int
    stream: int
    seq: int

    @property
    def name(self) -> Name:
        return self.stream, self.seq


class MaxAge(Generic[T]):
    """Decides for feeds of one maximum age. `T` is what the caller keeps of a message that waits."""

    def __init__(self, max_age_us: int) -> None:
        self.max_age_us = max_age_us
        self._skew_us = max_age_us // 4
        #: Messages that wait for their turn, and were not released.
        self._items: dict[Name, T] = {}
        #: The same: a heap of younger ones, and those that are at least ¾ Δ old. Some no longer wait.
        self._young: list[_Waiting] = []
        self._old: list[_Waiting] = []
        #: Messages that were released and wait for their turn, and the highest Lamport time of all since there are any.
        self._released: set[Name] = set()
        self._released_clock = 0

    def is_late(self, time_us: int, clock: int, now_us: int, early_clock: int) -> bool:
        """Is a message to be skipped that was published at `time_us`? To be asked when its turn comes.

        `early_clock`: the highest Lamport time of those that the reader was given and whose turn has not come; or 0.
        """
        limit_us = self.max_age_us - 2 * self._skew_us if 0 < clock < early_clock else self.max_age_us
        return now_us - time_us > limit_us

    def hold(self, name: Name, time_us: int, clock: int, item: T, now_us: int) -> None:
        """A message has arrived and waits for its turn."""
        known = name in self._items or name in self._released
        if known or self.is_late(time_us, clock, now_us, self._released_clock):
            return
        self._items[name] = item
        heappush(self._young, _Waiting(min(time_us, now_us), clock, *name))
        if len(self._young) > 2 * len(self._items) + _STALE_MAX:
            self._young = [one for one in self._young if one.name in self._items]
            heapify(self._young)

    def next_due_us(self) -> int | None:
        """When a message is to be released; None: none waits."""
        while self._young and self._young[0].name not in self._items:
            heappop(self._young)
        self._old = [one for one in self._old if one.name in self._items]
        waiting = [one.time_us for one in (*self._young[:1], *self._old)]
        return min(waiting) + self.max_age_us if waiting else None

    def release(self, now_us: int) -> list[T]:
        """The messages that wait no longer, in the order in which they are to be given."""
        while self._young and self._young[0].time_us <= now_us - self.max_age_us + self._skew_us:
            self._old.append(heappop(self._young))
        self._old = [one for one in self._old if one.name in self._items]
        due = [one for one in self._old if one.time_us <= now_us - self.max_age_us]
        if not due:
            return []
        highest = max([one.clock for one in due])
        given = sorted({*due, *[one for one in self._old if 0 < one.clock < highest]}, key=_by_lamport_time)
        self._released.update([one.name for one in given])
        self._released_clock = max(self._released_clock, highest)
        return [self._items.pop(one.name) for one in given]

    def settle(self, name: Name) -> None:
        """The turn of a message has come, or never will."""
        self._items.pop(name, None)
        if name in self._released:
            self._released.discard(name)
            if not self._released:
                self._released_clock = 0


def _by_lamport_time(one: _Waiting) -> tuple[int, int, int, int]:
    return one.clock, one.time_us, one.stream, one.seq
