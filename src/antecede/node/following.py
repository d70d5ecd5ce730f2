"""Publications follow messages that this node never delivers.

A client has read such a message at another node, or this node gave it a past that it fetched (`past.replay`). Its
partition is not taken here, or was taken later. The node names the message as a dependency of what it publishes next
(`Process.follow`). What it publishes must also have a higher Lamport time, since a dependency that is stable is not
named. And it follows what the message depends on: the node first delivers what it takes of that, and names the rest.
So the node reads the message from a home first. Earlier messages of that stream need not be read: a message names all
of its source's past that is not stable (`core.clocks.DomainFrontier`).

If no node shows the message within `_PATIENCE_S`, the node names it without its time and without what it depends on,
and logs that. It is not stable, so it stays named until it is.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from antecede.core import Message
from antecede.core.partitions import message_name, stream_base
from antecede.node.predecessors import After

if TYPE_CHECKING:
    from antecede.node.node import Node

log = logging.getLogger("antecede.node")

#: Nodes that have it may be restarting. A message that is lost must not keep a client from publishing for long.
_PATIENCE_S: Final = 10.0

#: How long the node waits for what a followed message depends on, before it looks again whether it must.
_BEHIND_S: Final = 30.0

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
        message = found.messages[0] if found.messages else None
        if message is not None and not await self._has_predecessors(message):
            return
        if message is None and not found.certain:
            lost = message_name(stream, seq)
            log.warning(
                "no node shows message %s, which a client has read elsewhere; what it depends on is unknown", lost
            )
        name, source = node.partitions.stream_name(stream)
        node.process.follow(name, source, seq, 0 if message is None else message.clock)
        self._told[stream] = max(seq, self._told.get(stream, 0))

    async def _has_predecessors(self, message: Message) -> bool:
        """Wait until this node has delivered what `message` depends on, of what it takes; name the rest."""
        node = self._node
        named = [*[(message.topic, source, seq) for source, seq in message.deps], *message.across]
        entries = tuple([(stream_base(name) + source, seq) for name, source, seq in named])
        lacks, mine = node.hub.history.lacks, frozenset(node.taking.here(entries))
        awaited = tuple([one for one in entries if one in mine and one[1] > lacks.get(one[0], 0)])
        if not node.hub.has(awaited):
            delivered = asyncio.Event()
            withdraw = node.hub.when_delivered(awaited, delivered.set)
            try:
                async with asyncio.timeout(_BEHIND_S):
                    await delivered.wait()
            except TimeoutError:
                return False
            finally:
                withdraw()
        for (name, source, seq), entry in zip(named, entries, strict=True):
            if entry not in awaited:
                node.process.follow(name, source, seq, 0)
        return True
