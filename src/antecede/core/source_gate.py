"""The gate of one topic whose streams are its sources: `core.gate` for large simulations.

It gives the verdicts and the order that `core.gate.Gate` gives (`tests/core/test_source_gate.py`). Its counters stand
in a list, by the number of their source, instead of a dict. With a thousand nodes the counters of the next event's node
have left the processor's caches, and a look-up in a list loads one cache line where a dict loads three. Positions are
contiguous, and none is given up.

A list has a place for every source up to the highest that was added, 2**`CUBE_DIMENSION_MAX` at most.
"""

from collections.abc import Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

from antecede.core.gate import FULL, READY, WAITING, Verdict
from antecede.core.limits import CUBE_DIMENSION_MAX, HELD_MESSAGES_MAX
from antecede.core.message import Dependency, Message
from antecede.core.numbers import absorb

T = TypeVar("T")
#: A tuple and no other sequence: compiled code reads it in a third of the time.
Needs: TypeAlias = tuple[Dependency, ...]

#: A source and one of its numbers make one number, which takes less memory than a tuple: `number << _BITS | source`.
_BITS: Final = CUBE_DIMENSION_MAX
_SOURCE: Final = (1 << _BITS) - 1


class SourceCounters(Generic[T]):
    """What `core.gate.Counters` does, for counters that are named by sources and rise by one."""

    __slots__ = ("_waiting", "beyond", "level", "waiting")

    def __init__(self) -> None:
        #: By source: the counter. Sources behind the end stand at 0.
        self.level: list[int] = []
        #: By source: numbers added beyond a hole. The counter stands below the hole.
        self.beyond: dict[int, set[int]] = {}
        #: How many items wait.
        self.waiting = 0
        # By source and number: the items that wait for it, their needs, and how many of these were looked at.
        self._waiting: dict[int, list[tuple[T, Needs, int]]] = {}

    def reached(self, source: int) -> int:
        """The counter of `source`."""
        return self.level[source] if source < len(self.level) else 0

    def unmet(self, needs: Needs) -> list[Dependency]:
        """Those of `needs` that are not met."""
        level = self.level
        size = len(level)
        unmet: list[Dependency] = []
        for need in needs:
            source, n = need
            if source >= size or level[source] < n:
                unmet.append(need)
        return unmet

    def met(self, needs: Needs) -> bool:
        return all(self.reached(source) >= n for source, n in needs)

    def wait(self, item: T, needs: Needs, looked_at: int = 0) -> bool:
        """True when all `needs` are met; otherwise `item` is held and comes out of `add` later."""
        level = self.level
        size = len(level)
        while looked_at < len(needs):
            source, n = needs[looked_at]
            looked_at += 1
            if source >= size or level[source] < n:
                self.hold(item, source, n, needs, looked_at)
                return False
        return True

    def hold(self, item: T, source: int, n: int, needs: Needs, looked_at: int = 0) -> None:
        """Hold `item` until the counter of `source` reaches `n`, and then until the rest of `needs` are met."""
        self.waiting += 1
        key = n << _BITS | source
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = [(item, needs, looked_at)]
        else:
            waiting.append((item, needs, looked_at))

    def add(self, source: int, n: int, freed: list[T]) -> None:
        """Add the number `n`, and raise the counter as far as there is no hole. Appends the items that became free."""
        level = self.level
        if source >= len(level):
            level += [0] * (source + 1 - len(level))
        reached = level[source]
        if n != reached + 1:
            if n > reached:
                self.beyond.setdefault(source, set()).add(n)
            return
        last = n
        if self.beyond and source in self.beyond:
            last = self._absorb(source, n, self.beyond[source])
        level[source] = last
        if self._waiting:
            self._free(source, range(n, last + 1), freed)

    def start_after(self, source: int, n: int, freed: list[T]) -> None:
        """Count every number up to `n` as added. Appends the items that became free."""
        old = self.reached(source)
        if n <= old:
            return
        level = self.level
        if source >= len(level):
            level += [0] * (source + 1 - len(level))
        if source in self.beyond:
            n = self._absorb(source, n, {number for number in self.beyond[source] if number > n})
        level[source] = n
        numbers: Sequence[int] = range(old + 1, n + 1)
        if len(numbers) > len(self._waiting):
            waiting = [name >> _BITS for name in self._waiting if name & _SOURCE == source]
            numbers = sorted(number for number in waiting if number <= n)
        self._free(source, numbers, freed)

    def _absorb(self, source: int, n: int, beyond: set[int]) -> int:
        """Move the numbers that follow `n` out of `beyond`, keep the rest, and return the last of them."""
        n = absorb(n, beyond)
        if beyond:
            self.beyond[source] = beyond
        else:
            del self.beyond[source]
        return n

    def _free(self, source: int, numbers: Sequence[int], freed: list[T]) -> None:
        """Append the items that waited for these numbers of `source` and for nothing else."""
        for n in numbers:
            waiting = self._waiting.pop(n << _BITS | source, None)
            if waiting is not None:
                for item, needs, looked_at in waiting:
                    self.waiting -= 1
                    if self.wait(item, needs, looked_at):
                        freed.append(item)


