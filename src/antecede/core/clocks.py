"""Stampers: what a message must carry so that others can tell what it depends on.

Both answer the same two questions, `stamp` (what does my next message depend on?) and `observe` (I delivered this),
and differ in how much of the causal past they name (thesis 3.3.3, Figure 3.1):

* `VectorClock` names every source whose count changed since one's own last message (Birman's compression, thesis
  3.3.3): direct and indirect dependencies, which is what causal aggregation needs to see further back.
* `Frontier` names immediate predecessors only (Prakash's causal barrier, thesis 2.2.3): the fewest entries that
  still order everything, since a predecessor has waited for its own predecessors.

Entries are for one topic; neither names the source's own previous message, which its number implies.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from antecede.core.message import Dependency, Message


class Stamper(Protocol):
    """What a protocol asks of a clock."""

    def stamp(self) -> tuple[Dependency, ...]:
        """The dependencies of the message published now; from here on, that message is the past."""
        ...

    def observe(self, message: Message) -> None:
        """`message` was delivered here: what is published next depends on it."""
        ...


class DomainClock(Protocol):
    """What an order over several topics asks of its clock: `DomainFrontier` or `GroupVectors`."""

    def stamp(self, topic: str, seq: int) -> tuple[tuple[Dependency, ...], tuple[tuple[str, int, int], ...]]: ...
    def observe(self, message: Message, known: Callable[[str, int, int], bool]) -> None: ...
    def ahead(self, topic: str) -> tuple[Dependency, ...]: ...
    def entries(self) -> tuple[tuple[str, int, int], ...]: ...
    def merge(self, entries: Iterable[tuple[str, int, int]]) -> None: ...


class VectorClock:
    """A sparse vector clock that stamps only the entries changed since the last stamp.

    A receiver needs no decoding: messages of one source are delivered and forwarded in order, so whatever an
    unchanged entry stands for was already waited for by that source's previous message.
    """

    __slots__ = ("_changed", "_stamped")

    def __init__(self) -> None:
        self._stamped: dict[int, int] = {}
        self._changed: dict[int, int] = {}

    def __getitem__(self, source: int) -> int:
        return self._changed.get(source) or self._stamped.get(source, 0)

    def stamp(self) -> tuple[Dependency, ...]:
        entries = tuple(self._changed.items())
        self._stamped.update(self._changed)
        self._changed.clear()
        return entries

    def observe(self, message: Message) -> None:
        self._changed[message.source] = message.seq


#: How many deliveries a frontier leaves for later, at most.
_LEFT_FOR_LATER = 1024


class Frontier:
    """The immediate predecessors of what would be published next, on one topic.

    Deliveries are only noted, and looked at together when somebody asks: a node hears many messages for one of its own,
    and what they cover is found several times as fast in one go as by a visit for each.
    """

    __slots__ = ("_ahead", "_noted")

    def __init__(self) -> None:
        self._ahead: dict[int, int] = {}
        #: Deliveries not looked at yet: source, seq, dependencies, source, seq, …
        self._noted: list[Any] = []

    def __len__(self) -> int:
        return len(self.entries())

    def stamp(self) -> tuple[Dependency, ...]:
        entries = self.entries()
        self._ahead.clear()  # the stamped message covers them all, and its own number covers itself
        return entries

    def observe(self, message: Message) -> None:
        """`message` covers what it depended on, and its source's earlier ones."""
        noted = self._noted
        noted += (message.source, message.seq, message.deps)
        if len(noted) >= 3 * _LEFT_FOR_LATER:
            self._look()

    def read(self, source: int, seq: int, deps: tuple[Dependency, ...] = ()) -> None:
        """In place of `observe` for a client, who may have read a later message of the source on another feed."""
        ahead = self._ahead
        if deps and ahead:
            for before, last in deps:
                if before in ahead and ahead[before] <= last:
                    del ahead[before]
        if ahead.get(source, 0) < seq:
            ahead[source] = seq

    def entries(self) -> tuple[Dependency, ...]:
        if self._noted:
            self._look()
        return tuple(self._ahead.items())

    def stamp_for(self, node: int) -> tuple[Dependency, ...]:
        """`stamp` for a message that `node` numbers: it knows its own messages, so they are not named."""
        return tuple([entry for entry in self.stamp() if entry[0] != node])

    def put_back(self, entries: Iterable[Dependency]) -> None:
        """What a stamp took, when the stamped message came to nothing: it covers nothing then."""
        for source, seq in entries:
            self._ahead[source] = max(seq, self._ahead.get(source, 0))

    def _look(self) -> None:
        ahead, noted = self._ahead, iter(self._noted)
        for source, seq, deps in zip(noted, noted, noted, strict=True):
            for before, last in deps:
                if before in ahead and ahead[before] <= last:
                    del ahead[before]
            ahead[source] = seq
        self._noted.clear()


