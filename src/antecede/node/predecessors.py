"""Publications that wait until the node has delivered their predecessors.

A publication may name messages it follows (`after`) that this node has not delivered yet: its client read them at
another node. It waits here under one predecessor that is missing. A delivery looks only at what waits for its stream,
in order of sequence number, so thousands that wait cost the others nothing. A waiter can withdraw.
"""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from antecede.core import UsageError
from antecede.core.partitions import message_name, split_stream

After: TypeAlias = tuple[tuple[int, int], ...]

#: The first of `after` that was not delivered here; None: all were.
Missing: TypeAlias = Callable[[After], tuple[int, int] | None]


def check_after(after: After, slots: int, partitions: int, where: str = "") -> None:
    """Raise `UsageError` if one of these cannot exist in a cluster of so many slots and partitions.

    `where` they were named, for the error.
    """
    if after and max(after)[0] < slots:
        return  # mostly: all of the first partition
    for stream, seq in after:
        partition, slot = split_stream(stream)
        if slot >= slots or partition >= partitions:
            has = f"slots 0 … {slots - 1}" + (f" and partitions 0 … {partitions - 1}" if slot < slots else "")
            problem = f"{where}cannot exist: the cluster has {has}"
            raise UsageError("after", message_name(stream, seq), problem, "name messages of this cluster")


class _Waiter:
    __slots__ = ("after", "do", "stream")

    def __init__(self, after: After, do: Callable[[], None]) -> None:
        self.after = after
        #: None once it was called, or withdrawn.
        self.do: Callable[[], None] | None = do
        self.stream = -1


class Predecessors:
    """Calls back once everything a publication follows was delivered."""

    def __init__(self, missing: Missing) -> None:
        self._missing = missing
        #: By stream: (sequence number, order of arrival, who waits), the lowest number first.
        self._heaps: dict[int, list[tuple[int, int, _Waiter]]] = {}
        self._order = 0
        #: By stream: entries of the heap that were withdrawn.
        self._withdrawn: dict[int, int] = {}

    def __len__(self) -> int:
        return sum(map(len, self._heaps.values())) - sum(self._withdrawn.values())

    @property
    def streams(self) -> Iterable[int]:
        """Streams of which something is missing."""
        return self._heaps.keys()

    def add(self, after: After, do: Callable[[], None]) -> Callable[[], None]:
        """Call `do` when all of `after` was delivered, of which something is missing. Calling the result withdraws."""
        waiter = _Waiter(after, do)
        if not self._put(waiter):
            raise AssertionError(f"nothing is missing of {after}")
        return lambda: self._withdraw(waiter)

    def wake(self, streams: Iterable[int]) -> None:
        """Messages of these streams were delivered. A callback may add others that wait."""
        ready: list[_Waiter] = []
        for stream in streams:
            heap = self._heaps.get(stream)
            while heap:
                seq, _, waiter = heap[0]
                if waiter.do is not None and self._missing(((stream, seq),)) is not None:
                    break
                heappop(heap)
                if waiter.do is None:
                    self._withdrawn[stream] -= 1
                elif not self._put(waiter):
                    ready.append(waiter)
            if heap is not None and not heap:
                del self._heaps[stream]
                self._withdrawn.pop(stream, None)
        for waiter in ready:
            do, waiter.do = waiter.do, None
            if do is not None:
                do()

    def _put(self, waiter: _Waiter) -> bool:
        missing = self._missing(waiter.after)
        if missing is None:
            return False
        waiter.stream, seq = missing
        self._order += 1
        heappush(self._heaps.setdefault(waiter.stream, []), (seq, self._order, waiter))
        return True

    def _withdraw(self, waiter: _Waiter) -> None:
        if waiter.do is None:
            return
        waiter.do = None
        stream = waiter.stream
        heap = self._heaps.get(stream)
        if heap is None:
            return
        count = self._withdrawn[stream] = self._withdrawn.get(stream, 0) + 1
        if 2 * count > len(heap):
            heap[:] = [entry for entry in heap if entry[2].do is not None]
            heapify(heap)
            self._withdrawn[stream] = 0
            if not heap:
                del self._heaps[stream]
                del self._withdrawn[stream]
