"""Stamping and ordering on one topic: the frontier and the gate, for a topic alone or for several in one causal domain.

`TopicOrder` relates messages of its topic only (thesis 5.4). Topics that share a `Domain` share one gate and one
frontier: a message also waits for the entries of other topics it carries, as far as this node takes those topics.

Two rules where memberships change, so that no message waits for one that cannot come:
* A topic counts as taken as soon as the node begins to join it. Until the join is complete, the node cannot know which
  of its messages will come. Messages that depend on them wait until then, which takes one wave.
* A node that leaves a topic waits for nothing on it any more.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from antecede.core import Frontier, Gate, LimitError, Message, Verdict
from antecede.core.clocks import DomainFrontier, UnprunedFrontier
from antecede.core.domain_order import DomainOrder, StreamName
from antecede.core.gate import Stream
from antecede.core.limits import HELD_MESSAGES_MAX
from antecede.core.message import Dependency

_NONE: tuple[Message, ...] = ()


class Order(Protocol):
    """What a process asks. Lists of messages are what became deliverable, in order, already observed."""

    def stamp(self, topic: str, seq: int, payload: bytes, clock: int = 0) -> Message: ...
    def stamp_run(self, topic: str, first: int, payloads: Sequence[bytes], clock: int) -> list[Message]:
        """`stamp` for several that follow each other, numbered from `first`, their Lamport times from `clock`."""
        ...

    def offer(self, message: Message) -> Sequence[Message]: ...
    def offer_run(self, messages: Sequence[Message]) -> Sequence[Message]:
        """`offer` for several of one source that follow each other."""
        ...

    def floors(self, topic: str, counts: Iterable[tuple[int, int]]) -> Sequence[Message]: ...
    def drop(self, topic: str, source: int) -> None:
        """Hold no messages of this source any more."""
        ...

    def close(self, topic: str, source: int, base: int) -> Sequence[Message]:
        """All numbers of the source up to `base` count as delivered: no others will come."""
        ...

    def reached(self, topic: str, source: int) -> int: ...
    def missing(self, topic: str) -> dict[StreamName, int]:
        """By (topic, source): the highest number that a held message waits for. A domain tells of all its topics."""
        ...

    def known(self, topic: str) -> tuple[Dependency, ...]:
        """The last messages on `topic` that what this node has delivered on any topic depends on."""
        ...

    def replay(self, message: Message) -> None:
        """This node published or delivered `message` before a crash."""
        ...

    def follow(self, topic: str, source: int, seq: int) -> None:
        """The next message that this node publishes follows this one, of a topic that it does not take."""
        ...

    def enter(self, topic: str) -> None: ...
    def leave(self, topic: str) -> Sequence[Message]: ...
    def deliverable(self, message: Message) -> bool:
        """Would `offer` deliver `message` at once?"""
        ...

    def checkpoint(self, topic: str) -> tuple[Dependency, ...]:
        """What the next message on `topic` published here would depend on, of that topic."""
        ...

    def resume(self, topic: str, reached: Iterable[tuple[int, int]], frontier: Iterable[Dependency]) -> None:
        """Go on from there. `reached`: by source, how far this node had come."""
        ...

    def stable(self, topic: str, source: int, seq: int) -> None:
        """Every member has delivered the source's messages on `topic` up to `seq`."""
        ...

    def secured(self, topic: str, seq: int) -> None:
        """Another node has delivered this node's messages on `topic` up to `seq`."""
        ...

    def named(self) -> Sequence[str]:
        """The topics whose messages the next message published here would name, on any topic."""
        ...

    def carried(self, topic: str) -> tuple[Dependency, ...]:
        """Entries of `topic` that messages on other topics carry, to ask which of them are stable."""
        ...

    drops: bool
    """Are entries left out once they are stable (`carrying`)?"""
    lean: bool
    """Do records of messages leave out entries of other topics? Those to keep are told by `fresh`."""

    def fresh(self) -> Sequence[tuple[str, int, int]]:
        """If `lean`: entries of other topics that are new since the last time asked."""
        ...

    @property
    def held(self) -> int: ...
    @property
    def held_bytes(self) -> int:
        """About what the held messages take."""
        ...


