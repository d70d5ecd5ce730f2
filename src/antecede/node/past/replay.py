"""Gives a feed the past of its partitions in causal order, where this node does not have all of it.

The past is a set of messages: of each stream of the feed's partitions, those that the reader has not had, up to the
*cut*. The cut is what this node has delivered when it is at some position. So the feed goes on at that position, and
there is no seam.

Each stream is read in order, from this node's history or from another node (`reading`). The streams are merged by
Lamport time: a message has a higher time than every message that it depends on. So the merged order is causal.

**The cut must be closed**: it must hold every message, of these partitions, on which one of its messages depends.
Messages that this node delivered have that property. Messages from before it took a partition may depend on messages of
another partition which this node takes and has not delivered yet. They name them (`Message.across`); a dependency that
they leave out is stable, so this node has delivered it. When such a message is next, the replay waits until this node
has delivered what it names, and takes the cut anew. The new cut adds messages on which nothing before them depends:
what was given out named only messages within the old cut.
"""

import asyncio
from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from antecede.core import Message
from antecede.core.epochs import epoch_of
from antecede.core.errors import GapError
from antecede.core.partitions import message_name, split_stream
from antecede.node.history import Entry, topic_of
from antecede.node.past.reading import PastReader
from antecede.protocols.homes.reading import Found

if TYPE_CHECKING:
    from antecede.node.feed import Feed

#: Payload bytes that all streams of a replay hold together, about; and the bounds of one page.
_BYTES: Final = 4 * 1024 * 1024
_PAGE_MIN: Final = 8 * 1024
_PAGE_MAX: Final = 256 * 1024

#: Streams whose first pages are read at a time.
_AT_ONCE: Final = 16

#: Messages given out before others get a turn.
_TURN: Final = 64


class Replay:
    """The past of one feed."""

    def __init__(self, feed: "Feed", reader: PastReader, had: dict[int, int], *, skip: bool) -> None:
        """`had`: by stream, the last message that the reader has had. `skip`: leave out messages that are gone.

        A feed of all there is leaves them out too; but if no home answers, its reader is told that they are missing.
        """
        self._feed = feed
        self._hub = feed.hub
        self._reader = reader
        self._skip = skip
        #: By stream: the next message to read, and those that were read and not given out yet.
        self._next: dict[int, int] = {}
        self._read: dict[int, deque[Message]] = {}
        self._had = had
        #: (Lamport time, stream) of the first message that was read of each stream.
        self._heap: list[tuple[int, int]] = []
        self._page = _PAGE_MAX
        self.cut: dict[int, int] = {}
        #: Where this node was when the cut was taken.
        self.position = 0

    async def run(self) -> None:
        """Give out the past. Raises `GapError` for messages that are gone."""
        await self._take_cut()
        feed, partitions = self._feed, self._hub.partitions
        given = 0
        while self._heap and not feed.closed:
            _, stream = self._heap[0]
            message = self._read[stream][0]
            wanted = tuple([one for one in partitions.dependencies(message) if self._beyond(*one)])
            if wanted:
                feed.flush()
                await self._delivered(wanted)
                await self._take_cut()
                continue
            topic = topic_of(message)
            if topic is not None and feed.takes(topic):
                await feed.room_for_past()
                feed.give_past(Entry(0, message, stream, 0, topic))
            heappop(self._heap)
            self._read[stream].popleft()
            await self._prepare(stream)
            given += 1
            if given % _TURN == 0:
                feed.flush()
                await asyncio.sleep(0)
        feed.flush()

    def _beyond(self, stream: int, seq: int) -> bool:
        """Is this a message of the feed's partitions behind the cut?"""
        return seq > self.cut.get(stream, 0) and split_stream(stream)[0] in self._feed.partitions

    async def _delivered(self, wanted: tuple[tuple[int, int], ...]) -> None:
        """Return when this node has delivered these messages."""
        if self._hub.missing(wanted) is not None:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            withdraw = self._hub.when_delivered(wanted, lambda: done.set_result(None))
            try:
                await done
            finally:
                withdraw()

    async def _take_cut(self) -> None:
        """The past goes as far as this node has come."""
        mine = self._feed.partitions
        self.cut = {stream: seq for stream, seq in self._hub.delivered.items() if split_stream(stream)[0] in mine}
        self.position = self._hub.position
        todo = [stream for stream, seq in self.cut.items() if self._ready(stream) and self._first(stream) <= seq]
        self._page = min(_PAGE_MAX, max(_PAGE_MIN, _BYTES // max(1, len(self.cut))))
        for at in range(0, len(todo), _AT_ONCE):
            await asyncio.gather(*[self._prepare(stream) for stream in todo[at : at + _AT_ONCE]])

    def _ready(self, stream: int) -> bool:
        """Is no message of this stream in hand?"""
        return not self._read.get(stream)

    def _first(self, stream: int) -> int:
        return self._next.get(stream, self._had.get(stream, 0) + 1)

    async def _prepare(self, stream: int) -> None:
        """Have the next message of this stream in hand, if there is one within the cut."""
        read = self._read.setdefault(stream, deque())
        last = self.cut[stream]
        while not read and self._first(stream) <= last and not self._feed.closed:
            first = self._first(stream)
            found = await self._reader.read(stream, first, last, bytes_max=self._page)
            read += found.messages
            self._next[stream] = found.messages[-1].seq + 1 if found.messages else found.gone + 1
            if not found.messages and epoch_of(found.gone + 1) == epoch_of(first) and not self._passes_over(found):
                raise _gap(stream, first, found)
        if read:
            heappush(self._heap, (read[0].clock, stream))

    def _passes_over(self, found: Found) -> bool:
        """Does the feed go on behind messages that are gone?"""
        return self._skip or (self._feed.from_oldest and found.answered)


def _gap(stream: int, first: int, found: Found) -> GapError:
    name, last = message_name(stream, first), message_name(stream, found.gone)
    what = f"message {name} is" if name == last else f"messages {name} to {last} are"
    why = "no node has them any more" if found.certain else "the nodes that may have them do not answer"
    remedy = "open the feed again with over_gaps=True to read on behind them"
    return GapError(0, 0, ((stream, first, found.gone),), text=f"{what} missing: {why}; {remedy}")
