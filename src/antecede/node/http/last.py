"""The last message on each topic, as far as this node knows: the one that it delivered last.

The node keeps the position of the last delivery on each topic, and reads the message where feeds read it: in memory or
in the journal. After a start it looks once through the last deliveries of its journal (`recent_messages` of them), when
it is first asked.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from antecede.core.errors import GapError
from antecede.journal.batch import Batch
from antecede.node.history import Entry, topic_of

if TYPE_CHECKING:
    from antecede.node.node import Node

#: Topics whose last message is known; beyond that those are forgotten that had none for longest.
TOPICS_MAX: Final = 65_536
#: Deliveries that are read at a time from the journal.
_PAGE: Final = 4096


class LastMessages:
    """By topic."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._positions: dict[str, int] = {}
        #: Looks through the journal, once.
        self._looking: asyncio.Task[None] | None = None

    def delivered(self, batch: Batch) -> None:
        """Look at what the node delivers."""
        count = len(batch.deliveries)
        topics = self._node.hub.history.topics(batch.first - 1, count) or []
        found = {topic: position for position, topic in enumerate(topics, batch.first) if topic is not None}
        self._positions.update(found)
        if len(self._positions) > 2 * TOPICS_MAX:
            self._trim()

    def _trim(self) -> None:
        newest = sorted(self._positions.items(), key=lambda one: one[1])[-TOPICS_MAX:]
        self._positions = dict(newest)

    async def find(self, topic: str) -> Entry | None:
        """The last delivery on a topic; None: none is known, or retention has removed it."""
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look_back())
        if topic not in self._positions:
            await asyncio.shield(self._looking)
        position = self._positions.get(topic)
        if position is None:
            return None
        history = self._node.hub.history
        if position >= history.first:
            return history.entry(position)
        return await self._read(position, topic)

    async def _read(self, position: int, topic: str) -> Entry | None:
        journal = self._node.journal
        if journal is None:
            return None
        try:
            page = await journal.read(position - 1, limit=1)
        except GapError:
            return None
        stream_of = self._node.partitions.stream_of
        found = [
            Entry(position, item.message, stream_of(item.message), item.held_us, topic, item.out_of_order)
            for item in page.items
            if item.position == position
        ]
        return found[0] if found else None

    async def _look_back(self) -> None:
        """Look at what the journal has from before this start."""
        node = self._node
        journal, last = node.journal, node.hub.history.first - 1
        if journal is None:
            return
        at = max(last - node.config.recent_messages, journal.removed)
        while at < last:
            try:
                page = await journal.read(at, limit=_PAGE)
            except GapError as gap:
                at = gap.first - 1
                continue
            for item in page.items:
                topic = topic_of(item.message)
                if topic is not None and self._positions.get(topic, 0) < item.position:
                    self._positions[topic] = item.position
            at = page.position
        self._trim()
