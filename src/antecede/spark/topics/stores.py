"""Where deliveries are read from, seen alike: the journal of a node, or the node itself.

`Store.read` gives a range of positions, in order. What retention has removed of it is an error that names it.
"""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from antecede.core import Message
from antecede.live.journal import Extent, JournalFile, Stored
from antecede.spark.topics.columns import Deliveries
from antecede.spark.topics.options import Where


class Store(Protocol):
    """A context manager."""

    @property
    def node(self) -> int:
        """Whose positions they are."""
        ...

    @property
    def memory(self) -> int:
        """Changes whenever positions begin anew; 0 for a node that remembers."""
        ...

    def extent(self) -> Extent: ...

    def before(self, time_us: int) -> int:
        """The last position delivered before that time."""
        ...

    def within(self, after: int, last: int, bytes_max: int) -> int:
        """How far to read from `after` for so many bytes."""
        ...

    def read(self, after: int, last: int) -> Iterator[Deliveries]:
        """What was delivered after position `after` up to `last`. Raises `GapError`, `JournalError`."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_store(where: Where, topics: tuple[str, ...]) -> Store:
    """`topics`: what of it is wanted; a store may give more."""
    return JournalStore(where)


class JournalStore:
    """A journal on a disk that this process sees. The node may run or not."""

    memory = 0

    def __init__(self, where: Where) -> None:
        self._file = JournalFile(Path(where.journal))
        self.node = self._file.node
        self.extent = self._file.extent
        self.before = self._file.before
        self.within = self._file.within

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def read(self, after: int, last: int) -> Iterator[Deliveries]:
        for chunk in self._file.blocks(after, last):
            yield _deliveries(chunk, after, last)


def _deliveries(chunk: list[Stored], after: int, last: int) -> Deliveries:
    """The part of a chunk that lies in a range."""
    sizes = [len(stored.block.messages) for stored in chunk]
    first = chunk[0].first
    begin = max(0, after + 1 - first)
    end = min(sum(sizes), last + 1 - first)
    messages: list[Message] = [message for stored in chunk for message in stored.block.messages]
    held = np.zeros(len(messages), np.int64)
    for stored in chunk:
        for index, held_us in stored.block.held_us.items():
            held[stored.first - first + index] = held_us
    times = np.repeat(np.array([stored.time_us for stored in chunk], np.int64), sizes)
    positions = np.arange(first + begin, first + end, dtype=np.int64)
    return Deliveries(messages[begin:end], positions, times[begin:end], held[begin:end])
