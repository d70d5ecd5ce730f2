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

from antecede.core import Frontier, Gate, LimitError, Message, MessageId, Verdict
from antecede.core.clocks import DomainFrontier, UnprunedFrontier
from antecede.core.limits import HELD_MESSAGES_MAX

_NONE: tuple[Message, ...] = ()


class Order(Protocol):
    """What a process asks. Lists of messages are what became deliverable, in order, already observed."""

    def stamp(self, topic: str, seq: int, payload: bytes) -> Message: ...
    def offer(self, message: Message) -> Sequence[Message]: ...
    def floors(self, topic: str, counts: Iterable[tuple[int, int]]) -> Sequence[Message]: ...
    def reached(self, topic: str, source: int) -> int: ...
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
        self._gate.account(self._node, seq)
        return Message(topic, self._node, seq, self._frontier.stamp(), payload)

    def offer(self, message: Message) -> Sequence[Message]:
        verdict = self._gate.offer(message, ((message.source, message.seq),), message.deps)
        if verdict is Verdict.READY:
            return self._drain()
        if verdict is Verdict.FULL:
            raise _full(self._gate.held, message)
        return _NONE

    def floors(self, topic: str, counts: Iterable[tuple[int, int]]) -> Sequence[Message]:
        """What these counts name, and what it followed, was before our time."""
        for source, count in counts:
            self._gate.floor(source, count)
        return self._drain()

    def reached(self, topic: str, source: int) -> int:
        return self._gate.reached(source)

    def enter(self, topic: str) -> None:
        """Nothing else waits for this topic."""

    def leave(self, topic: str) -> Sequence[Message]:
        # What is held was published before any later session of ours, whose floors cannot be lower than it.
        while self._gate.held:
            for source, awaited in self._gate.missing().items():
                self._gate.floor(source, awaited)
            self._gate.drain()
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
        # What the gate holds, and every stream it has moved on: to fill another gate when a topic comes or goes.
        self._waiting: dict[MessageId, Message] = {}
        self._streams: set[tuple[str, int]] = set()

    def stamp(self, topic: str, seq: int, payload: bytes) -> Message:
        stream = (topic, self._node)
        self._streams.add(stream)
        self._gate.account(stream, seq)
        deps, across = self._frontier.stamp(topic, seq)
        return Message(topic, self._node, seq, deps, payload, across)

    def offer(self, message: Message) -> Sequence[Message]:
        return self._drain() if self._put(message) else _NONE

    def floors(self, topic: str, counts: Iterable[tuple[int, int]]) -> Sequence[Message]:
        for source, count in counts:
            stream = (topic, source)
            self._streams.add(stream)
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
        self._streams.add(stream)
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
        old, self._gate = self._gate, Gate()
        for stream in self._streams:
            self._gate.floor(stream, old.reached(stream))
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


def _full(held: int, message: Message) -> LimitError:
    return LimitError(
        f"messages held before {message.id}", held, HELD_MESSAGES_MAX, "something everyone waits for is missing"
    )