class TopicOrder:
    """The order of one topic."""

    __slots__ = ("_frontier", "_gate", "_held_bytes", "_node", "drops", "lean")

    def __init__(self, node: int, *, prune: bool = True) -> None:
        self.drops = self.lean = False
        self._node = node
        self._gate: Gate[Message] = Gate()
        self._held_bytes = 0
        self._frontier = Frontier() if prune else UnprunedFrontier()

    def stamp(self, topic: str, seq: int, payload: bytes, clock: int = 0) -> Message:
        """The next message of this node, which counts as delivered here."""
        if not self._gate.admit(self._node, seq):
            self._gate.mark_settled(self._node, seq)
        return Message(topic, self._node, seq, self._frontier.stamp(), payload, (), clock)

    def stamp_run(self, topic: str, first: int, payloads: Sequence[bytes], clock: int) -> list[Message]:
        node = self._node
        if not self._gate.admit_run(node, first, first + len(payloads) - 1):
            return [self.stamp(topic, first + i, payload, clock + i) for i, payload in enumerate(payloads)]
        messages = [Message(topic, node, first, self._frontier.stamp(), payloads[0], (), clock)]
        # Nothing was delivered in between: those behind it follow it, and that is all.
        messages += [
            Message(topic, node, first + i, (), payload, (), clock + i) for i, payload in enumerate(payloads[1:], 1)
        ]
        return messages

    def offer(self, message: Message) -> Sequence[Message]:
        plain: Any = message  # compiled code keeps its numbers as they are, and makes no new ones
        if self._gate.admit(plain.source, message.seq, message.deps):
            self._frontier.observe(message)
            return (message,)
        verdict = self._gate.offer(message, ((plain.source, plain.seq),), message.deps)
        if verdict is Verdict.FULL:
            raise full(self._gate.held, message)
        if verdict is Verdict.WAITING or verdict is Verdict.READY:
            self._held_bytes += weight(message)
        return self._drain() if verdict is Verdict.READY else _NONE

    def deliverable(self, message: Message) -> bool:
        reached = self._gate.reached
        return reached(message.source) == message.seq - 1 and all(
            reached(source) >= seq for source, seq in message.deps
        )

    def offer_run(self, messages: Sequence[Message]) -> Sequence[Message]:
        first, last = messages[0], messages[-1]
        if any(message.deps for message in messages) or not self._gate.admit_run(first.source, first.seq, last.seq):
            return [ready for message in messages for ready in self.offer(message)]
        self._frontier.observe(last)
        return messages

    def floors(self, topic: str, counts: Iterable[tuple[int, int]]) -> Sequence[Message]:
        """What these counts name, and what it followed, was before our time."""
        for source, count in counts:
            self._gate.floor(source, count)
        return self._drain()

    def drop(self, topic: str, source: int) -> None:
        held = self._gate.holding()
        self._gate = self._gate.emptied()
        self._held_bytes = 0
        for message in held:
            if message.source != source:
                self.offer(message)

    def close(self, topic: str, source: int, base: int) -> Sequence[Message]:
        return self.floors(topic, ((source, base),))

    def reached(self, topic: str, source: int) -> int:
        return self._gate.reached(source)

    def missing(self, topic: str) -> dict[StreamName, int]:
        return {(topic, _source(stream)): awaited for stream, awaited in self._gate.missing().items()}

    def known(self, topic: str) -> tuple[Dependency, ...]:
        return ()  # all of it was delivered here, or was before our time

    def replay(self, message: Message) -> None:
        self._gate.floor(message.source, message.seq)
        if message.source == self._node:
            self._frontier.stamp()
        else:
            self._frontier.observe(message)

    def follow(self, topic: str, source: int, seq: int) -> None:
        """Messages of other topics are not related to those of this one."""

    def enter(self, topic: str) -> None:
        """Nothing else waits for this topic."""

    def leave(self, topic: str) -> Sequence[Message]:
        self._gate = self._gate.emptied()
        self._held_bytes = 0
        return _NONE

    def checkpoint(self, topic: str) -> tuple[Dependency, ...]:
        return self._frontier.entries()

    def resume(self, topic: str, reached: Iterable[tuple[int, int]], frontier: Iterable[Dependency]) -> None:
        for source, seq in reached:
            self._gate.floor(source, seq)
        self._frontier.put_back(frontier)

    def stable(self, topic: str, source: int, seq: int) -> None:
        """Messages carry no entries of other topics."""

    def secured(self, topic: str, seq: int) -> None:
        """Messages carry no entries of other topics."""

    def named(self) -> Sequence[str]:
        return ()  # its own only, which has a group

    def carried(self, topic: str) -> tuple[Dependency, ...]:
        return ()

    def fresh(self) -> Sequence[tuple[str, int, int]]:
        return ()

    @property
    def held(self) -> int:
        return self._gate.held

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    def _drain(self) -> Sequence[Message]:
        ready = self._gate.drain()
        self._held_bytes = self._held_bytes - sum(map(weight, ready)) if self._gate.held else 0
        observe = self._frontier.observe
        for message in ready:
            observe(message)
        return ready


