"""Clocks compute the dependencies that a message carries.

Each clock has two operations. `stamp` returns the dependencies of the message published now; `observe` counts a message
as delivered here. The clocks differ in how much of the causal past they name (thesis 3.3.3, Figure 3.1):

* `VectorClock` names every source whose count changed since this node's last message (Birman's compression, thesis
  3.3.3). These are direct and indirect dependencies; causal aggregation needs both.
* `Frontier` names immediate predecessors only (Prakash's causal barrier, thesis 2.2.3). These suffice for causal
  order, since each predecessor waits for its own predecessors.
* `DomainFrontier` and `GroupVectors` are the same two for several topics.

`LamportClock` is another matter: it computes the Lamport time of a message, which no delivery depends on.

A stamp never names the source's own previous message on the topic: the sequence number implies it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from antecede.core.message import Dependency, Message

#: How many deliveries a clock may collect before it counts them.
_COLLECTED_MAX = 1024


class Stamper(Protocol):
    """What a protocol asks of a clock for one topic."""

    def stamp(self) -> tuple[Dependency, ...]:
        """Return the dependencies of the message published now. Later messages depend on that message."""
        ...

    def observe(self, message: Message) -> None:
        """Count `message` as delivered here: later messages depend on it."""
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

    A receiver need not decode it. Messages of one source are delivered and forwarded in order, so the source's previous
    message has already waited for every entry that is left out.
    """

    __slots__ = ("_changed", "_observed", "_stamped")

    def __init__(self) -> None:
        self._stamped: dict[int, int] = {}
        self._changed: dict[int, int] = {}
        #: Deliveries not counted yet. A list of them takes less time and memory than entries that may never be stamped.
        self._observed: list[Message] = []

    def __getitem__(self, source: int) -> int:
        self._count()
        return self._changed.get(source) or self._stamped.get(source, 0)

    def stamp(self) -> tuple[Dependency, ...]:
        self._count()
        entries = tuple(self._changed.items())
        self._stamped.update(self._changed)
        self._changed.clear()
        return entries

    def observe(self, message: Message) -> None:
        observed = self._observed
        observed.append(message)
        if len(observed) >= _COLLECTED_MAX:
            self._count()

    def _count(self) -> None:
        for message in self._observed:
            self._changed[message.source] = message.seq
        self._observed.clear()


class LamportClock:
    """The Lamport time of a node: the highest of the messages it published or delivered, on all topics (`Message`)."""

    __slots__ = ("time",)

    def __init__(self) -> None:
        self.time = 0

    def stamp(self, count: int = 1) -> int:
        """The time of the message published now; of the first, where `count` follow each other."""
        first = self.time + 1
        self.time += count
        return first

    def observe(self, time: int) -> None:
        """A message with this time was delivered here."""
        if time > self.time:
            self.time = time


class Frontier:
    """The immediate predecessors, on one topic, of the message that this node would publish next.

    `observe` only collects deliveries; `entries` computes what they cover. A node delivers many messages for each one
    it publishes, and one pass over many is several times as fast as a pass for each.
    """

    __slots__ = ("_ahead", "_collected")

    def __init__(self) -> None:
        self._ahead: dict[int, int] = {}
        #: Deliveries not processed yet: source, seq, dependencies, source, seq, …
        self._collected: list[Any] = []

    def __len__(self) -> int:
        return len(self.entries())

    def stamp(self) -> tuple[Dependency, ...]:
        entries = self.entries()
        self._ahead.clear()  # the stamped message covers them all, and its own number covers itself
        return entries

    def observe(self, message: Message) -> None:
        """Count `message` as delivered. It covers its dependencies and its source's earlier messages."""
        collected = self._collected
        plain: Any = message  # compiled code keeps its numbers as they are, and makes no new ones
        collected.append(plain.source)
        collected.append(plain.seq)
        collected.append(plain.deps)
        if len(collected) >= 3 * _COLLECTED_MAX:
            self._process()

    def read(self, source: int, seq: int, deps: tuple[Dependency, ...] = ()) -> None:
        """`observe` for a client, which may have read a later message of the source on another feed."""
        ahead = self._ahead
        if deps and ahead:
            for before, last in deps:
                if before in ahead and ahead[before] <= last:
                    del ahead[before]
        if ahead.get(source, 0) < seq:
            ahead[source] = seq

    def entries(self) -> tuple[Dependency, ...]:
        if self._collected:
            self._process()
        return tuple(self._ahead.items())

    def put_back(self, entries: Iterable[Dependency]) -> None:
        """Undo a `stamp` whose message was not published: its entries are predecessors again."""
        for source, seq in entries:
            self._ahead[source] = max(seq, self._ahead.get(source, 0))

    def _process(self) -> None:
        ahead, fields = self._ahead, iter(self._collected)
        for source, seq, deps in zip(fields, fields, fields, strict=True):
            for before, last in deps:
                if before in ahead and ahead[before] <= last:
                    del ahead[before]
            ahead[source] = seq
        self._collected.clear()


