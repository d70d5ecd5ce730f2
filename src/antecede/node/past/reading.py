"""Reads one stream of a partition, from this node's history and from the nodes that have what it lacks.

Which nodes are asked, and when a message is gone, `protocols.homes.reading` says. While a node that may have a message
does not answer, the reader asks again, for `_PATIENCE_S` at most.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from antecede.core import Message
from antecede.core.errors import RefusedError, UnreachableError
from antecede.node.past.calling import PastCaller
from antecede.node.past.records import ROLE
from antecede.node.past.service import PastService
from antecede.protocols.homes.reading import Candidates, Found, candidates, read_elsewhere, without_holes
from antecede.protocols.homes.records import PAGE_BYTES, Ask, ReadHere, ReadStream, Step, Steps

if TYPE_CHECKING:
    from antecede.node.node import Node

log = logging.getLogger("antecede.node")

#: How long to ask for messages while a node that may have them does not answer; and the pause between two rounds.
_PATIENCE_S: Final = 10.0
_PAUSE_S: Final = 0.25

T = TypeVar("T")


class PastReader:
    """Reads streams for one node."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._caller = PastCaller(node)
        #: Messages stored since the node started.
        self.stored = 0

    def begin(self) -> None:
        """Answer other nodes."""
        self._node.listener.serve(ROLE, PastService(self._node).judge, members=True)

    def close(self) -> None:
        self._caller.close()

    async def read(
        self, stream: int, first: int, last: int, *, bytes_max: int = PAGE_BYTES, patience_s: float = _PATIENCE_S
    ) -> Found:
        """The messages of a stream from `first` on, up to `last` at the most: at least one, or those that are gone."""
        deadline = asyncio.get_running_loop().time() + patience_s
        name, source = self._node.partitions.stream_name(stream)
        while True:
            mine = await self._node.hub.history.stretch(stream, first, last, bytes_max=bytes_max)
            if mine.messages and mine.messages[0].seq == first:
                return Found(without_holes(mine.messages))
            until = min([last, *[message.seq - 1 for message in mine.messages]])
            question = ReadStream(0, name, source, first, until, bytes_max)
            found = await self.carry_out(read_elsewhere(question, self.candidates(name), self.trusts))
            if found.messages or found.certain or asyncio.get_running_loop().time() > deadline:
                return found
            await asyncio.sleep(_PAUSE_S)

    async def carry_out(self, steps: Steps[T]) -> T:
        """Take the steps of a procedure. Returns what it returns."""
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as ended:
                result: T = ended.value
                return result
            answer = await self._take(step)

    async def _take(self, step: Step) -> Any:
        node = self._node
        if isinstance(step, Ask):
            try:
                return await self._caller.ask(step.slot, step.question)
            except (UnreachableError, RefusedError):
                return None
        if isinstance(step, ReadHere):
            stream = node.partitions.stream(step.name, step.source)
            return (await node.hub.history.stretch(stream, step.first, step.last, bytes_max=PAGE_BYTES)).messages
        assert node.journal is not None
        await node.journal.store_fetched(step.messages)
        self.stored += len(step.messages)
        return None

    def candidates(self, name: str) -> Candidates:
        """The nodes to ask for messages of the partition called `name`."""
        node = self._node
        homes = node.taking.homes_of(node.partitions.number(name))
        present = [one.slot for one in node.roster.others()]
        left = [one.slot for one in node.roster.members.values() if one.left]
        return candidates(node.slot, homes, node.process.members(name), present, left)

    def trusts(self, slot: int, messages: Sequence[Message]) -> bool:
        """Did their sources sign these messages, which node `slot` sent? Or do nodes not sign in this cluster?"""
        checker = self._node.driver.checker
        if checker is None or all(map(checker.is_signed, messages)):
            return True
        log.error("node %d: node %d sent messages that their source did not sign; ignored", self._node.slot, slot)
        return False
