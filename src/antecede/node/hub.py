"""The hub gives a node's deliveries to its clients' feeds.

The driver hands every batch to the hub (`deliver`). The hub keeps the deliveries (`history`), finds the feeds whose
filters take each message, and wakes publications that waited for their predecessors. It is `jammed` when readers are so
far behind that the node must take no more messages.

Feeds of order `fifo` and `none`, and those with a maximum age, may be given messages before their turn (`early`).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from antecede.core import Message, Packet
from antecede.core.epochs import epoch_base, epoch_of, within_epoch
from antecede.core.partitions import split_stream
from antecede.journal.batch import Batch
from antecede.node.early import EarlyOffers
from antecede.node.feed import Feed
from antecede.node.history import Entry, Gap, History, MessageRun, add_run, runs_of, topic_of, topics_of
from antecede.node.predecessors import After, Predecessors
from antecede.node.turns import ThreadRest, Turns
from antecede.wire.topics import FilterMap
from antecede.wire.waiters import Waiters

#: Between two times that clients whose feeds took nothing are told how far they are.
_PROGRESS_S: Final = 10.0

#: A client with more feeds than this is given deliveries in turns (`turns`): others should not wait for all its feeds.
_FEEDS_AT_ONCE: Final = 8


@dataclass(slots=True)
class HubCounts:
    """Since the node started."""

    published: int = 0
    delivered: int = 0
    #: By partition, where there are several: messages delivered, and bytes of their payloads.
    partition_delivered: Counter[int] = field(default_factory=Counter)
    partition_bytes: Counter[int] = field(default_factory=Counter)
    #: The same of what was published here.
    partition_published: Counter[int] = field(default_factory=Counter)
    partition_published_bytes: Counter[int] = field(default_factory=Counter)
    #: Messages left out by the policy of a feed; and because they were older than its maximum age.
    dropped: int = 0
    late: int = 0
    #: Messages that waited for another before they were delivered, and how long altogether.
    held: int = 0
    held_us: int = 0
    #: Messages from peers that are no envelopes.
    foreign: int = 0
    #: Requests of clients that were refused, by kind.
    refused: Counter[str] = field(default_factory=Counter)

    def count_published(self, partition: int, messages: int, size: int) -> None:
        self.published += messages
        self.partition_published[partition] += messages
        self.partition_published_bytes[partition] += size

    def count_delivered(self, runs: list[MessageRun], messages: list[Message], *, partitions: int) -> None:
        self.delivered += len(messages)
        if partitions > 1:
            at = 0
            for stream, _, count in runs:
                partition = split_stream(stream)[0]
                self.partition_delivered[partition] += count
                self.partition_bytes[partition] += sum([len(one.payload) for one in messages[at : at + count]])
                at += count


class Hub:
    """Gives out the messages of all partitions. It tells messages of one number apart by their stream."""

    def __init__(self, history: History, delivered: dict[int, int], *, total: bool = False) -> None:
        """`total`: all nodes deliver in one order, so no feed may be given a message before its turn."""
        self.history = history
        self.partitions = history.partitions
        #: By stream: every message up to this one was delivered here or predates this node's join.
        self.delivered = delivered
        #: By stream: the last message that was delivered here.
        self.delivered_here: dict[int, int] = {}
        self.counts = HubCounts()
        self.total = total
        #: By stream: every message up to this one was delivered here or predates our join. Asked when one waits.
        self.settled: Callable[[], dict[int, int]] | None = None
        #: The protocol's `last_before`.
        self.seam: Callable[[str, int, int], int] = lambda topic, source, epoch: -1
        self.feeds: set[Feed] = set()
        #: What clients ask for in excess of a turn.
        self.turns = Turns()
        if history.journal is not None:
            history.journal.rest = ThreadRest(self.turns)
        self.on_jam: Callable[[bool], None] | None = None
        #: Called with every batch that delivers something, before feeds are offered its messages.
        self.watchers: list[Callable[[Batch], None]] = []
        self._by_filter: FilterMap[Feed] = FilterMap()
        self._touched: set[Feed] = set()
        self._behind: set[Feed] = set()
        self._predecessors = Predecessors(self.missing)
        self._jammed = False
        self._relieved = Waiters()
        self.early = EarlyOffers(self)
        # By first message: topics of runs that were published here and are not delivered yet.
        self._called: dict[tuple[int, int], list[str]] = {}

    @property
    def position(self) -> int:
        return self.history.position

    async def look_up_delivered(self) -> None:
        """Ask the journal for the last message of each stream that was delivered here."""
        journal, name = self.history.journal, self.partitions.stream_name
        assert journal is not None
        found = await journal.last_seqs([name(stream) for stream in self.delivered])
        self.delivered_here = {self.partitions.stream(*stream): seq for stream, seq in found.items()}

    def exclude_outside(self, stream: int) -> None:
        """Messages of this node's own that it published without taking their partition were not delivered here.

        Called when the node starts, for its stream in a partition that it does not take: the protocol counts them. When
        the node takes the partition, it lacks them like those of other nodes.
        """
        ends = [last for gap in self.history.gaps for at, _, last in gap.missing if at == stream]
        here = self.delivered_here.get(stream)
        if stream in self.delivered and (here is not None or not self.history.oldest):  # else retention has removed it
            self.delivered[stream] = min(self.delivered[stream], max(here or 0, *ends, 0))

    # -- what the driver brings ----------------------------------------------------------------------------------------

    def deliver(self, batch: Batch) -> None:
        """`Driver`'s application."""
        if not batch.deliveries:
            return
        self.early.release_due()
        messages = batch.deliveries
        topics, runs = self._names_of(messages)
        self.history.append(batch, topics, runs)
        self._show(batch)
        ends = [(stream, first + count - 1) for stream, first, count in runs]
        if batch.out_of_order:
            last = dict(sorted(ends))
            _raise(self.delivered, last)
            _raise(self.delivered_here, last)
        else:
            last = dict(ends)
            self.delivered.update(last)
            self.delivered_here.update(last)
        touched = self._touched
        for topic in dict.fromkeys(topics):
            if topic is None:
                self.counts.foreign += topics.count(None)
            else:
                touched.update([feed for feed in self._by_filter.matching(topic) if feed.live])
        late = [feed for feed in touched if feed.lagging or len(feed.session.feeds) > _FEEDS_AT_ONCE]
        for feed in touched.difference(late) if late else list(touched):
            feed.offer(batch.first)
        if late:
            counts = Counter(topics)
            for feed in late:
                feed.offer_later(batch.first, counts)
        self.counts.count_delivered(runs, messages, partitions=self.partitions.count)
        if batch.held_us:
            self.counts.held += len(batch.held_us)
            self.counts.held_us += sum(batch.held_us.values())
        if self.early.feeds:
            self.early.settle(self.partitions.streams(messages), messages)
        self.flush()
        self._trim()
        if self._predecessors.streams:
            # Where nodes settle numbers without a delivery, any stream may have moved.
            self._predecessors.wake(list(last if self.settled is None else self._predecessors.streams))

    def _show(self, batch: Batch) -> None:
        for watch in self.watchers:
            watch(batch)

    def called(self, stream: int, seq: int, topics: list[str]) -> None:
        """The topics of a run of messages that begins with this one and is about to be delivered."""
        self._called[stream, seq] = topics

    def _names_of(self, messages: list[Message]) -> tuple[list[str | None], list[MessageRun]]:
        """The topics of deliveries, and their ids."""
        called, stream_of = self._called, self.partitions.stream_of
        if not called:
            return topics_of(messages), runs_of(self.partitions.streams(messages), messages)
        topics: list[str | None] = []
        runs: list[MessageRun] = []
        at = 0
        while at < len(messages):
            message = messages[at]
            name = stream_of(message), message.seq
            known = called.pop(name, None)
            topics += [topic_of(message)] if known is None else known
            add_run(runs, (*name, len(topics) - at))
            at = len(topics)
        return topics, runs

    def ranges(self, stream: int, first: int, last: int) -> list[tuple[int, int, int]]:
        """The messages `first` to `last` of a stream, as (stream, first, last) for each owner of its slot.

        Where it is not known with which message a former owner ended, its range goes to the end of its numbers.
        """
        found = []
        for epoch in range(epoch_of(first), epoch_of(last)):
            end = self.seam(*self.partitions.stream_name(stream), epoch + 1)
            end = epoch_base(epoch + 1) if end < 0 else end
            if first <= end:
                found.append((stream, first, end))
            first = max(first, epoch_base(epoch + 1) + 1)
        return [*found, (stream, first, last)] if first <= last else found

    # -- feeds ---------------------------------------------------------------------------------------------------------

    def open(self, feed: Feed) -> None:
        self.feeds.add(feed)
        self._behind.add(feed)
        for pattern in feed.patterns:
            self._by_filter.add(pattern, feed)
        self.early.open(feed)
        feed.begin()

    def gap(
        self, batch: Batch, after: int, reached: dict[int, int], partition: int = 0, *, joined: bool = False
    ) -> Gap:
        """The node goes on behind messages that it never delivers, within `batch`, after so many of its deliveries.

        `reached`: by stream of `partition`, how far it is after the batch. `joined`: the node asked for the partition,
        and took it no earlier; that is a gap only if there were messages.
        """
        streams = self.partitions.streams(batch.deliveries)
        before = dict(self.delivered)
        for stream, message in zip(streams[:after], batch.deliveries, strict=False):
            before[stream] = message.seq
        for stream, message in reversed(list(zip(streams[after:], batch.deliveries[after:], strict=True))):
            if stream in reached:
                reached[stream] = message.seq - 1
        for stream, seq in reached.items():
            if epoch_of(seq) and not within_epoch(seq):  # the end of an epoch: its messages end before, as a rule
                ends = [last for _, _, last in self.ranges(stream, before.get(stream, 0) + 1, seq)]
                reached[stream] = max([before.get(stream, 0), *ends])
        missing = [self.ranges(stream, before.get(stream, 0) + 1, seq) for stream, seq in sorted(reached.items())]
        gap = Gap(batch.first - 1 + after, tuple(chain.from_iterable(missing)), partition, joined)
        if joined and not gap.missing:
            return gap
        self.history.add_gap(gap)
        _raise(self.delivered, reached)
        self.early.skip(reached)
        for feed in list(self.feeds):
            while feed.lagging and feed.take_offers():
                pass
            if feed.live and feed.minds(gap):  # others come to it as they read
                feed.end_at(gap)
        self._predecessors.wake(list(reached))
        return gap

    def widen(self, feed: Feed, pattern: str) -> None:
        """An open feed takes what `pattern` matches, too."""
        if feed in self.feeds:
            self._by_filter.add(pattern, feed)

    def narrow(self, feed: Feed, pattern: str) -> None:
        if feed in self.feeds:
            self._by_filter.remove(pattern, feed)

    def drop(self, feed: Feed) -> None:
        if feed in self.feeds:
            self.feeds.discard(feed)
            self._touched.discard(feed)
            self.early.close(feed)
            for pattern in feed.patterns:
                self._by_filter.remove(pattern, feed)
            self.caught_up(feed)

    async def keep_telling_progress(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_S)
            self.tell_progress()

    def tell_progress(self) -> None:
        """Tell clients whose feeds took nothing lately how far they are."""
        for feed in self.feeds:
            feed.tell_progress()

    def fell_behind(self, feed: Feed) -> None:
        self._behind.add(feed)

    def caught_up(self, feed: Feed) -> None:
        self._behind.discard(feed)
        if self._jammed:
            self._trim()

    # -- readers that lag ----------------------------------------------------------------------------------------------

    async def relieved(self) -> None:
        """Return when the node may take new messages: mostly at once."""
        while self._jammed:
            await self._relieved.wait()

    @property
    def jammed(self) -> bool:
        return self._jammed

    def moved(self) -> None:
        """A reader has read: memory may be given up."""
        if self._jammed:
            self._trim()

    def _trim(self) -> None:
        excess = self.history.excess
        if excess and self.history.journal is None:
            owed = [feed.position for feed in self._behind if feed.policy == "block"]
            excess = min([excess, *[position + 1 - self.history.first for position in owed]])
        if excess > 0:
            self.history.forget(excess)
        jammed = self.history.excess > 0
        if jammed != self._jammed:
            self._jammed = jammed
            if self.on_jam is not None:
                self.on_jam(jammed)
            if not jammed:
                self._relieved.release()

    # -- publications that wait ----------------------------------------------------------------------------------------

    def has(self, after: After) -> bool:
        """Was all of this delivered here?"""
        return self.missing(after) is None

    def missing(self, after: After) -> tuple[int, int] | None:
        """The first of these messages that was not delivered here; None: all were."""
        delivered = self.delivered
        lacking = [one for one in after if delivered.get(one[0], 0) < one[1]]
        if lacking and self.settled is not None:
            settled = self.settled()  # before this node's time, and not told to it by any delivery
            lacking = [one for one in lacking if settled.get(one[0], 0) < one[1]]
        return lacking[0] if lacking else None

    @property
    def awaited(self) -> set[int]:
        """The partitions in which publications wait for a delivery."""
        return {split_stream(stream)[0] for stream in self._predecessors.streams}

    def when_delivered(self, after: After, do: Callable[[], None]) -> Callable[[], None]:
        """Call `do` once all of `after` was delivered here, which it was not yet. Calling the result withdraws."""
        return self._predecessors.add(after, do)

    # -- messages before their turn ------------------------------------------------------------------------------------

    def arrived(self, packets: Iterable[Packet]) -> None:
        """Packets that arrived, before the protocol has put their messages in order."""
        if self.early.feeds and not self.total:
            self.early.arrived(packets)

    def offer_early(self, entry: Entry, feeds: Iterable[Feed]) -> None:
        """Offer a message to these feeds before its turn."""
        for feed in feeds:
            feed.offer_early(entry)
            self._touched.add(feed)

    def matching(self, topic: str) -> Iterable[Feed]:
        """The feeds that take a topic."""
        return self._by_filter.matching(topic)

    def flush(self) -> None:
        """Hand the messages that feeds have gathered to their sessions."""
        touched, self._touched = self._touched, set()
        for feed in touched:
            feed.flush()
        for session in {feed.session for feed in touched}:
            session.flush()  # now: readers should not wait for another turn of the loop


def _raise(levels: dict[int, int], reached: dict[int, int]) -> None:
    for stream, seq in reached.items():
        levels[stream] = max(seq, levels.get(stream, 0))
