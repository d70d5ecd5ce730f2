"""Reads one stream of a partition, from this node's history and from the nodes that have what it lacks.

Other nodes are asked in this order: the homes of the partition, its other members, all others. A message is *gone* when
none of them has it. That is certain once every home and member has answered and has delivered the stream that far.
Until then the reader asks again, for `_PATIENCE_S` at most.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from antecede.core import Message
from antecede.core.errors import RefusedError, UnreachableError
from antecede.node.past.calling import PastCaller
from antecede.node.past.records import PAGE_BYTES, ROLE, ReadStream, StreamPage
from antecede.node.past.service import PastService

if TYPE_CHECKING:
    from antecede.node.node import Node

log = logging.getLogger("antecede.node")

#: How long to ask for messages while a node that may have them does not answer; and the pause between two rounds.
_PATIENCE_S: Final = 10.0
_PAUSE_S: Final = 0.25


class Found(NamedTuple):
    """Messages that follow each other without a hole, from the first one asked for on; or the numbers that are gone."""

    messages: tuple[Message, ...]
    #: Messages up to this one are gone, where there are none.
    gone: int = 0
    #: Is that certain? False: a node that does not answer may have them.
    certain: bool = True


class PastReader:
    """Reads streams for one node."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._caller = PastCaller(node)
        self.ask = self._caller.ask

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
        while True:
            mine = await self._node.hub.history.stretch(stream, first, last, bytes_max=bytes_max)
            if mine.messages and mine.messages[0].seq == first:
                return Found(without_holes(mine.messages))
            until = min([last, *[message.seq - 1 for message in mine.messages]])
            found = await self.read_elsewhere(stream, first, until, bytes_max)
            if found.messages or found.certain or asyncio.get_running_loop().time() > deadline:
                return found
            await asyncio.sleep(_PAUSE_S)

    async def read_elsewhere(self, stream: int, first: int, last: int, bytes_max: int) -> Found:
        """`read` at other nodes only, once."""
        node = self._node
        name, source = node.partitions.stream_name(stream)
        question = ReadStream(0, name, source, first, last, bytes_max)
        certain, gone = True, last
        bound, others = self._candidates(name)
        for slot in (*bound, *others):
            try:
                page = await self._caller.ask(slot, question)
            except (UnreachableError, RefusedError):
                certain = certain and slot in others
                continue
            if not isinstance(page, StreamPage):
                certain = False
                continue
            messages = [one for one in page.messages if (one.topic, one.source) == (name, source)]
            if not all(map(self._is_signed, messages)):
                log.error("node %d: node %d sent messages that their source did not sign; ignored", node.slot, slot)
                certain = False
                continue
            if messages and messages[0].seq == first:
                return Found(without_holes(messages))
            gone = min([gone, *[message.seq - 1 for message in messages]])
            if slot in bound and page.delivered < last:
                certain = False  # it may yet deliver them
        return Found((), gone, certain)

    def _candidates(self, name: str) -> tuple[list[int], list[int]]:
        """The homes and members of a partition; and the other nodes."""
        node = self._node
        present = [one.slot for one in node.roster.others()]
        homes = node.taking.homes_of(node.partitions.number(name))
        members = node.process.members(name)
        bound = [slot for slot in homes if slot in present]
        bound += [slot for slot in sorted(members) if slot in present and slot not in homes]
        return bound, [slot for slot in present if slot not in bound]

    def _is_signed(self, message: Message) -> bool:
        checker = self._node.driver.checker
        return checker is None or checker.is_signed(message)


def without_holes(messages: "list[Message]") -> tuple[Message, ...]:
    """The messages up to the first hole."""
    first = messages[0].seq
    count = next((index for index, one in enumerate(messages) if one.seq != first + index), len(messages))
    return tuple(messages[:count])
