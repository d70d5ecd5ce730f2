"""The order of one topic in the faithful mode: `order.TopicOrder` on a gate whose counters stand in a list.

That gate is the faster one in large simulations (`core.source_gate`). The faithful mode knows no failures, so it asks
for a part of what `order.Order` offers. `tests/protocols/vcube_ps/test_source_order.py` compares the two.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from antecede.core import Frontier, Message, Verdict
from antecede.core.clocks import UnprunedFrontier
from antecede.core.source_gate import SourceGate
from antecede.protocols.vcube_ps.order import full

_NONE: Final[Sequence[Message]] = ()


class FaithfulOrder(Protocol):
    """What the faithful mode asks. Lists of messages are what became deliverable, in order, already observed."""

    def stamp(self, topic: str, seq: int, payload: bytes) -> Message: ...
    def offer(self, message: Message) -> Sequence[Message]: ...
    def floors(self, topic: str, counts: Iterable[tuple[int, int]]) -> Sequence[Message]: ...
    def enter(self, topic: str) -> None: ...
    def leave(self, topic: str) -> Sequence[Message]: ...

    @property
    def held(self) -> int: ...


class SourceOrder:
    """The order of one topic."""

    __slots__ = ("_frontier", "_gate", "_node")

    def __init__(self, node: int, *, prune: bool = True) -> None:
        self._node = node
        self._gate = SourceGate()
        self._frontier = Frontier() if prune else UnprunedFrontier()

    def stamp(self, topic: str, seq: int, payload: bytes) -> Message:
        """The next message of this node, which counts as delivered here."""
        self._gate.mark_settled(self._node, seq)
        return Message(topic, self._node, seq, self._frontier.stamp(), payload)

    def offer(self, message: Message) -> Sequence[Message]:
        if self._gate.admit(message):
            self._frontier.observe(message)
            return (message,)
        verdict = self._gate.offer(message)
        if verdict is Verdict.FULL:
            raise full(self._gate.held, message)
        return self._drain() if verdict is Verdict.READY else _NONE

    def floors(self, topic: str, counts: Iterable[tuple[int, int]]) -> Sequence[Message]:
        """What these counts name, and what it followed, was before our time."""
        for source, count in counts:
            self._gate.floor(source, count)
        return self._drain()

    def enter(self, topic: str) -> None:
        """Nothing else waits for this topic."""

    def leave(self, topic: str) -> Sequence[Message]:
        self._gate = self._gate.emptied()
        return _NONE

    @property
    def held(self) -> int:
        return self._gate.held

    def _drain(self) -> Sequence[Message]:
        ready = self._gate.drain()
        for message in ready:
            self._frontier.observe(message)
        return ready
