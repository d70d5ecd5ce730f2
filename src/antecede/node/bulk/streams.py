"""Gives a bulk client messages that no home has at a position: the past of a partition, stream by stream.

A node that became a home of a partition has fetched its past (`past.homes`). It has those messages by stream and number
only. So has a reader that asks for them. The streams are merged by Lamport time, as for a feed (`past.replay`): a
message has a higher time than every message that it depends on. What this node lacks it reads from other nodes.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

import msgspec

from antecede.core import Message
from antecede.core.epochs import epoch_of
from antecede.core.errors import StoppedError
from antecede.core.partitions import message_name
from antecede.journal.blocks import encode_deliveries
from antecede.node.history import topic_of
from antecede.protocols.homes.records import PAGE_BYTES
from antecede.wire.bulk import PastPage, Piece, ReadPast
from antecede.wire.envelope import unmarked

if TYPE_CHECKING:
    from antecede.node.node import Node

#: Payload bytes that all streams of an answer hold together, about; and the least of one stream.
_BYTES: Final = 2 * 1024 * 1024
_STREAM_BYTES_MIN: Final = 8 * 1024


async def read_past(node: "Node", question: ReadPast, takes: Callable[[str], bool] | None) -> PastPage:
    """The first messages behind `had`, up to `until`, as many as make a page."""
    reached, until = dict(question.had), dict(question.until)
    lacking: list[tuple[int, int, int]] = []
    read: dict[int, deque[Message]] = {}
    wanted = [stream for stream, seq in until.items() if seq > reached.get(stream, 0)]
    share = min(PAGE_BYTES, max(_STREAM_BYTES_MIN, _BYTES // max(1, len(wanted))))

    async def fetch(stream: int) -> None:
        first = reached.get(stream, 0) + 1
        found = await node.past.read(stream, first, until[stream], bytes_max=share)
        read[stream] = deque(found.messages)
        if not found.messages and not found.certain:
            names = f"{message_name(stream, first)} to {message_name(stream, found.gone)}"
            remedy = "start those nodes, or remove them with `antecede cluster forget`"
            raise StoppedError(f"messages {names} may be at nodes that do not answer; {remedy}")
        if not found.messages:
            reached[stream] = found.gone
            if epoch_of(found.gone + 1) == epoch_of(first):  # else the numbers end there: the slot has another owner
                lacking.append((stream, first, found.gone))

    await asyncio.gather(*[fetch(stream) for stream in wanted])
    heap = [(messages[0].clock, stream) for stream, messages in read.items() if messages]
    heapify(heap)
    chosen: list[Message] = []
    while heap and not lacking:  # messages behind a lacking one may depend on it
        _, stream = heappop(heap)
        message = read[stream].popleft()
        reached[stream] = message.seq
        topic = topic_of(message)
        if topic is not None and (takes is None or takes(topic)):
            (payload,) = unmarked([message.payload])
            chosen.append(msgspec.structs.replace(message, payload=payload))
        if read[stream]:
            heappush(heap, (read[stream][0].clock, stream))
        elif message.seq < until[stream]:
            break  # its next message may come before those of the others
    piece = Piece(0, 0, encode_deliveries(chosen, {}), (0,) * len(chosen))
    return PastPage(tuple(sorted(reached.items())), (piece,) if chosen else (), tuple(sorted(lacking)))
