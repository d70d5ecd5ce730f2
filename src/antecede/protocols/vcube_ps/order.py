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

from antecede.core import Frontier, Gate, LimitError, Message, Verdict
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
        # What is held stays until the floors of a later session sweep it away: it was published before that began.
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
    """The order of all topics of a causal domain."""

    def __init__(self, node: int) -> None:
        self._node = node
        self._gate: Gate[Message] = Gate()
        self._frontier = DomainFrontier(node)
        #: Topics this node takes or is about to take.
        self._taken: set[str] = set()
        #: By stream: where this node's present session on the topic begins.
        self._since: dict[tuple[str, int], int] = {}

    def stamp(self, topic: str, seq: int, payload: bytes) -> Message:
        self._gate.account((topic, self._node), seq)
        deps, across = self._frontier.stamp(topic, seq)
        return Message(topic, self._node, seq, deps, payload, across)

    def offer(self, message: Message) -> Sequence[Message]:
        topic = message.topic
        needs = [((topic, source), seq) for source, seq in message.deps]
        needs += [((other, source), seq) for other, source, seq in message.across if other in self._taken]
        verdict = self._gate.offer(message, (((topic, message.source), message.seq),), needs)
        if verdict is Verdict.READY:
            return self._drain()
        if verdict is Verdict.FULL:
            raise _full(self._gate.held, message)
        return _NONE

    def floors(self, topic: str, counts: Iterable[tuple[int, int]]) -> Sequence[Message]:
        for source, count in counts:
            self._gate.floor((topic, source), count)
            self._since[topic, source] = max(count, self._since.get((topic, source), 0))
        return self._drain()

    def reached(self, topic: str, source: int) -> int:
        return self._gate.reached((topic, source))

    def enter(self, topic: str) -> None:
        self._taken.add(topic)

    def leave(self, topic: str) -> Sequence[Message]:
        self._taken.discard(topic)
        for stream, awaited in self._gate.missing().items():
            assert isinstance(stream, tuple)
            if stream[0] == topic:
                # Published, so before any later session of ours: the floors of that one cannot be lower.
                self._gate.floor(stream, awaited)
        return self._drain()

    @property
    def held(self) -> int:
        return self._gate.held

    def _drain(self) -> Sequence[Message]:
        ready = [message for message in self._gate.drain() if message.topic in self._taken]
        for message in ready:
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