class SourceGate:
    """Takes the messages of one topic in any order, and returns each once, in an order that respects their headers.

    A message's position is its sequence number in the stream of its source. It waits for its dependencies.
    """

    def __init__(self, *, held_max: int = HELD_MESSAGES_MAX) -> None:
        self._got: SourceCounters[Message] = SourceCounters()
        self._held_max = held_max
        # Of held messages, and of those that the next `drain` returns: `seq << _BITS | source`.
        self._inside: set[int] = set()
        self._ready: list[Message] = []
        # By source: where this node's part of the stream begins.
        self._floor: dict[int, int] = {}

    @property
    def held(self) -> int:
        """How many messages wait for a missing one."""
        return self._got.waiting

    def reached(self, source: int) -> int:
        """The position up to which the messages of `source` are settled without a hole."""
        return self._got.reached(source)

    def admit(self, message: Message) -> bool:
        """Settle a message as delivered if it is next in its stream, has all it needs, and no message waits for it.

        This is the common case in one step. On False nothing has changed: `offer` the message.
        """
        got = self._got
        level = got.level
        size = len(level)
        source: int = message.source
        seq: int = message.seq
        if source < size:
            if level[source] != seq - 1:
                return False
        elif seq != 1:
            return False
        if got.beyond:
            return False
        deps: Needs = message.deps
        for other, least in deps:
            if other >= size or level[other] < least:
                return False
        if self._inside:  # the messages that wait are inside
            name: Any = seq << _BITS | source  # one object for both
            if name in self._inside or name in got._waiting:
                return False
        if source < size:
            level[source] = seq
        else:
            got.add(source, seq, self._ready)
        return True

    def offer(self, message: Message) -> Verdict:
        """Give a message to the gate. After the verdict READY, call `drain`."""
        got, inside = self._got, self._inside
        source: int = message.source
        seq: int = message.seq
        deps: Needs = message.deps
        key: Any = seq << _BITS | source
        level = got.level
        reached = level[source] if source < len(level) else 0
        if seq <= reached or key in inside or (got.beyond and seq in got.beyond.get(source, ())):
            return Verdict.DUPLICATE
        behind = seq > reached + 1
        if got.waiting >= self._held_max and (behind or not got.met(deps)):
            return FULL
        inside.add(key)
        if behind:
            got.hold(message, source, seq - 1, deps)
            return WAITING
        if deps and not got.wait(message, deps):
            return WAITING
        self._ready.append(message)
        return READY

    def drain(self) -> list[Message]:
        """Return the messages that may be delivered now, in order, with those that waited only for these."""
        out: list[Message] = []
        ready, got, inside = self._ready, self._got, self._inside
        for message in ready:  # grows during the loop
            source: int = message.source
            seq: int = message.seq
            if not self._floor or seq > self._floor.get(source, 0):
                out.append(message)
            inside.discard(seq << _BITS | source)
            got.add(source, seq, ready)
        ready.clear()
        return out

    def mark_settled(self, source: int, n: int) -> None:
        """Settle position `n`, whose message was delivered without the gate."""
        self._got.add(source, n, self._ready)

    def floor(self, source: int, n: int) -> None:
        """Start `source` after `n`: positions up to `n` are settled, and held messages there are dropped."""
        if n > self._floor.get(source, 0):
            self._floor[source] = n
            self._got.start_after(source, n, self._ready)

    def emptied(self) -> "SourceGate":
        """Return a new gate that starts where this one has come, and holds nothing."""
        fresh = SourceGate(held_max=self._held_max)
        for source, level in enumerate(self._got.level):
            fresh.floor(source, level)
        return fresh
