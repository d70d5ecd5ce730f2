"""Stamping and ordering on one topic: the frontier and the gate, for a topic alone or for several in one causal domain.

`TopicOrder` relates messages of its topic only (thesis 5.4). Topics that share a `Domain` share one gate and one
frontier: a message also waits for the entries of other topics it carries, as far as this node takes those topics.

Two rules where memberships change (both follow from "no wait for the impossible"):
* A topic counts as taken from the moment one begins to join it. Until the join is complete nobody can say which of its
  messages will come; what depends on them waits for that, which is a matter of one wave, not of luck.
* Who leaves a topic waits for nothing on it any more.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from antecede.core import Frontier, Gate, LimitError, Message, TopicMessageId, Verdict
from antecede.core.clocks import DomainFrontier, UnprunedFrontier
from antecede.core.gate import Stream
from antecede.core.limits import HELD_MESSAGES_MAX
from antecede.core.message import Dependency

_NONE: tuple[Message, ...] = ()


class Order(Protocol):
    """What a process asks. Lists of messages are what became deliverable, in order, already observed."""

    def stamp(self, topic: str, seq: int, payload: bytes) -> Message: ...
    def stamp_run(self, topic: str, first: int, payloads: Sequence[bytes]) -> list[Message]:
        """`stamp` for several that follow each other, numbered from `first`."""
        ...

    def offer(self, message: Message) -> Sequence[Message]: ...
    def offer_run(self, messages: Sequence[Message]) -> Sequence[Message]:
        """`offer` for several of one source that follow each other."""
        ...

    def floors(self, topic: str, counts: Iterable[tuple[int, int]]) -> Sequence[Message]: ...
    def reached(self, topic: str, source: int) -> int: ...
    def missing(self, topic: str) -> dict[tuple[str, int], int]:
        """By (topic, source): up to where something that is held waits for it. A domain tells of all its topics."""
        ...

    def known(self, topic: str) -> tuple[Dependency, ...]:
        """The last messages on `topic` that what this node has delivered on any topic depends on."""
        ...

    def replay(self, message: Message) -> None:
        """This node published or delivered `message` before a crash."""
        ...

    def enter(self, topic: str) -> None: ...
    def leave(self, topic: str) -> Sequence[Message]: ...
    @property
    def held(self) -> int: ...


class TopicOrder:
    """The order of one topic."""

    __slots__ = ("_frontier", "_gate", "_node")

    def __init__(self, node: int, *, prune: bool = True) -> None:
        self._node = node
        self._gate: Gate[Message] = Gate()
        self._frontier = Frontier() if prune else UnprunedFrontier()

    def stamp(self, topic: str, seq: int, payload: bytes) -> Message:
        """The next message of this node, which counts as delivered here."""
        if not self._gate.admit(self._node, seq):
            self._gate.mark_settled(self._node, seq)
        return Message(topic, self._node, seq, self._frontier.stamp(), payload)

    def stamp_run(self, topic: str, first: int, payloads: Sequence[bytes]) -> list[Message]:
        node = self._node
        if not self._gate.admit_run(node, first, first + len(payloads) - 1):
            return [self.stamp(topic, seq, payload) for seq, payload in enumerate(payloads, first)]
        messages = [Message(topic, node, first, self._frontier.stamp(), payloads[0])]
        # Nothing was delivered in between: those behind it follow it, and that is all.
        messages += [Message(topic, node, seq, (), payload) for seq, payload in enumerate(payloads[1:], first + 1)]
        return messages

    def offer(self, message: Message) -> Sequence[Message]:
        if self._gate.admit(message.source, message.seq, message.deps):
            self._frontier.observe(message)
            return (message,)
        verdict = self._gate.offer(message, ((message.source, message.seq),), message.deps)
        if verdict is Verdict.READY:
            return self._drain()
        if verdict is Verdict.FULL:
            raise _full(self._gate.held, message)
        return _NONE

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

    def reached(self, topic: str, source: int) -> int:
        return self._gate.reached(source)

    def missing(self, topic: str) -> dict[tuple[str, int], int]:
        return {(topic, _source(stream)): awaited for stream, awaited in self._gate.missing().items()}

    def known(self, topic: str) -> tuple[Dependency, ...]:
        return ()  # all of it was delivered here, or was before our time

    def replay(self, message: Message) -> None:
        self._gate.floor(message.source, message.seq)
        if message.source == self._node:
            self._frontier.stamp()
        else:
            self._frontier.observe(message)

    def enter(self, topic: str) -> None:
        """Nothing else waits for this topic."""

    def leave(self, topic: str) -> Sequence[Message]:
        self._gate = _emptied(self._gate)
        return _NONE

    @property
    def held(self) -> int:
        return self._gate.held

    def _drain(self) -> Sequence[Message]:
        ready = self._gate.drain()
        observe = self._frontier.observe
        for message in ready:
            observe(message)
        return ready


class Domain:
    """The order of all topics of a causal domain. A stream of the gate is (topic, source)."""

    def __init__(self, node: int) -> None:
        self._node = node
        self._gate: Gate[Message] = Gate()
        self._frontier = DomainFrontier(node)
        #: Topics this node takes or is about to take.
        self._taken: set[str] = set()
        #: By stream: where this node's present session on the topic begins.
        self._since: dict[tuple[str, int], int] = {}
        # What the gate holds, to fill another one when a topic comes or goes.
        self._waiting: dict[TopicMessageId, Message] = {}

    def stamp(self, topic: str, seq: int, payload: bytes) -> Message:
        self._gate.mark_settled((topic, self._node), seq)
        deps, across = self._frontier.stamp(topic, seq)
        return Message(topic, self._node, seq, deps, payload, across)

    def stamp_run(self, topic: str, first: int, payloads: Sequence[bytes]) -> list[Message]:
        return [self.stamp(topic, seq, payload) for seq, payload in enumerate(payloads, first)]

    def offer(self, message: Message) -> Sequence[Message]:
        return self._drain() if self._put(message) else _NONE

    def offer_run(self, messages: Sequence[Message]) -> Sequence[Message]:
        return [ready for message in messages for ready in self.offer(message)]

    def floors(self, topic: str, counts: Iterable[tuple[int, int]]) -> Sequence[Message]:
        for source, count in counts:
            stream = (topic, source)
            self._gate.floor(stream, count)
            self._since[stream] = max(count, self._since.get(stream, 0))
        ready = self._drain()
        for name in [
            name for name in self._waiting if name.topic == topic and name.seq <= self._since.get(name[:2], 0)
        ]:
            del self._waiting[name]
        return ready

    def reached(self, topic: str, source: int) -> int:
        return self._gate.reached((topic, source))

    def missing(self, topic: str) -> dict[tuple[str, int], int]:
        return {_topic_and_source(stream): awaited for stream, awaited in self._gate.missing().items()}

    def known(self, topic: str) -> tuple[Dependency, ...]:
        return self._frontier.ahead(topic)

    def replay(self, message: Message) -> None:
        stream = (message.topic, message.source)
        self._gate.floor(stream, message.seq)
        if message.source == self._node:
            self._frontier.stamp(message.topic, message.seq)
        else:
            self._frontier.observe(message, self._delivered)

    def enter(self, topic: str) -> None:
        self._taken.add(topic)
        self._refill()

    def leave(self, topic: str) -> Sequence[Message]:
        self._taken.discard(topic)
        self._refill()
        return self._drain()

    @property
    def held(self) -> int:
        return self._gate.held

    def _put(self, message: Message) -> bool:
        topic = message.topic
        stream = (topic, message.source)
        needs = [((topic, source), seq) for source, seq in message.deps]
        needs += [((other, source), seq) for other, source, seq in message.across if other in self._taken]
        verdict = self._gate.offer(message, ((stream, message.seq),), needs)
        if verdict is Verdict.WAITING:
            self._waiting[message.id] = message
        elif verdict is Verdict.FULL:
            raise _full(self._gate.held, message)
        return verdict is Verdict.READY

    def _refill(self) -> None:
        """What is held waits for other entries now that a topic came or went. Rare, so a gate is simply filled anew."""
        self._gate = _emptied(self._gate)
        waiting, self._waiting = self._waiting, {}
        for message in waiting.values():
            if message.topic in self._taken:
                self._put(message)

    def _drain(self) -> Sequence[Message]:
        ready = self._gate.drain()
        for message in ready:
            self._waiting.pop(message.id, None)
            self._frontier.observe(message, self._delivered)
        return ready

    def _delivered(self, topic: str, source: int, seq: int) -> bool:
        """Did this node deliver it, in its present session on the topic?"""
        stream = (topic, source)
        return topic in self._taken and self._since.get(stream, 0) < seq <= self._gate.reached(stream)


def _emptied(gate: Gate[Message]) -> Gate[Message]:
    """A gate that has come as far and holds nothing."""
    fresh: Gate[Message] = Gate()
    for stream, level in gate.levels().items():
        fresh.floor(stream, level)
    return fresh


def _full(held: int, message: Message) -> LimitError:
    return LimitError(
        f"messages held before {message.id}", held, HELD_MESSAGES_MAX, "something everyone waits for is missing"
    )


def _source(stream: Stream) -> int:
    assert isinstance(stream, int)
    return stream


def _topic_and_source(stream: Stream) -> tuple[str, int]:
    assert isinstance(stream, tuple)
    topic, source = stream
    return topic, source
