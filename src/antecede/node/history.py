"""The deliveries of a node, as feeds read them: recent ones from memory, older ones from the journal.

Memory holds the last `entries_max` deliveries or `bytes_max` of payload, whichever is less, once for all feeds. So a
feed is only a position, and costs nothing while its reader lags. A reader that falls out of memory reads pages of the
journal until it has caught up. Without a journal, memory is all there is: the node holds its publishers back rather
than forget messages that a reader with policy "block" has not read (`Hub.jammed`); other readers are told of the gap.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from antecede.core import Message, ProtocolError
from antecede.core.errors import GapError
from antecede.core.partitions import Partitions, message_name, split_stream
from antecede.journal import Journal
from antecede.journal.batch import Batch
from antecede.journal.joins import Join
from antecede.journal.lookup import Stretch
from antecede.wire.envelope import label, unmarked

T = TypeVar("T")

#: Deliveries of one page of the journal, about.
_PAGE: Final = 256
#: Positions of one block of memory.
_BLOCK: Final = 512

_encode = msgspec.msgpack.Encoder().encode

#: The columns of no message (`History.columns`).
NO_COLUMNS: Final = b"".join(map(_encode, ((), (), (), {}, {}, ())))


class Entry(NamedTuple):
    """One delivery, where messages go one by one: in queues, ahead of their turn, and from the journal."""

    position: int
    message: Message
    #: The stream of the message (`core.partitions`).
    stream: int
    held_us: int
    #: The topic its application gave it; None for a message that is no envelope: no feed takes it.
    topic: str | None
    #: It came too late to be delivered in order.
    out_of_order: bool = False


def topics_of(messages: Sequence[Message]) -> list[str | None]:
    try:
        return [label(message.payload) for message in messages]
    except ProtocolError:
        return [topic_of(message) for message in messages]


def topic_of(message: Message) -> str | None:
    try:
        return label(message.payload)
    except ProtocolError:
        return None


#: The ids of messages that follow each other: (stream, first sequence number, how many).
MessageRun: TypeAlias = tuple[int, int, int]


def runs_of(streams: Sequence[int], messages: Sequence[Message]) -> list[MessageRun]:
    """The ids of messages as runs."""
    runs: list[MessageRun] = []
    stream, first, count = streams[0], messages[0].seq, 0
    for at, message in zip(streams, messages, strict=True):
        if at == stream and message.seq == first + count:
            count += 1
        else:
            runs.append((stream, first, count))
            stream, first, count = at, message.seq, 1
    return [*runs, (stream, first, count)]


def add_run(runs: list[MessageRun], run: MessageRun) -> None:
    """Add a run behind others, so that none of them could be joined with the next."""
    if runs:
        stream, first, count = runs[-1]
        if run[0] == stream and run[1] == first + count:
            runs[-1] = (stream, first, count + run[2])
            return
    runs.append(run)


def cut_runs(runs: Iterable[MessageRun], at: int, count: int) -> list[MessageRun]:
    """The runs of `count` of the messages, from index `at` on."""
    found: list[MessageRun] = []
    for stream, first, length in runs:
        if at >= length:
            at -= length
            continue
        some = min(length - at, count)
        found.append((stream, first + at, some))
        count -= some
        if not count:
            break
        at = 0
    return found


class Gap(NamedTuple):
    """Messages that this node never delivers: it was away for longer than any node keeps them."""

    #: That of the last delivery before the gap.
    position: int
    #: (stream, first, last) of the messages; nothing: it was before the node's present life.
    missing: tuple[tuple[int, int, int], ...]
    #: The partition of the messages.
    partition: int = 0
    #: The node took the partition from here on, as it was asked to. Earlier messages are at the partition's homes.
    joined: bool = False

    def lacked_by(self, had: Mapping[int, int]) -> bool:
        """Does a reader who has had these messages, by stream, lack some of the gap's?"""
        return not self.missing or any(last > had.get(at, 0) for at, _, last in self.missing)

    def as_join(self, name: str) -> Join:
        """The same for the journal; `name` is that of the partition."""
        missing = tuple([(split_stream(stream)[1], first, last) for stream, first, last in self.missing])
        return Join(name, self.position, again=False, asked=self.joined, missing=missing)

    def in_words(self) -> str:
        some = ", ".join([f"{message_name(at, one)} to {message_name(at, two)}" for at, one, two in self.missing[:5]])
        more = f" and of {len(self.missing) - 5} more nodes" if len(self.missing) > 5 else ""
        what = f"messages {some}{more}" if self.missing else "messages"
        if self.joined:
            return (
                f"{what} behind position {self.position} were never delivered here: the node took the partition later"
            )
        return f"{what} behind position {self.position} were never delivered here: no node kept them for long enough"


