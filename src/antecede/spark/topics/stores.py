"""Where deliveries are read from, seen alike: the journal of a node, or the node itself.

`Store.read` gives a range of positions, in order. What retention has removed of it is an error that names it.
"""

import ssl
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from antecede.core import UsageError
from antecede.live.bulk.caller import Caller
from antecede.live.bulk.records import Look, Page, Piece, Read, Stand
from antecede.live.journal import Extent, JournalFile, Stored
from antecede.live.journal.blocks import LeanMessage, decode_lean
from antecede.spark.topics.columns import Deliveries
from antecede.spark.topics.options import Where


class Store(Protocol):
    """A context manager."""

    @property
    def node(self) -> int:
        """Whose positions they are."""
        ...

    def extent(self) -> Extent: ...

    def before(self, time_us: int) -> int:
        """The last position delivered before that time."""
        ...

    def within(self, after: int, last: int, bytes_max: int) -> int:
        """How far to read from `after` for so many bytes."""
        ...

    def read(self, after: int, last: int) -> Iterator[Deliveries]:
        """What was delivered after position `after` up to `last`, perhaps without what is not wanted of it.

        Raises `GapError`, `JournalError`.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_store(where: Where, topics: tuple[str, ...], *, patient: bool = True) -> Store:
    """`topics`: what of it is wanted; a store may give more. Not `patient`: a node must answer at once."""
    return JournalStore(where) if where.journal else NodeStore(where, topics, patient=patient)


def call(where: Where, *, patient: bool = True) -> Caller:
    """A line to a node."""
    return Caller(
        where.url,
        name="spark",
        token=where.token,
        tls=_tls(where.tls) if where.tls else None,
        cluster=where.cluster,
        patience_s=30.0 if patient else 0.0,
    )


def _tls(text: str) -> ssl.SSLContext:
    """A directory made by `antecede cert init`, or its authority's certificate alone."""
    from antecede.live.security import client_tls  # noqa: PLC0415 - cryptography is slow to load

    path = Path(text)
    path = path / "authority.pem" if path.is_dir() else path
    if not path.exists():
        problem = "is not there, on the machine of this task or driver"
        raise UsageError("tls", text, problem, "name a directory made by `antecede cert init`, or authority.pem")
    return client_tls(path)


class JournalStore:
    """A journal on a disk that this process sees. The node may run or not."""

    def __init__(self, where: Where) -> None:
        self._file = JournalFile(Path(where.journal).absolute())  # said in full: a worker may stand elsewhere
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


class NodeStore:
    """A node that runs, asked in bulk."""

    def __init__(self, where: Where, topics: tuple[str, ...], *, patient: bool) -> None:
        self._caller = call(where, patient=patient)
        self._topics = topics
        self.node = -1

    def __enter__(self) -> Self:
        self._caller.__enter__()
        self.node = self._look(Look()).node
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._caller.__exit__(kind, error, trace)

    def extent(self) -> Extent:
        stand = self._look(Look())
        return Extent(stand.removed, stand.position)

    def before(self, time_us: int) -> int:
        return self._look(Look(time_us=max(1, time_us))).before

    def within(self, after: int, last: int, bytes_max: int) -> int:
        return self._look(Look(after=after, last=last, bytes_max=bytes_max)).within

    def read(self, after: int, last: int) -> Iterator[Deliveries]:
        while after < last:
            page = self._caller.ask(Read(after, last, self._topics), Page)
            yield _page(page, after, last)
            after = page.reached

    def _look(self, look: Look) -> Stand:
        return self._caller.ask(look, Stand)


def _deliveries(chunk: list[Stored], after: int, last: int) -> Deliveries:
    """The part of a chunk that lies in a range."""
    sizes = [len(stored.block.messages) for stored in chunk]
    first = chunk[0].first
    begin = max(0, after + 1 - first)
    end = min(sum(sizes), last + 1 - first)
    messages: list[LeanMessage] = [message for stored in chunk for message in stored.block.messages]
    held = np.zeros(len(messages), np.int64)
    for stored in chunk:
        for index, held_us in stored.block.held_us.items():
            held[stored.first - first + index] = held_us
    times = np.repeat(np.array([stored.time_us for stored in chunk], np.int64), sizes)
    positions = np.arange(first + begin, first + end, dtype=np.int64)
    return Deliveries(messages[begin:end], positions, times[begin:end], held[begin:end], min(last, first + end - 1))


def _page(page: Page, after: int, last: int) -> Deliveries:
    """A page of a node: whole blocks, or those of their messages that are wanted."""
    pieces = [_piece(piece, after, last) for piece in page.pieces]
    return Deliveries(
        [message for piece in pieces for message in piece.messages],
        np.concatenate([np.zeros(0, np.int64), *[piece.positions for piece in pieces]]),
        np.concatenate([np.zeros(0, np.int64), *[piece.times_us for piece in pieces]]),
        np.concatenate([np.zeros(0, np.int64), *[piece.held_us for piece in pieces]]),
        page.reached,
    )


def _piece(piece: Piece, after: int, last: int) -> Deliveries:
    block = decode_lean(piece.block)
    stored = Stored(piece.first, piece.time_us, block)
    if piece.places is None:
        return _deliveries([stored], after, last)
    messages = block.messages
    positions = piece.first + np.array(piece.places, np.int64)
    held = np.zeros(len(messages), np.int64)
    for index, held_us in block.held_us.items():
        held[index] = held_us
    return Deliveries(messages, positions, np.full(len(messages), piece.time_us, np.int64), held, last)
