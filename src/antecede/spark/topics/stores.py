"""Opens the store that deliveries are read from, behind one interface: the journal of a node, or the node itself.

`Store.read` returns a range of positions in order. If retention has removed some of them, it raises an error that names
them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from antecede.core import UsageError
from antecede.journal import Extent, JournalFile
from antecede.spark.topics.chunks import Chunk
from antecede.spark.topics.frontiers import Frontier
from antecede.spark.topics.options import Where
from antecede.wire.bulk import (
    Cut,
    CutQuery,
    ExtentQuery,
    ExtentReply,
    Layout,
    LayoutQuery,
    Page,
    PastPage,
    Piece,
    Plan,
    Planned,
    Read,
    ReadPast,
)

if TYPE_CHECKING:
    import ssl

    from antecede.client.bulk import Caller


class Store(Protocol):
    """A journal or a node to read from; a context manager."""

    @property
    def node(self) -> int:
        """The node that counts the positions."""
        ...

    def check(self) -> None:
        """Raise an error if the store cannot be read, or these topics are not granted."""
        ...

    def extent(self) -> Extent: ...

    def before(self, time_us: int) -> int:
        """The last position delivered before that time."""
        ...

    def within(self, after: int, last: int, bytes_max: int) -> int:
        """The position up to which about `bytes_max` bytes follow `after`."""
        ...

    def mean_size(self) -> int:
        """About how many bytes a stored message takes."""
        ...

    def read(self, after: int, last: int) -> Iterator[Chunk]:
        """Read the deliveries after position `after` up to `last`; unwanted topics may be left out.

        Raises `GapError`, `JournalError`.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


def open_store(where: Where, topics: tuple[str, ...], *, patient: bool = True) -> Store:
    """Open the store. It may return more than `topics`. Without `patient` a node must answer at once."""
    return JournalStore(where, topics) if where.journal else NodeStore(where, topics, patient=patient)


def call(where: Where, *, patient: bool = True) -> "Caller":
    """Connect to a node."""
    from antecede.client.bulk import Caller  # noqa: PLC0415 - asyncio is slow to load, and journals do not need it

    return Caller(
        where.url,
        name="spark",
        token=where.token,
        tls=open_tls(where.tls) if where.tls else None,
        cluster=where.cluster,
        clear_token=where.clear_token,
        patience_s=where.reconnect_s if patient else 0.0,
    )


def open_tls(text: str) -> "ssl.SSLContext":
    """Trust a directory made by `antecede cert init`, or the certificate of its authority alone."""
    from antecede.wire.security import client_tls  # noqa: PLC0415 - cryptography is slow to load

    path = Path(text)
    path = path / "authority.pem" if path.is_dir() else path
    if not path.exists():
        problem = "does not exist on the machine of this task or driver"
        raise UsageError("tls", text, problem, "name a directory made by `antecede cert init`, or authority.pem")
    return client_tls(path)


class JournalStore:
    """A journal on a disk that this process can read. The node may run or not."""

    def __init__(self, where: Where, topics: tuple[str, ...]) -> None:
        self._topics = topics
        self._file = JournalFile(
            Path(where.journal).absolute()
        )  # absolute: a worker may have another working directory
        self.node = self._file.node
        self.extent = self._file.extent
        self.before = self._file.before
        self.within = self._file.within
        self.mean_size = self._file.mean_size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def check(self) -> None:
        self.extent()

    def read(self, after: int, last: int) -> Iterator[Chunk]:
        while after < last:
            blocks, reached = self._file.sealed(after, last, filters=self._topics)
            yield Chunk([Piece(one.first, one.time_us, one.block) for one in blocks], after, last, reached)
            after = reached


class NodeStore:
    """A running node, read in bulk."""

    def __init__(self, where: Where, topics: tuple[str, ...], *, patient: bool) -> None:
        self._caller = call(where, patient=patient)
        self._topics = topics
        self.node = -1

    def __enter__(self) -> Self:
        self._caller.__enter__()
        self.node = self._extent(ExtentQuery()).node
        return self

    def __exit__(self, *exception: object) -> None:
        self._caller.__exit__(*exception)

    def check(self) -> None:
        self._caller.ask(Read(0, 0, self._topics), Page)  # reads nothing, but checks the grants

    def extent(self) -> Extent:
        stand = self._extent(ExtentQuery())
        return Extent(stand.removed, stand.position)

    def before(self, time_us: int) -> int:
        return self._extent(ExtentQuery(time_us=max(1, time_us))).before

    def within(self, after: int, last: int, bytes_max: int) -> int:
        return self._extent(ExtentQuery(after=after, last=last, bytes_max=bytes_max)).within

    def mean_size(self) -> int:
        return self._extent(ExtentQuery(sizes=True)).mean_bytes

    def read(self, after: int, last: int, partitions: tuple[int, ...] = ()) -> Iterator[Chunk]:
        """`partitions`: of a cluster with several, those that are wanted."""
        while after < last:
            page = self._caller.ask(Read(after, last, self._topics, partitions), Page)
            yield Chunk(page.pieces, after, last, page.reached)
            after = page.reached

    def layout(self) -> Layout:
        return self._caller.ask(LayoutQuery(), Layout)

    def cut(self, query: CutQuery) -> Cut:
        return self._caller.ask(query, Cut)

    def plan(self, question: Plan) -> Planned:
        return self._caller.ask(question, Planned)

    def past(self, had: Frontier, until: Frontier) -> PastPage:
        """A page of the messages between two frontiers, by stream and number."""
        return self._caller.ask(ReadPast(tuple(had.items()), tuple(until.items()), self._topics), PastPage)

    def _extent(self, query: ExtentQuery) -> ExtentReply:
        return self._caller.ask(query, ExtentReply)
