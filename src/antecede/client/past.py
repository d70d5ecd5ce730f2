"""What a client has read and published: the messages that its next publication must follow.

A node publishes a client's messages behind everything that it has given to the client or was told of. So a publication
names only messages that this node was not told of yet (`stamp`). The client remembers more, for the next node it may be
connected to (`tell_again`): by source, the last message it has read or published.

Most messages that are read depend on nothing but their predecessor. Readers note these in `newly_read`, by source, and
every method takes them over first.

A message covers earlier ones of its own partition on which it depends, and no others: a reader of another partition
alone never sees it. In a cluster with one partition this is the client's frontier (`core.clocks.Frontier`).
"""

from collections.abc import Iterable

from antecede.core.message import Dependency
from antecede.core.partitions import split_stream


class Past:
    """The past of one client."""

    __slots__ = ("_last", "newly_read", "untold")

    def __init__(self) -> None:
        #: By source: the last message; and those of them that the node was not told of.
        self._last: dict[int, int] = {}
        self.untold: dict[int, int] = {}
        #: By source: the last message without dependencies that was read since.
        self.newly_read: dict[int, int] = {}

    def entries(self) -> tuple[Dependency, ...]:
        """The messages that the node was not told of."""
        self._take_over()
        return tuple(self.untold.items())

    def read(self, source: int, seq: int, deps: tuple[Dependency, ...] = ()) -> None:
        """The client has read this message, which depends on `deps`, or published it."""
        self._take_over()
        last, untold = self._last, self.untold
        if deps and last:
            partition = split_stream(source)[0]
            self._cover([one for one in deps if split_stream(one[0])[0] == partition])
        if last.get(source, 0) < seq:
            last[source] = untold[source] = seq

    def stamp(self) -> tuple[Dependency, ...]:
        """The messages that a publication names: the node knows them from then on."""
        entries = self.entries()
        self.untold.clear()
        return entries

    def put_back(self, entries: Iterable[Dependency]) -> None:
        """Undo a `stamp` whose publication failed."""
        self._take_over()
        for source, seq in entries:
            self._last[source] = max(seq, self._last.get(source, 0))
            self.untold[source] = max(seq, self.untold.get(source, 0))

    def published(self, source: int, entries: Iterable[Dependency]) -> None:
        """A message of `source` was published that named `entries`: it covers those of its own partition."""
        self._take_over()
        partition = split_stream(source)[0]
        self._cover([one for one in entries if split_stream(one[0])[0] == partition])

    def tell_again(self) -> None:
        """The client is connected anew, perhaps to another node, which knows nothing of this."""
        self._take_over()
        self.untold = dict(self._last)

    def _take_over(self) -> None:
        """Count the messages that readers have noted."""
        if self.newly_read:
            for source, seq in self.newly_read.items():
                if self._last.get(source, 0) < seq:
                    self._last[source] = self.untold[source] = seq
            self.newly_read.clear()

    def _cover(self, entries: Iterable[Dependency]) -> None:
        for known in (self._last, self.untold):
            for source, seq in entries:
                if known.get(source, seq + 1) <= seq:
                    del known[source]
