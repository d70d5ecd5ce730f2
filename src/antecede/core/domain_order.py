"""Causal order over the topics of one domain: a gate and a frontier for all of them.

A stream is (topic, source). A message waits for its entries of the topics this node takes. Its entries of other topics
go into the frontier, and from there into what this node publishes. Immediate predecessors are named for each topic:
after m1 on A, d on B, m2 on A, a reader of A alone ignores d and still finds m1 named by m2.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Generic, TypeAlias, TypeVar

from antecede.core.clocks import DomainClock
from antecede.core.gate import WAITING, Gate, Need, Verdict
from antecede.core.limits import HELD_MESSAGES_MAX
from antecede.core.message import Message, TopicMessageId

#: An item to order: a message, or a record that carries one.
T = TypeVar("T")
#: (topic, source).
StreamName: TypeAlias = tuple[str, int]


class DomainOrder(ABC, Generic[T]):
    """Takes items in any order, and returns them in causal order."""

    def __init__(
        self, takes: Callable[[str], bool], clock: DomainClock | None, *, held_max: int = HELD_MESSAGES_MAX
    ) -> None:
        self._takes = takes
        self._gate: Gate[T] = Gate(held_max=held_max)
        self._clock = clock
        # The items the gate holds, to offer them again when a topic comes or goes.
        self._waiting: dict[TopicMessageId, T] = {}
        # By stream: the sequence number after which this node's present session on the topic begins.
        self._since: dict[StreamName, int] = {}
        # Positions settled without a delivery: the messages came too late, or were given up.
        self._gaps: set[tuple[StreamName, int]] = set()

    @staticmethod
    @abstractmethod
    def _message_of(item: T) -> Message: ...

    @property
    def held(self) -> int:
        return self._gate.held

    def _missing(self) -> dict[StreamName, int]:
        """By stream: the highest sequence number that a held message waits for."""
        return self._gate.missing()  # type: ignore[return-value]

    def _offer(self, item: T) -> Verdict:
        """Give an item to the gate. After READY, call `_drain`."""
        message = self._message_of(item)
        stream = (message.topic, message.source)
        verdict = self._gate.offer(item, ((stream, message.seq),), self._needs(message))
        if verdict is WAITING:
            self._waiting[message.id] = item
        return verdict

    def _drain(self) -> list[T]:
        """Return what may be delivered now, and count it as delivered."""
        ready = self._gate.drain()
        for item in ready:
            message = self._message_of(item)
            if self._waiting:
                self._waiting.pop(message.id, None)
            if self._gaps:
                self._gaps.discard(((message.topic, message.source), message.seq))
            if self._clock is not None:
                self._clock.observe(message, self._delivered)
        return ready

    def _start_after(self, levels: Iterable[tuple[str, int, int]]) -> list[T]:
        """Start each (topic, source) after the given number: earlier messages predate this node's session."""
        topics = set()
        for topic, source, seq in levels:
            topics.add(topic)
            stream = (topic, source)
            self._gate.floor(stream, seq)
            self._since[stream] = max(seq, self._since.get(stream, 0))
        ready = self._drain()
        for name in [name for name in self._waiting if name.topic in topics]:
            if name.seq <= self._since.get((name.topic, name.source), 0):
                del self._waiting[name]
        return ready

    def _replay(self, message: Message, *, own: bool) -> None:
        """Count a message that this node published or delivered before a crash."""
        self._gate.floor((message.topic, message.source), message.seq)
        if self._clock is not None:
            if own:
                self._clock.stamp(message.topic, message.seq)
            else:
                self._clock.observe(message, self._delivered)

    def _empty(self) -> list[T]:
        """Start a gate that holds nothing where this one has come. Returns the items that were held.

        The caller offers them again when the node takes other topics than before, since they then wait for other
        entries. That is rare, so the gate is filled anew.
        """
        self._gate = self._gate.emptied()
        waiting, self._waiting = self._waiting, {}
        return list(waiting.values())

    def _needs(self, message: Message) -> list[Need]:
        topic, takes = message.topic, self._takes
        needs: list[Need] = [((topic, source), seq) for source, seq in message.deps]
        if message.across:
            needs += [((other, source), seq) for other, source, seq in message.across if takes(other)]
        return needs

    def _delivered(self, topic: str, source: int, seq: int) -> bool:
        """Did this node deliver this message in its present session on the topic?"""
        stream = (topic, source)
        if not self._takes(topic) or not self._since.get(stream, 0) < seq <= self._gate.reached(stream):
            return False
        return (stream, seq) not in self._gaps
