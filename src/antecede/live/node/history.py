"""What a node has delivered, as feeds read it: the recent part from memory, the rest from the journal.

Memory holds the last `entries_max` deliveries or `bytes_max` of payload, whichever is less, once for all feeds. So a
feed is a position and costs nothing while its reader lags; who falls out of memory reads pages of the journal until it
has caught up. Without a journal, memory is all there is: the node holds its publishers back rather than forget what a
reader that was promised everything has not read yet (`Hub.jammed`), and for the others a gap is said to be one.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from antecede.core import Message, ProtocolError
from antecede.live.batch import Batch
from antecede.live.envelope import label
from antecede.live.errors import GapError
from antecede.live.journal import Journal

#: Deliveries of one page of the journal, about.
_PAGE: Final = 256

_encode = msgspec.msgpack.Encoder().encode


class Entry:
    """A delivery. What goes to clients is encoded once, whoever takes it."""

    __slots__ = ("_raw", "held_us", "message", "position", "topic")

    def __init__(self, position: int, message: Message, held_us: int) -> None:
        self.position = position
        self.message = message
        self.held_us = held_us
        #: What the application called it; None for what is not an envelope, which nobody takes.
        self.topic = topic_of(message)
        self._raw = b""

    def raw(self) -> bytes:
        """As `client.records.Item`."""
        raw = self._raw
        if not raw:
            message = self.message
            raw = self._raw = _encode(
                (self.position, message.source, message.seq, message.payload, message.deps, self.held_us)
            )
        return raw


def topic_of(message: Message) -> str | None:
    try:
        return label(message.payload)
    except ProtocolError:
        return None


class History:
    """Deliveries by position."""

    def __init__(self, journal: Journal | None, position: int, *, entries_max: int, bytes_max: int) -> None:
        self.journal = journal
        #: The last delivery.
        self.position = position
        self._entries: list[Entry] = []
        self._bytes = 0
        self._entries_max = entries_max
        self._bytes_max = bytes_max

    @property
    def first(self) -> int:
        """The first position in memory."""
        return self.position - len(self._entries) + 1

    def append(self, batch: Batch) -> list[Entry]:
        held = batch.held_us
        entries = [
            Entry(batch.first + index, message, held.get(index, 0)) for index, message in enumerate(batch.deliveries)
        ]
        self._entries += entries
        self._bytes += sum([len(message.payload) for message in batch.deliveries])
        self.position += len(entries)
        return entries

    @property
    def excess(self) -> int:
        """How many entries are too many for memory. They go in large steps: shortening a list costs its length."""
        count = len(self._entries)
        if count > 2 * self._entries_max:
            return count - self._entries_max
        if self._bytes > self._bytes_max and count > 1:
            return (count + 1) // 2
        return 0

    def forget(self, count: int) -> None:
        self._bytes -= sum([len(entry.message.payload) for entry in self._entries[:count]])
        del self._entries[:count]

    def recent(self, after: int, limit: int) -> list[Entry] | None:
        """Up to `limit` entries after position `after`, from memory; None when memory does not reach back so far."""
        at = after + 1 - self.first
        if at < 0:
            return None
        return self._entries[at : at + limit]

    async def older(self, after: int, matches: Callable[[str], bool]) -> tuple[list[Entry], int]:
        """A page of the journal: entries that match, and how far it reached. Raises `GapError`."""
        if self.journal is None:
            raise GapError(after, self.first)

        def wanted(message: Message) -> bool:
            topic = topic_of(message)
            return topic is not None and matches(topic)

        page = await self.journal.read(after, limit=_PAGE, matches=wanted)
        return [Entry(item.position, item.message, item.held_us) for item in page.items], page.position

    @property
    def oldest(self) -> int:
        """The last position that cannot be read any more."""
        return self.first - 1 if self.journal is None else self.journal.removed