def known_gaps(joins: Sequence[Join], partitions: Partitions) -> list[Gap]:
    """The gaps of earlier lives, from the joins that the journal knows."""
    number, stream = partitions.number, partitions.stream
    if partitions.count == 1:
        return [Gap(join.position, ()) for join in joins if join.again and number(join.topic) == 0]
    return [
        Gap(
            join.position,
            tuple([(stream(join.topic, source), first, last) for source, first, last in join.missing or ()]),
            number(join.topic),
            join.asked,
        )
        for join in joins
        if number(join.topic) >= 0 and join.missing != ()
    ]


class History:
    """Deliveries by position. Memory holds them as columns, which cost the garbage collector nothing."""

    def __init__(
        self,
        journal: Journal | None,
        position: int,
        *,
        partitions: Partitions,
        entries_max: int,
        bytes_max: int,
    ) -> None:
        self.journal = journal
        self.partitions = partitions
        #: Where deliveries do not follow each other, oldest first.
        self.gaps: list[Gap] = []
        #: By stream: the last message that this node lacks, in a cluster with several partitions.
        self.lacks: dict[int, int] = {}
        #: The last delivery.
        self.position = position
        self._messages: list[Message] = []
        self._topics: list[str | None] = []
        #: By position: the hold time of deliveries that had one.
        self._held_us: dict[int, int] = {}
        #: Positions of deliveries that came out of order.
        self._tagged: set[int] = set()
        #: For each delivery: the bytes of all payloads up to it, ever.
        self._ends: list[int] = []
        self._forgotten = 0
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        # The first position and the ids of the last deliveries.
        self._last_runs: tuple[int, Sequence[MessageRun]] = (position + 1, ())
        # Pieces encoded since the last delivery: all readers that keep up are given the same ones.
        self._pieces: dict[tuple[int, int], bytes] = {}
        # By number of a block of positions: what `_firsts` found in it. Feeds that begin in the past look through
        # memory, and should not look at every message each time.
        self._block_firsts: dict[int, dict[int, int]] = {}

    @property
    def first(self) -> int:
        """The first position in memory."""
        return self.position - len(self._messages) + 1

    def add_gap(self, gap: Gap) -> None:
        self.gaps.append(gap)
        if self.partitions.count > 1:
            self.lacks.update({stream: max(last, self.lacks.get(stream, 0)) for stream, _, last in gap.missing})

    def gaps_from(self, position: int, first: int = 0) -> list[Gap]:
        """The gaps behind `position` or later, but for the first so many of all."""
        if not self.gaps or self.gaps[-1].position < position:
            return []
        return [gap for gap in self.gaps[first:] if gap.position >= position]

    def append(self, batch: Batch, topics: list[str | None], runs: Sequence[MessageRun]) -> None:
        """Take the deliveries of a batch, with their topics and their ids."""
        self._last_runs = batch.first, runs
        messages = batch.deliveries
        self._ends += accumulate([len(message.payload) for message in messages], initial=self._end)
        del self._ends[-len(messages) - 1]
        self._messages += messages
        self._topics += topics
        if self.journal is not None:
            self.journal.note_topics(batch.first, topics)
        for index, held_us in batch.held_us.items():
            self._held_us[batch.first + index] = held_us
        self._tagged.update([batch.first + index for index in batch.out_of_order])
        self.position += len(messages)
        self._pieces.clear()

    @property
    def _end(self) -> int:
        return self._ends[-1] if self._ends else self._forgotten

    @property
    def excess(self) -> int:
        """How many entries memory should give up. They go in large steps: shortening a list costs its length."""
        count = len(self._messages)
        if count > 2 * self._entries_max:
            return count - self._entries_max
        if self._end - self._forgotten > self._bytes_max and count > 1:
            return (count + 1) // 2
        return 0

    def forget(self, count: int) -> None:
        if count <= 0:
            return
        self._forgotten = self._ends[count - 1]
        first = self.first + count
        if self._held_us:
            self._held_us = {position: held for position, held in self._held_us.items() if position >= first}
        if self._tagged:
            self._tagged = {position for position in self._tagged if position >= first}
        self._block_firsts = {at: found for at, found in self._block_firsts.items() if at * _BLOCK >= first}
        del self._messages[:count]
        del self._topics[:count]
        del self._ends[:count]

    def topics(self, after: int, limit: int) -> list[str | None] | None:
        """The topics of up to `limit` deliveries after position `after`; None if memory does not reach back so far."""
        at = after + 1 - self.first
        return None if at < 0 else self._topics[at : at + limit]

    def recent(self, after: int, limit: int) -> list[Entry] | None:
        """Up to `limit` entries after position `after`, from memory; None if memory does not reach back so far."""
        at = after + 1 - self.first
        if at < 0:
            return None
        end = min(at + limit, len(self._messages))
        return [self._entry(index) for index in range(at, end)]

    def _entry(self, at: int) -> Entry:
        position = self.first + at
        held_us = self._held_us.get(position, 0)
        message = self._messages[at]
        stream = self.partitions.stream_of(message)
        return Entry(position, message, stream, held_us, self._topics[at], position in self._tagged)

    def entry(self, position: int) -> Entry:
        """One that is in memory."""
        return self._entry(position - self.first)

    def piece(self, first: int, count: int, bytes_full: int) -> tuple[bytes, int]:
        """The columns of `wire.requests.Items`, encoded, for deliveries in memory from position `first` on; and how
        many those are: `count`, or fewer if that would be more than about `bytes_full` bytes."""
        at = first - self.first
        before = self._ends[at - 1] if at else self._forgotten
        if self._ends[at + count - 1] - before > bytes_full:
            count = max(1, bisect_right(self._ends, before + bytes_full, at, at + count) - at)
        piece = self._pieces.get((first, count))
        if piece is None:
            messages = self._messages[at : at + count]
            held_us = {}
            if self._held_us:
                held_us = {index: held for index in range(count) if (held := self._held_us.get(first + index))}
            tagged = [index for index in range(count) if first + index in self._tagged] if self._tagged else []
            last, runs = self._last_runs
            if first >= last:
                ids = cut_runs(runs, first - last, count)
            else:
                ids = runs_of(self.partitions.streams(messages), messages)
            piece = self._pieces[first, count] = self._columns(messages, [(first, count)], ids, held_us, tagged)
        return piece, count

    def columns(self, entries: Sequence[Entry]) -> bytes:
        """The columns of `wire.requests.Items`, encoded, for deliveries whose positions may have gaps between them."""
        positions: list[tuple[int, int]] = []
        for entry in entries:
            at, count = positions[-1] if positions else (-1, 0)
            if entry.position == (at + count if at else 0):
                positions[-1] = (at, count + 1)
            else:
                positions.append((entry.position, 1))
        held_us = {index: entry.held_us for index, entry in enumerate(entries) if entry.held_us}
        tagged = [index for index, entry in enumerate(entries) if entry.out_of_order]
        messages = [entry.message for entry in entries]
        return self._columns(
            messages, positions, runs_of([entry.stream for entry in entries], messages), held_us, tagged
        )

    def _columns(
        self,
        messages: Sequence[Message],
        positions: list[tuple[int, int]],
        ids: list[tuple[int, int, int]],
        held_us: dict[int, int],
        out_of_order: list[int],
    ) -> bytes:
        named = self.partitions.dependencies
        deps = {index: named(one) for index, one in enumerate(messages) if one.deps or one.across}
        payloads = unmarked([message.payload for message in messages])
        return b"".join(map(_encode, (payloads, positions, ids, deps, held_us, out_of_order)))

    async def older(
        self, after: int, matches: Callable[[str], bool], filters: Collection[str]
    ) -> tuple[list[Entry], int]:
        """A page of the journal: entries that match, and how far it reached. Raises `GapError`.

        `filters`: those of which `matches` is true if one takes the topic.
        """
        if self.journal is None:
            raise GapError(after, self.first)

        def wanted(message: Message) -> bool:
            topic = topic_of(message)
            return topic is not None and matches(topic)

        page = await self.journal.read(after, limit=_PAGE, matches=wanted, filters=filters)
        streams = self.partitions.streams([item.message for item in page.items])
        return [
            Entry(item.position, item.message, stream, item.held_us, topic_of(item.message), item.out_of_order)
            for stream, item in zip(streams, page.items, strict=True)
        ], page.position

    async def reached_at(self, position: int, delivered: Mapping[int, int]) -> dict[int, int]:
        """By stream: the last message at or before `position`. `delivered`: the same for the present position.

        A message may be there in number only: delivered before this node joined, or removed by retention.
        """
        last = self.position
        if position >= last:
            return dict(delivered)
        at = position + 1 - self.first
        if at >= 0:
            later = self._first_from(position + 1)
        elif self.journal is not None:
            later = self._by_stream(await self.journal.first_after(position, last))
        else:
            raise GapError(position, self.first)
        return {stream: min(seq, later.get(stream, seq + 1) - 1) for stream, seq in delivered.items()}

    async def read_at(self, position: int, delivered: Mapping[int, int], partitions: Collection[int]) -> dict[int, int]:
        """`reached_at` for a reader of these partitions: it has not had what this node lacks behind the position."""
        levels = await self.reached_at(position, delivered)
        gaps = [gap for gap in self.gaps_from(position) if gap.partition in partitions]
        for stream, first, _ in chain.from_iterable([gap.missing for gap in gaps]):
            # Lower where the node delivered messages of the stream between the position and the gap.
            levels[stream] = min(first - 1, levels.get(stream, first - 1))
        return levels

    def _first_from(self, position: int) -> dict[int, int]:
        """By stream: the number of its first message in memory at or behind `position`."""
        block = -(-position // _BLOCK)
        found = self._firsts(position, block * _BLOCK)
        while (block + 1) * _BLOCK <= self.position + 1:
            whole = self._block_firsts.get(block)
            if whole is None:
                whole = self._block_firsts[block] = self._firsts(block * _BLOCK, (block + 1) * _BLOCK)
            found = whole | found
            block += 1
        return self._firsts(block * _BLOCK, self.position + 1) | found

    def _firsts(self, begin: int, end: int) -> dict[int, int]:
        """By stream: the number of its first message at positions from `begin` on and before `end`."""
        messages = self._messages[begin - self.first : max(end - self.first, 0)]
        messages.reverse()  # the first one is the last to be put
        return dict(zip(self.partitions.streams(messages), [message.seq for message in messages], strict=True))

    async def locate(self, wanted: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """Of each stream, the first message with at least this number: its number, and a position before it.

        A stream of which there is none is left out.
        """
        if self.journal is not None and self.journal.removed < self.first:
            name = self.partitions.stream_name
            return self._by_stream(await self.journal.locate({name(stream): seq for stream, seq in wanted.items()}))
        found: dict[int, tuple[int, int]] = {}
        for position, stream in enumerate(self.partitions.streams(self._messages), self.first):
            seq = self._messages[position - self.first].seq
            if seq >= wanted.get(stream, seq + 1):
                found.setdefault(stream, (seq, position - 1))
        return found

    async def stretch(self, stream: int, first: int, last: int, *, bytes_max: int) -> Stretch:
        """The messages `first` to `last` of a stream that this node has, about `bytes_max` bytes of them."""
        name, source = self.partitions.stream_name(stream)
        if self.journal is not None:
            return await self.journal.stretch(name, source, first, last, bytes_max=bytes_max)
        found = [
            one for one in self._messages if one.source == source and one.topic == name and first <= one.seq <= last
        ]
        sizes = accumulate([len(one.payload) for one in found], initial=0)
        some = [one for one, before in zip(found, sizes, strict=False) if before < bytes_max]
        return Stretch(some, some[-1].seq if len(some) < len(found) else last)

    def _by_stream(self, found: Mapping[tuple[str, int], T]) -> dict[int, T]:
        """What the journal says by topic and source. A topic that is no partition is left out."""
        known, stream = self.partitions.number, self.partitions.stream
        return {stream(*name): value for name, value in found.items() if known(name[0]) >= 0}

    @property
    def oldest(self) -> int:
        """The last position that cannot be read any more: neither memory nor journal has it."""
        return self.first - 1 if self.journal is None else min(self.first - 1, self.journal.removed)
