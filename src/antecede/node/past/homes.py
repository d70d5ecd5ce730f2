"""A home fetches what it lacks of its partitions, and a former home lets go once the homes have everything.

Homes change when nodes come and go. A new home joins the partition: from then on it is owed every message. Earlier ones
it reads from nodes that have them, and stores them in its journal (`journal.fetched`). It is *whole* when it has every
earlier message that any node still has. While a home or member does not answer, it is not.

A former home asks the homes now and then. It leaves the partition when each of them is a member, is whole, and has
delivered what this node had delivered when it first asked. A node that leaves the cluster first tells the others, which
become homes in its stead; it waits for the same, for a while.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from antecede.core.errors import RefusedError, UnreachableError
from antecede.core.partitions import split_stream
from antecede.node.history import Gap
from antecede.node.past.reading import PastReader, without_holes
from antecede.node.past.records import PAGE_BYTES, AskHome, HomeState

if TYPE_CHECKING:
    from antecede.node.node import Node

log = logging.getLogger("antecede.node")

#: Between two looks.
_PAUSE_S: Final = 1.0

#: How long a node that is said to leave counts as gone already when homes are computed.
_LEAVING_S: Final = 60.0


class Homes:
    """What one node does as a home, and as a former home."""

    def __init__(self, node: "Node", reader: PastReader) -> None:
        self._node = node
        self._reader = reader
        #: Gaps of the history whose messages are all stored here by now, or gone.
        self._filled: set[tuple[int, int]] = set()
        #: Partitions that this node need not keep: their homes have everything.
        self.released: set[int] = set()
        #: By partition: by source, how far this node was when it first asked the homes.
        self._goals: dict[int, dict[int, int]] = {}
        #: By slot: until when a node that is said to leave counts as gone, by the loop's clock.
        self._leaving: dict[int, float] = {}
        #: Messages fetched since the node started.
        self.fetched = 0

    @property
    def leaving(self) -> frozenset[int]:
        """The nodes that are about to leave the cluster."""
        now = asyncio.get_running_loop().time()
        return frozenset([slot for slot, until in self._leaving.items() if until > now])

    def expect_leave(self, slot: int) -> None:
        """The node with this slot is about to leave the cluster: others become homes in its stead."""
        self._leaving[slot] = asyncio.get_running_loop().time() + _LEAVING_S

    def lacking(self, partition: int) -> int:
        """How many messages of a partition this node never delivered and has not fetched, as far as is known."""
        gaps = [gap for gap in self._unfilled() if gap.partition == partition]
        return sum([last - first + 1 for gap in gaps for _, first, last in gap.missing])

    def state(self, question: AskHome) -> HomeState:
        """What this node answers a former home."""
        node, number = self._node, self._node.partitions.number(question.name)
        if question.leaving >= 0:
            self.expect_leave(question.leaving)
        member = node.process.takes(question.name) and node.process.wants(question.name)
        whole = member and all(gap.partition != number for gap in self._unfilled())
        reached = {split_stream(at)[1]: seq for at, seq in node.hub.delivered.items() if split_stream(at)[0] == number}
        return HomeState(question.number, whole, tuple(reached.items()))

    async def keep_up(self) -> None:
        """Fetch what is lacking and let go of what others keep, for as long as the node runs."""
        while self._node.partitions.count > 1:
            await asyncio.sleep(_PAUSE_S)
            for gap in self._unfilled():
                if gap.partition in self._node.taking.homes and await self._fill(gap):
                    self._filled.add((gap.position, gap.partition))
            for partition in self._node.taking.former():
                if await self.kept_elsewhere(partition):
                    self.released.add(partition)

    def _unfilled(self) -> list[Gap]:
        gaps = self._node.hub.history.gaps
        return [gap for gap in gaps if (gap.position, gap.partition) not in self._filled]

    # -- a home --------------------------------------------------------------------------------------------------------

    async def _fill(self, gap: Gap) -> bool:
        """Fetch the messages of a gap. Returns whether this node has all that any node has."""
        if self._node.journal is None:
            return False
        # A join without a list of missing messages may lack every message up to the node's present deliveries.
        known = gap.missing or tuple(
            [(at, 1, seq) for at, seq in self._node.hub.delivered.items() if split_stream(at)[0] == gap.partition]
        )
        return all([await self._fetch(*one) for one in known])

    async def _fetch(self, stream: int, first: int, last: int) -> bool:
        journal, history, at = self._node.journal, self._node.hub.history, first
        assert journal is not None
        while at <= last:
            mine = await history.stretch(stream, at, last, bytes_max=PAGE_BYTES)
            if mine.messages and mine.messages[0].seq == at:
                at = without_holes(mine.messages)[-1].seq + 1
                continue
            until = min([last, *[message.seq - 1 for message in mine.messages]])
            found = await self._reader.read_elsewhere(stream, at, until, PAGE_BYTES)
            if found.messages:
                await journal.store_fetched(found.messages)
                self.fetched += len(found.messages)
                at = found.messages[-1].seq + 1
            elif found.certain:
                at = found.gone + 1
            else:
                return False
        return True

    # -- a former home -------------------------------------------------------------------------------------------------

    async def kept_elsewhere(self, partition: int, *, without_me: bool = False) -> bool:
        """Do the homes have everything of this partition that this node had when it first asked?

        `without_me`: the homes there will be when this node has left.
        """
        node = self._node
        name = node.partitions.names[partition]
        mine = {split_stream(at)[1]: seq for at, seq in node.hub.delivered.items() if split_stream(at)[0] == partition}
        goal = self._goals.setdefault(partition, mine)
        homes = node.taking.homes_of(partition, without=(node.slot,) if without_me else ())
        question = AskHome(0, name, node.slot if without_me else -1)
        for home in homes:
            if home == node.slot:
                continue
            try:
                state = await self._reader.ask(home, question)
            except (UnreachableError, RefusedError):
                return False
            if not isinstance(state, HomeState) or not state.whole:
                return False
            reached = dict(state.reached)
            if any(reached.get(source, 0) < seq for source, seq in goal.items()):
                return False
        self._goals.pop(partition, None)
        return bool(homes)

    async def hand_over(self) -> None:
        """This node leaves: return when other nodes have everything of which it is a home."""
        for partition in sorted(self._node.taking.homes):
            while not await self.kept_elsewhere(partition, without_me=True):
                await asyncio.sleep(_PAUSE_S / 4)
