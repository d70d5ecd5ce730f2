"""A home fetches what it lacks of its partitions, and a former home lets go once the homes have everything.

Homes change when nodes come and go. A new home joins the partition: from then on it is owed every message. Earlier ones
it reads from nodes that have them, and stores them in its journal (`journal.fetched`). It is *whole* when it has every
earlier message that any node still has. While a home or member does not answer, it is not.

A former home asks the homes now and then. A node that leaves the cluster first tells the others, which become homes in
its stead; it waits for the same, for a while. When either may let go is the matter of `protocols.homes`.
"""

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from antecede.core.partitions import split_stream
from antecede.node.history import Gap
from antecede.node.past.reading import PastReader
from antecede.protocols.homes.copies import kept_at
from antecede.protocols.homes.reading import fetch
from antecede.protocols.homes.records import AskHome, HomeState

if TYPE_CHECKING:
    from antecede.node.node import Node

log = logging.getLogger("antecede.node")

#: Between two looks.
_PAUSE_S: Final = 1.0


class Homes:
    """What one node does as a home, and as a former home."""

    def __init__(self, node: "Node", reader: PastReader) -> None:
        self._node = node
        self._reader = reader
        #: Gaps of the history whose messages are all stored here by now, or gone.
        self._filled: set[tuple[int, int]] = set()

    @property
    def fetched(self) -> int:
        """Messages fetched since the node started."""
        return self._reader.stored

    def lacking(self, partition: int) -> int:
        """How many messages of a partition this node never delivered and has not fetched, as far as is known."""
        gaps = [gap for gap in self._unfilled() if gap.partition == partition]
        return sum([last - first + 1 for gap in gaps for _, first, last in gap.missing])

    def state(self, question: AskHome) -> HomeState:
        """What this node answers a former home."""
        node, number = self._node, self._node.partitions.number(question.name)
        if question.leaving >= 0:
            node.taking.duties.expect_leave(question.leaving, asyncio.get_running_loop().time())
        return node.taking.duties.state(
            question.number,
            number,
            member=node.taking.takes(number),
            lacks=any(gap.partition == number for gap in self._unfilled()),
            reached=self._delivered(number),
        )

    async def keep_up(self) -> None:
        """Fetch what is lacking and let go of what others keep, for as long as the node runs."""
        while self._node.partitions.count > 1:
            await asyncio.sleep(_PAUSE_S)
            for gap in self._unfilled():
                if gap.partition in self._node.taking.homes and await self._fill(gap):
                    self._filled.add((gap.position, gap.partition))
            for partition in self._node.taking.former():
                await self._let_go(partition)
            await self._count_copies()

    def _unfilled(self) -> list[Gap]:
        gaps = self._node.hub.history.gaps
        return [gap for gap in gaps if (gap.position, gap.partition) not in self._filled]

    def _delivered(self, partition: int) -> dict[int, int]:
        """By source: how far this node has delivered a partition."""
        found = {split_stream(at): seq for at, seq in self._node.hub.delivered.items()}
        return {source: seq for (number, source), seq in found.items() if number == partition}

    async def _fill(self, gap: Gap) -> bool:
        """Fetch the messages of a gap. Returns whether this node has all that any node has."""
        node, reader = self._node, self._reader
        if node.journal is None:
            return False
        # A join without a list of missing messages may lack every message up to the node's present deliveries.
        known = gap.missing or tuple(
            [(at, 1, seq) for at, seq in node.hub.delivered.items() if split_stream(at)[0] == gap.partition]
        )
        for stream, first, last in known:
            name, source = node.partitions.stream_name(stream)
            steps = fetch(name, source, first, last, partial(reader.candidates, name), reader.trusts)
            if not await reader.carry_out(steps):
                return False
        return True

    async def _let_go(self, partition: int) -> None:
        node = self._node
        name, members = node.partitions.names[partition], node.taking.members()
        now = asyncio.get_running_loop().time()
        steps = node.taking.duties.let_go(partition, name, members, self._delivered(partition), now)
        await self._reader.carry_out(steps)

    async def _count_copies(self) -> None:
        """Publications wait for copies at homes that joined behind them: ask whether these have fetched them."""
        replicas = self._node.driver.replicas
        for name, home, seqs in replicas.doubtful() if replicas is not None else ():
            kept = await self._reader.carry_out(kept_at(home, name, self._node.slot, seqs))
            if replicas is not None:
                replicas.confirm(name, home, kept)

    async def hand_over(self) -> None:
        """This node leaves: return when other nodes have everything that it must keep."""
        node, duties = self._node, self._node.taking.duties
        while not duties.may_go(taken := [one for one in range(node.partitions.count) if node.taking.takes(one)]):
            for partition in taken:
                if not duties.may_go([partition]):
                    name, members = node.partitions.names[partition], node.taking.members()
                    now = asyncio.get_running_loop().time()
                    steps = duties.hand_over(partition, name, members, self._delivered(partition), now)
                    await self._reader.carry_out(steps)
            await asyncio.sleep(_PAUSE_S / 4)
