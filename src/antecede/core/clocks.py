"""Stampers: what a message must carry so that others can tell what it depends on.

Both answer the same two questions, `stamp` (what does my next message depend on?) and `observe` (I delivered this),
and differ in how much of the causal past they name (thesis 3.3.3, Figure 3.1):

* `VectorClock` names every source whose count changed since one's own last message (Birman's compression, thesis
  3.3.3): direct and indirect dependencies, which is what causal aggregation needs to see further back.
* `Frontier` names immediate predecessors only (Prakash's causal barrier, thesis 2.2.3): the fewest entries that
  still order everything, since a predecessor has waited for its own predecessors.

Entries are for one topic; neither names the source's own previous message, which its number implies.
"""

from typing import Protocol

from antecede.core.message import Dependency, Message


class Stamper(Protocol):
    """What a protocol asks of a clock."""

    def stamp(self) -> tuple[Dependency, ...]:
        """The dependencies of the message published now; from here on, that message is the past."""
        ...

    def observe(self, message: Message) -> None:
        """`message` was delivered here: what is published next depends on it."""
        ...


class VectorClock:
    """A sparse vector clock that stamps only the entries changed since the last stamp.

    A receiver needs no decoding: messages of one source are delivered and forwarded in order, so whatever an
    unchanged entry stands for was already waited for by that source's previous message (SPEC part 1, item 7).
    """

    __slots__ = ("_changed", "_counts")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._changed: dict[int, int] = {}

    def __getitem__(self, source: int) -> int:
        return self._counts.get(source, 0)

    def stamp(self) -> tuple[Dependency, ...]:
        entries = tuple(self._changed.items())
        self._changed.clear()
        return entries

    def observe(self, message: Message) -> None:
        self._counts[message.source] = message.seq
        self._changed[message.source] = message.seq


class Frontier:
    """The immediate predecessors of what would be published next, on one topic."""

    __slots__ = ("_ahead",)

    def __init__(self) -> None:
        self._ahead: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._ahead)

    def stamp(self) -> tuple[Dependency, ...]:
        entries = tuple(self._ahead.items())
        self._ahead.clear()  # the stamped message covers them all, and its own number covers itself
        return entries

    def observe(self, message: Message) -> None:
        """`message` covers what it depended on, and its source's earlier ones."""
        ahead = self._ahead
        for source, seq in message.deps:
            if ahead.get(source, 0) and ahead[source] <= seq:
                del ahead[source]
        ahead[message.source] = message.seq