class UnprunedFrontier(Frontier):
    """A frontier that never removes covered entries: the last message of every source since this node's last stamp.

    Printed rule (thesis Algorithm 4): CHECKCB empties the barrier it is given, so line 94 removes nothing → barriers
    are about twice as large, though order holds → `Frontier` removes them. This class exists to compare the two.
    """

    __slots__ = ()

    def observe(self, message: Message) -> None:
        self._ahead[message.source] = message.seq


class DomainFrontier:
    """The frontier of a causal domain: for each topic, the maximal elements of this node's causal past.

    Only a later message on A covers an entry of topic A, since a reader of A alone never sees the message on B that
    depends on it. The frontier also carries entries of topics that this node does not take, for other readers.

    A topic may stand for several groups (`groups_of`), and is then read by every node that takes one of them. A message
    on B also covers entries of A if A's groups are among B's, since every reader of A also reads B. Two messages that
    cover only some of the groups each do not add up: a reader may have left one group and joined another.

    An entry that is *stable*, delivered by every node that takes its topic, is named on its own topic only (`stable`).

    A message of this node covers other entries of its topic. If the node is lost for good before another node has the
    message, readers wait for the message no more, and the covered entries must be named by what came after it. So with
    `doubts`, messages on other topics carry covered entries, too, until another node has what covers them (`secured`).
    """

    __slots__ = ("_ahead", "_covered", "_doubts", "_groups_of", "_node", "_settled", "_stable", "fresh")

    def __init__(
        self, node: int, groups_of: Callable[[str], frozenset[str]] | None = None, *, doubts: bool = False
    ) -> None:
        self._node = node
        self._groups_of = groups_of
        self._doubts = doubts
        #: If set: entries that messages brought and that were new here. Its user empties it.
        self.fresh: list[tuple[str, int, int]] | None = None
        self._ahead: dict[str, dict[int, int]] = {}
        # By topic, while this node alone may have its last messages: a number, and the entries that messages up to it
        # cover. Twice at most: a publisher that never pauses would else collect one for each of its messages.
        self._covered: dict[str, list[tuple[int, dict[int, int]]]] = {}
        # By topic: elements that are stable. And by topic and source: up to where messages are, as far as is known.
        self._settled: dict[str, dict[int, int]] = {}
        self._stable: dict[str, dict[int, int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._ahead.values()))

    def ahead(self, topic: str) -> tuple[Dependency, ...]:
        """The maximal elements on `topic` of this node's causal past, whether it takes the topic or not."""
        return tuple((self._settled.get(topic, {}) | self._ahead.get(topic, {})).items())

    def behind(self, topic: str) -> tuple[Dependency, ...]:
        """What a reader that begins with `topic` must have behind it: the maximal elements, and what is stable.

        A stable message may have been left out of a message delivered here. It need not be in this node's past.
        """
        known = dict(self._stable.get(topic, {}))
        for source, seq in self.ahead(topic):
            known[source] = max(seq, known.get(source, 0))
        return tuple(known.items())

    def across(self, topic: str) -> tuple[Dependency, ...]:
        """The entries of `topic` that messages on other topics carry."""
        return tuple(self._carried(topic).items())

    def _carried(self, topic: str) -> dict[int, int]:
        ahead = self._ahead.get(topic, {})
        if topic not in self._covered:
            return ahead
        stable = self._stable.get(topic, {})
        carried = dict(ahead)
        for _, entries in self._covered[topic]:
            for source, seq in entries.items():
                if max(carried.get(source, 0), stable.get(source, 0)) < seq:
                    carried[source] = seq
        return carried

    def secured(self, topic: str, seq: int) -> None:
        """Another node has this node's messages on `topic` up to `seq`."""
        if topic in self._covered:
            left = [entry for entry in self._covered[topic] if entry[0] > seq]
            if left:
                self._covered[topic] = left
            else:
                del self._covered[topic]

    def stable(self, topic: str, source: int, seq: int) -> None:
        """Every node that takes `topic` has delivered the source's messages up to `seq`."""
        levels = self._stable.setdefault(topic, {})
        levels[source] = max(seq, levels.get(source, 0))
        if source == self._node:
            self.secured(topic, seq)
        ahead = self._ahead.get(topic)
        if ahead is not None and 0 < ahead.get(source, 0) <= seq:
            self._settled.setdefault(topic, {})[source] = ahead.pop(source)
            if not ahead:
                del self._ahead[topic]

    def entries(self) -> tuple[tuple[str, int, int], ...]:
        """The maximal elements on all topics."""
        return tuple([(topic, *entry) for topic, ahead in self._ahead.items() for entry in ahead.items()])

    def stamp(self, topic: str, seq: int) -> tuple[tuple[Dependency, ...], tuple[tuple[str, int, int], ...]]:
        """Return the dependencies of this node's message `seq` on `topic`: on that topic, and on other topics."""
        node = self._node
        here = self._ahead.get(topic, {})
        deps = tuple([entry for entry in here.items() if entry[0] != node])
        if self._settled and (settled := self._settled.pop(topic, None)) is not None:
            deps += tuple([entry for entry in settled.items() if entry[0] != node and entry[0] not in here])
        across = tuple(
            [
                (other, source, last)
                for other, ahead in self._ahead.items()
                if other != topic
                for source, last in (self._carried(other) if self._covered else ahead).items()
            ]
        )
        if self._groups_of is not None:
            for entry in across:
                self._cover(topic, *entry)
        if self._doubts and (covered := {source: last for source, last in here.items() if source != node}):
            pending = self._covered.setdefault(topic, [])
            if len(pending) == 2:
                covered = pending.pop()[1] | covered  # a source's number only rises
            pending.append((seq, covered))
        self._ahead[topic] = {node: seq}
        return deps, across

    def observe(
        self,
        message: Message,
        known: Callable[[str, int, int], bool],
        across: Sequence[tuple[str, int, int]] | None = None,
    ) -> None:
        """Count `message` as delivered here. `known` says of an entry whether this node delivered its message.

        `across`: the message's entries of other topics without those that are known.
        """
        here = self._ahead.setdefault(message.topic, {})
        for source, seq in message.deps:
            if here.get(source, 0) and here[source] <= seq:
                del here[source]
        here[message.source] = message.seq
        settled = self._settled.get(message.topic)
        if settled is not None:
            settled.pop(message.source, None)
            for source, seq in message.deps:
                if settled.get(source, 0) and settled[source] <= seq:
                    del settled[source]
        frontier, stable = self._ahead, self._stable
        for topic, source, seq in message.across if across is None else across:
            # Mostly it is in the frontier already, or has become stable: these questions are cheaper than `known`.
            there = frontier.get(topic)
            if there is None or there.get(source, 0) < seq:
                settled = stable.get(topic)
                # An entry delivered here is in the frontier, or a later one covers it.
                if (settled is None or settled.get(source, 0) < seq) and not known(topic, source, seq):
                    self.merge([(topic, source, seq)])
                    if self.fresh is not None:
                        self.fresh.append((topic, source, seq))
            if self._groups_of is not None:
                self._cover(message.topic, topic, source, seq)

    def merge(self, entries: Iterable[tuple[str, int, int]]) -> None:
        """Make these entries predecessors of the next message."""
        for topic, source, seq in entries:
            ahead = self._ahead.setdefault(topic, {})
            if ahead.get(source, 0) < seq:
                ahead[source] = seq

    def _cover(self, by: str, topic: str, source: int, seq: int) -> None:
        """Drop the entry, on which a message on `by` depends, if every reader of its topic also reads `by`."""
        assert self._groups_of is not None
        ahead = self._ahead.get(topic, {})
        if 0 < ahead.get(source, 0) <= seq and self._groups_of(topic) <= self._groups_of(by):
            del ahead[source]


class GroupVectors:
    """Vector clocks for groups: by topic and source, how many messages are in the causal past (Birman et al. 1991).

    For systems whose members and groups are few and known beforehand. It stamps like a `DomainFrontier`, but with all
    its entries instead of the immediate predecessors.
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
