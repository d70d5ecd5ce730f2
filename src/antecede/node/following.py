"""Publications follow messages that this node never delivers.

A client has read such a message at another node, or this node gave it a past that it fetched (`past.replay`). Its
partition is not taken here, or was taken later. The node names the message as a dependency of what it publishes next
(`Process.follow`). What it publishes must also have a higher Lamport time, since a dependency that is stable is not
named. So the node reads the message from a home first, to learn its time.

A message that no node shows within `_PATIENCE_S` is named without its time. It is not stable, so it stays named until
it is.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from antecede.node.predecessors import After

if TYPE_CHECKING:
    from antecede.node.node import Node

_PATIENCE_S: Final = 2.0

#: Messages read at a time.
_AT_ONCE: Final = 16


class Following:
    """The messages that one node follows and did not deliver."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        #: By stream: the last message that the process was told of.
        self._told: dict[int, int] = {}

    def unknown(self, after: Iterable[tuple[int, int]]) -> After:
        """Those of these messages that this node never delivers, and that its process was not told of."""
        node = self._node
        if node.partitions.count == 1:
            return ()
        entries = tuple(after)
        told, lacks, here = self._told, node.hub.history.lacks, frozenset(node.taking.here(entries))
        return tuple(
            [
                (stream, seq)
                for stream, seq in entries
                if seq > told.get(stream, 0) and ((stream, seq) not in here or seq <= lacks.get(stream, 0))
            ]
        )

    def learn(self, messages: After, then: Callable[[], None]) -> Callable[[], None]:
        """Tell the process of these messages, then call `then`. Calling the result withdraws."""
        wanted = [then]
        self._node.tasks.start("learns of messages to follow", self._learn(messages, wanted))
        return wanted.clear

    async def _learn(self, messages: After, then: list[Callable[[], None]]) -> None:
        for at in range(0, len(messages), _AT_ONCE):
            await asyncio.gather(*[self._follow(*one) for one in messages[at : at + _AT_ONCE]])
        for do in then:
            do()

    async def _follow(self, stream: int, seq: int) -> None:
        node = self._node
        found = await node.past.read(stream, seq, seq, bytes_max=1, patience_s=_PATIENCE_S)
        name, source = node.partitions.stream_name(stream)
        node.process.follow(name, source, seq, found.messages[0].clock if found.messages else 0)
        self._told[stream] = max(seq, self._told.get(stream, 0))