class UnprunedFrontier(Frontier):
    """A frontier that forgets nothing: the last message of everyone heard since one's own last stamp.

    What thesis Algorithm 4 does in effect: CHECKCB empties the barrier it is given, so that line 94 takes nothing
    away. Order holds all the same; barriers are about twice as large.
    """

    __slots__ = ()

    def observe(self, message: Message) -> None:
        self._ahead[message.source] = message.seq


class DomainFrontier:
    """The frontier of a causal domain of several topics: for each topic, the maximal elements of one's causal past.

    An entry for topic A goes only when a later message *on A* covers it, since a reader of A alone never sees the
    message on B that would have covered it (DESIGN, "Several topics"). Entries of topics one does not take are passed
    on: they come and go with the messages of others.

    Where a topic stands for several groups (`groups_of`) and is read by whoever takes one of them, a message on B
    covers entries of A as well if A's groups are among B's: whoever takes A takes B, as long as it takes A. Two
    messages that cover an entry for a part of its groups each do not: a reader may have left one and come to another.
    """

    __slots__ = ("_ahead", "_groups_of", "_node")

    def __init__(self, node: int, groups_of: Callable[[str], frozenset[str]] | None = None) -> None:
        self._node = node
        self._groups_of = groups_of
        self._ahead: dict[str, dict[int, int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._ahead.values()))

    def ahead(self, topic: str) -> tuple[Dependency, ...]:
        """The maximal elements on `topic` of what this node has seen, taken or passed on."""
        return tuple(self._ahead.get(topic, {}).items())

    def entries(self) -> tuple[tuple[str, int, int], ...]:
        """The same of all topics."""
        return tuple([(topic, *entry) for topic, ahead in self._ahead.items() for entry in ahead.items()])

    def stamp(self, topic: str, seq: int) -> tuple[tuple[Dependency, ...], tuple[tuple[str, int, int], ...]]:
        """What the message published now, `seq` of this node on `topic`, depends on: on its topic, and across."""
        node = self._node
        here = self._ahead.get(topic, {})
        deps = tuple([entry for entry in here.items() if entry[0] != node])
        across = tuple(
            [
                (other, source, last)
                for other, ahead in self._ahead.items()
                if other != topic
                for source, last in ahead.items()
            ]
        )
        if self._groups_of is not None:
            for entry in across:
                self._cover(topic, *entry)
        self._ahead[topic] = {node: seq}
        return deps, across

    def observe(self, message: Message, known: Callable[[str, int, int], bool]) -> None:
        """`message` was delivered here. `known` tells of which entries this node itself delivered the message."""
        here = self._ahead.setdefault(message.topic, {})
        for source, seq in message.deps:
            if here.get(source, 0) and here[source] <= seq:
                del here[source]
        here[message.source] = message.seq
        for topic, source, seq in message.across:
            # What was delivered here is in the frontier already, or something later covers it.
            if not known(topic, source, seq):
                self.merge([(topic, source, seq)])
            if self._groups_of is not None:
                self._cover(message.topic, topic, source, seq)

    def merge(self, entries: Iterable[tuple[str, int, int]]) -> None:
        """Count these among what lies before whatever is published next."""
        for topic, source, seq in entries:
            ahead = self._ahead.setdefault(topic, {})
            if ahead.get(source, 0) < seq:
                ahead[source] = seq

    def _cover(self, by: str, topic: str, source: int, seq: int) -> None:
        """A message on `by` depends on this entry: whoever takes both need not be told of it again."""
        assert self._groups_of is not None
        ahead = self._ahead.get(topic, {})
        if 0 < ahead.get(source, 0) <= seq and self._groups_of(topic) <= self._groups_of(by):
            del ahead[source]


class GroupVectors:
    """The whole of it: by topic, how many messages of each source are in one's causal past (Birman et al. 1991).

    For systems whose members and groups are few and known beforehand. Stamps like a `DomainFrontier`, with every entry
    it has in the place of the immediate predecessors.
    """

    __slots__ = ("_counts", "_node")

    def __init__(self, node: int) -> None:
        self._node = node
        self._counts: dict[str, dict[int, int]] = {}

    def ahead(self, topic: str) -> tuple[Dependency, ...]:
        return tuple(self._counts.get(topic, {}).items())

    def entries(self) -> tuple[tuple[str, int, int], ...]:
        return tuple([(topic, *entry) for topic, counts in self._counts.items() for entry in counts.items()])

    def stamp(self, topic: str, seq: int) -> tuple[tuple[Dependency, ...], tuple[tuple[str, int, int], ...]]:
        here = self._counts.setdefault(topic, {})
        deps = tuple([entry for entry in here.items() if entry[0] != self._node])
        across = tuple([entry for entry in self.entries() if entry[0] != topic])
        here[self._node] = seq
        return deps, across

    def observe(self, message: Message, known: Callable[[str, int, int], bool]) -> None:
        topic = message.topic
        self.merge(((topic, message.source, message.seq), *[(topic, *dep) for dep in message.deps], *message.across))

    def merge(self, entries: Iterable[tuple[str, int, int]]) -> None:
        for topic, source, seq in entries:
            counts = self._counts.setdefault(topic, {})
            counts[source] = max(seq, counts.get(source, 0))