class Domain(DomainOrder[Message]):
    """The order of all topics of a causal domain. `drops`: entries are left out once they are stable (`carrying`).

    `logged`: records of messages refer to the driver's log. Those of a domain that drops entries are lean.
    """

    def __init__(self, node: int, *, drops: bool = False, logged: bool = False) -> None:
        self.drops = drops
        self.lean = drops and logged
        #: Topics this node takes or is about to take.
        self._taken: set[str] = set()
        frontier = DomainFrontier(node, doubts=True)
        super().__init__(self._taken.__contains__, frontier)
        self._node = node
        self._held_bytes = 0
        self._frontier: DomainFrontier = frontier
        if self.lean:
            frontier.fresh = []

    @staticmethod
    def _message_of(item: Message) -> Message:
        return item

    def stamp(self, topic: str, seq: int, payload: bytes, clock: int = 0) -> Message:
        self._gate.mark_settled((topic, self._node), seq)
        deps, across = self._frontier.stamp(topic, seq)
        return Message(topic, self._node, seq, deps, payload, across, clock)

    def stamp_run(self, topic: str, first: int, payloads: Sequence[bytes], clock: int) -> list[Message]:
        return [self.stamp(topic, first + i, payload, clock + i) for i, payload in enumerate(payloads)]

    def offer(self, message: Message) -> Sequence[Message]:
        # Mostly nothing is missing and nothing waits for it.
        if not self._gaps:
            carried = self._carried(message)
            if carried is not None and self._gate.admit((message.topic, message.source), message.seq):
                self._frontier.observe(message, self._delivered, carried)
                return (message,)
        return self._drain() if self._put(message) else _NONE

    def _carried(self, message: Message) -> list[tuple[str, int, int]] | None:
        """The entries of other topics that this node did not deliver; None: it has not delivered all that it needs."""
        reached, taken, since = self._gate.level.get, self._taken, self._since
        topic = message.topic
        for source, seq in message.deps:
            if reached((topic, source), 0) < seq:
                return None
        carried = []
        for entry in message.across:
            if entry[0] in taken:
                stream = entry[:2]
                if reached(stream, 0) < entry[2]:
                    return None
                if entry[2] > since.get(stream, 0):
                    continue
            carried.append(entry)
        return carried

    def offer_run(self, messages: Sequence[Message]) -> Sequence[Message]:
        return [ready for message in messages for ready in self.offer(message)]

    def floors(self, topic: str, counts: Iterable[tuple[int, int]]) -> Sequence[Message]:
        return self._start_after([(topic, source, count) for source, count in counts])

    def drop(self, topic: str, source: int) -> None:
        self._refill((topic, source))

    def close(self, topic: str, source: int, base: int) -> Sequence[Message]:
        self._gate.floor((topic, source), base)
        return self._drain()

    def reached(self, topic: str, source: int) -> int:
        return self._gate.reached((topic, source))

    def missing(self, topic: str) -> dict[StreamName, int]:
        return self._missing()

    def known(self, topic: str) -> tuple[Dependency, ...]:
        return self._frontier.behind(topic)

    def replay(self, message: Message) -> None:
        self._replay(message, own=message.source == self._node)

    def follow(self, topic: str, source: int, seq: int) -> None:
        self._frontier.merge([(topic, source, seq)])

    def enter(self, topic: str) -> None:
        self._taken.add(topic)
        self._refill()

    def leave(self, topic: str) -> Sequence[Message]:
        self._taken.discard(topic)
        self._refill()
        return self._drain()

    def deliverable(self, message: Message) -> bool:
        reached = self._gate.reached
        return reached((message.topic, message.source)) == message.seq - 1 and all(
            reached(stream) >= seq for stream, seq in self._needs(message)
        )

    def checkpoint(self, topic: str) -> tuple[Dependency, ...]:
        # Entries that this node's messages cover, too, as long as no other node has these.
        return tuple((dict(self._frontier.ahead(topic)) | dict(self._frontier.across(topic))).items())

    def resume(self, topic: str, reached: Iterable[tuple[int, int]], frontier: Iterable[Dependency]) -> None:
        for source, seq in reached:
            self._gate.floor((topic, source), seq)
        self._frontier.merge([(topic, source, seq) for source, seq in frontier])

    def stable(self, topic: str, source: int, seq: int) -> None:
        if self.drops:
            self._frontier.stable(topic, source, seq)
        elif source == self._node:
            self._frontier.secured(topic, seq)

    def secured(self, topic: str, seq: int) -> None:
        self._frontier.secured(topic, seq)

    def named(self) -> Sequence[str]:
        return sorted({topic for topic, _, _ in self._frontier.entries()})

    def carried(self, topic: str) -> tuple[Dependency, ...]:
        return self._frontier.across(topic) if self.drops else ()

    def fresh(self) -> Sequence[tuple[str, int, int]]:
        found = self._frontier.fresh
        if not found:
            return ()
        self._frontier.fresh = []
        return found

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    def _put(self, message: Message) -> bool:
        verdict = self._offer(message)
        if verdict is Verdict.FULL:
            raise full(self.held, message)
        if verdict is Verdict.WAITING or verdict is Verdict.READY:
            self._held_bytes += weight(message)
        return verdict is Verdict.READY

    def _drain(self) -> list[Message]:
        ready = super()._drain()
        self._held_bytes = self._held_bytes - sum(map(weight, ready)) if self.held else 0
        return ready

    def _refill(self, but: StreamName | None = None) -> None:
        """Offer again what is held: it waits for other entries now that a topic came or went. `but`: drop these."""
        self._held_bytes = 0
        for message in self._empty():
            if message.topic in self._taken and (message.topic, message.source) != but:
                self._put(message)


def weight(message: Message) -> int:
    """About what a message takes in memory, in bytes."""
    return len(message.payload) + 256


def full(held: int, message: Message) -> LimitError:
    return LimitError(
        f"messages held before {message.id}", held, HELD_MESSAGES_MAX, "something everyone waits for is missing"
    )


def _source(stream: Stream) -> int:
    assert isinstance(stream, int)
    return stream
