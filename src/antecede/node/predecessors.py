"""Publications that wait until the node has delivered their predecessors.

A publication may name messages it follows (`after`) that this node has not delivered yet: its client read them at
another node. It waits here under one predecessor that is missing. A delivery looks only at what waits for its source,
in order of sequence number, so thousands that wait cost the others nothing. A waiter can withdraw.
"""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import TypeAlias

After: TypeAlias = tuple[tuple[int, int], ...]

#: The first of `after` that was not delivered here; None: all were.
Missing: TypeAlias = Callable[[After], tuple[int, int] | None]


class _Waiter:
    __slots__ = ("after", "do", "source")

    def __init__(self, after: After, do: Callable[[], None]) -> None:
        self.after = after
        #: None once it was called, or withdrawn.
        self.do: Callable[[], None] | None = do
        self.source = -1


class Predecessors:
    """Calls back once everything a publication follows was delivered."""

    def __init__(self, missing: Missing) -> None:
        self._missing = missing
        #: By source: (sequence number, order of arrival, who waits), the lowest number first.
        self._heaps: dict[int, list[tuple[int, int, _Waiter]]] = {}
        self._order = 0
        #: By source: entries of the heap that were withdrawn.
        self._withdrawn: dict[int, int] = {}

    def __len__(self) -> int:
        return sum(map(len, self._heaps.values())) - sum(self._withdrawn.values())

    @property
    def sources(self) -> Iterable[int]:
        """Sources of which something is missing."""
        return self._heaps.keys()

    def add(self, after: After, do: Callable[[], None]) -> Callable[[], None]:
        """Call `do` when all of `after` was delivered, of which something is missing. Calling the result withdraws."""
        waiter = _Waiter(after, do)
        if not self._put(waiter):
            raise AssertionError(f"nothing is missing of {after}")
        return lambda: self._withdraw(waiter)

    def wake(self, sources: Iterable[int]) -> None:
        """Messages of these sources were delivered. A callback may add others that wait."""
        ready: list[_Waiter] = []
        for source in sources:
            heap = self._heaps.get(source)
            while heap:
                seq, _, waiter = heap[0]
                if waiter.do is not None and self._missing(((source, seq),)) is not None:
                    break
                heappop(heap)
                if waiter.do is None:
                    self._withdrawn[source] -= 1
                elif not self._put(waiter):
                    ready.append(waiter)
            if heap is not None and not heap:
                del self._heaps[source]
                self._withdrawn.pop(source, None)
        for waiter in ready:
            do, waiter.do = waiter.do, None
            if do is not None:
                do()

    def _put(self, waiter: _Waiter) -> bool:
        missing = self._missing(waiter.after)
        if missing is None:
            return False
        waiter.source, seq = missing
        self._order += 1
        heappush(self._heaps.setdefault(waiter.source, []), (seq, self._order, waiter))
        return True

    def _withdraw(self, waiter: _Waiter) -> None:
        if waiter.do is None:
            return
        waiter.do = None
        source = waiter.source
        heap = self._heaps.get(source)
        if heap is None:
            return
        count = self._withdrawn[source] = self._withdrawn.get(source, 0) + 1
        if 2 * count > len(heap):
            heap[:] = [entry for entry in heap if entry[2].do is not None]
            heapify(heap)
            self._withdrawn[source] = 0
            if not heap:
                del self._heaps[source]
                del self._withdrawn[source]
