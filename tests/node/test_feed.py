"""What a reader gets of what is delivered, whatever room it has and when: all that matches, once, in order."""

import asyncio
import gc
import random
import warnings
from pathlib import Path
from typing import cast

import msgspec
import pytest

from antecede import Node, StoppedError
from antecede.core import Message
from antecede.core.partitions import Partitions
from antecede.journal.batch import Batch
from antecede.node.feed import Feed
from antecede.node.history import History
from antecede.node.hub import Hub
from antecede.node.session import Session
from antecede.node.shares import Pool, Share
from antecede.protocols.vcube_ps.packets import Pub
from antecede.wire.envelope import seal
from antecede.wire.requests import TO_CLIENT, Ended, FromNode, Items, Order, Policy, Subscribe
from tests.client.running import awaited

FILTERS = ("a", "b/#")
TOPICS = ("a", "b/1", "c")


class Reader:
    """Stands for a session: takes what the feed sends apart."""

    def __init__(self) -> None:
        self.can_write = True
        self.feeds: dict[int, Feed] = {}
        self.items: list[tuple[int, Message, int]] = []
        self.pieces: list[bytes] = []
        self.dropped = 0
        self.sent: list[FromNode] = []
        self.client = self
        self.feeds_share = Share(Pool(), 1 << 30)
        self.feeds_share.add(1 << 20)
        self.window_share = Share(Pool(), 1 << 30)

    def send(self, record: FromNode) -> None:
        self.sent.append(record)

    def flush(self) -> None: ...

    def send_items(self, feed: int, dropped: int, piece: bytes) -> None:
        body = b"\x91\x99\xa1m" + msgspec.msgpack.encode(feed) + msgspec.msgpack.encode(dropped) + piece
        (record,) = TO_CLIENT.decode(body)
        assert isinstance(record, Items)
        self.pieces.append(piece)
        self.dropped += dropped
        positions = [at + one if at else 0 for at, count in record.positions for one in range(count)]
        names = [(source, seq + one) for source, seq, count in record.ids for one in range(count)]
        assert len(positions) == len(names) == len(record.payloads)
        for index, (position, name, payload) in enumerate(zip(positions, names, record.payloads, strict=True)):
            message = Message("main", *name, record.deps.get(index, ()), payload)
            self.items.append((position, message, record.held_us.get(index, 0)))


class World:
    """Deliveries of two sources on three topics, drawn at random, and one feed of two of them."""

    def __init__(self, seed: int, order: Order, policy: Policy) -> None:
        self.draw = random.Random(seed)
        self.hub = Hub(History(None, 0, partitions=Partitions(1, 2, "main"), entries_max=40, bytes_max=1 << 20), {})
        self.reader = Reader()
        wanted = Subscribe(1, FILTERS, 8, order=order, policy=policy)
        self.feed = Feed(cast(Session, self.reader), self.hub, wanted)
        self.reader.feeds[1] = self.feed
        self.hub.open(self.feed)
        self.seqs = [0, 0]
        self.expected: list[tuple[int, Message, int]] = []

    def message(self) -> Message:
        source = self.draw.randrange(2)
        self.seqs[source] += 1
        deps = ((1 - source, self.seqs[1 - source]),) if self.draw.random() < 0.2 and self.seqs[1 - source] else ()
        body = bytes(self.draw.choice((1, 10, 30_000)))
        payload = seal(self.draw.choice(TOPICS), body, time_us=1) if self.draw.random() < 0.95 else b"foreign"
        return Message("main", source, self.seqs[source], deps, payload)

    def deliver(self, messages: list[Message]) -> None:
        first = self.hub.position + 1
        held = {index: 7 for index in range(len(messages)) if self.draw.random() < 0.1}
        for index, message in enumerate(messages):
            topic = "" if message.payload == b"foreign" else msgspec.msgpack.decode(message.payload)[0]
            if topic in ("a", "b/1"):
                self.expected.append((first + index, message, held.get(index, 0)))
        self.hub.deliver(Batch(first=first, time_us=1, deliveries=messages, changes=[], held_us=held))

    def credit(self, count: int) -> None:
        self.feed.credit = min(self.feed.credit + count, self.feed.window)
        self.feed.room()
        self.hub.moved()

    async def rest(self) -> None:
        """Room enough for all that is left."""
        self.reader.can_write = True
        for _ in range(1000):
            self.credit(8)
            await asyncio.sleep(0)
            if self.feed.live and self.feed.position >= self.expected[-1][0] and not self.feed._queue:
                break


@pytest.mark.parametrize("seed", range(40))
def test_a_reader_that_is_owed_everything_gets_everything_once_and_in_order(seed: int) -> None:
    async def play() -> None:
        world = World(seed, "causal", "block")
        for _ in range(120):
            what = world.draw.random()
            if what < 0.5 and not world.hub.jammed:
                world.deliver([world.message() for _ in range(world.draw.choice((1, 2, 5, 30)))])
            elif what < 0.8:
                world.credit(world.draw.randint(1, 8))
            else:
                world.reader.can_write = not world.reader.can_write
                world.feed.room()
            await asyncio.sleep(0)
        await world.rest()
        assert world.reader.items == world.expected

    asyncio.run(play())


@pytest.mark.parametrize("seed", range(40))
def test_a_reader_from_another_node_gets_what_it_has_not_read(seed: int) -> None:
    """It may have read more than this node has delivered, or less, of each source; and it has little room."""

    async def play() -> None:
        world = World(seed, "causal", "block")
        world.feed.close()
        world.deliver([world.message() for _ in range(world.draw.randint(1, 30))])
        for source in (0, 1):
            world.hub.delivered.setdefault(source, 0)
        seen = {source: world.draw.randint(0, world.seqs[source] + 8) for source in (0, 1)}
        wanted = Subscribe(1, FILTERS, 4, 0, seen=tuple(seen.items()))
        world.feed = Feed(cast(Session, world.reader), world.hub, wanted)
        world.reader.feeds[1] = world.feed
        world.hub.open(world.feed)
        for _ in range(40):
            if world.draw.random() < 0.5:
                world.deliver([world.message() for _ in range(world.draw.choice((1, 2, 5)))])
            else:
                world.credit(world.draw.randint(1, 4))
            await asyncio.sleep(0)
        await world.rest()
        unread = [item for item in world.expected if item[1].seq > seen[item[1].source]]
        assert world.reader.items == unread

    asyncio.run(play())


@pytest.mark.parametrize(
    ("seen", "read", "missing"),
    [(3, [4, 5], None), (5, [], ((0, 6, 20),)), (10, [], ((0, 11, 20),)), (20, [21, 22], ()), (21, [22], ())],
)
def test_a_reader_from_another_node_and_a_gap_in_the_middle(
    seen: int, read: list[int], missing: tuple[tuple[int, int, int], ...] | None
) -> None:
    """This node never delivers 0.6 to 0.20. A reader that has them goes on; one that lacks some is told."""

    async def play() -> None:
        hub = Hub(History(None, 0, partitions=Partitions(1, 2, "main"), entries_max=40, bytes_max=1 << 20), {})
        for first, seqs in ((1, range(1, 6)), (6, range(21, 23))):
            messages = [Message("main", 0, seq, (), seal("a", b"", time_us=1)) for seq in seqs]
            batch = Batch(first=first, time_us=1, deliveries=messages, changes=[], held_us={})
            if first > 1:
                hub.gap(batch, 0, {0: 22})
            hub.deliver(batch)
        reader = Reader()
        feed = Feed(cast(Session, reader), hub, Subscribe(1, FILTERS, 8, 0, seen=((0, seen),)))
        reader.feeds[1] = feed
        hub.open(feed)
        for _ in range(10):
            await asyncio.sleep(0)
        assert [message.seq for _, message, _ in reader.items] == read
        ends = [record for record in reader.sent if isinstance(record, Ended)]
        if missing == ():
            assert ends == []
        else:
            assert [(one.kind, one.missing or None) for one in ends] == [("gap", missing)]

    asyncio.run(play())


@pytest.mark.parametrize("seed", range(20))
def test_what_a_dropping_reader_misses_is_counted(seed: int) -> None:
    async def play() -> None:
        world = World(seed, "causal", "drop_oldest")
        for _ in range(80):
            if world.draw.random() < 0.6:
                world.deliver([world.message() for _ in range(world.draw.choice((1, 3, 12)))])
            else:
                world.credit(world.draw.randint(1, 8))
        await world.rest()
        places = [position for position, _, _ in world.reader.items]
        assert places == sorted(set(places))
        assert [one for one in world.expected if one[0] in set(places)] == world.reader.items
        assert len(places) + world.reader.dropped == len(world.expected)

    asyncio.run(play())


@pytest.mark.parametrize("seed", range(40))
def test_a_reader_that_takes_messages_ahead_of_their_turn_gets_each_once(seed: int) -> None:
    async def play() -> None:
        world = World(seed, "none", "block")
        for _ in range(60):
            batch = [world.message() for _ in range(world.draw.choice((1, 2, 6)))]
            if world.draw.random() < 0.5:
                world.hub.arrived([Pub((message,)) for message in batch if world.draw.random() < 0.7])
                await asyncio.sleep(0)
            world.deliver(batch)
            if world.draw.random() < 0.6:
                world.credit(world.draw.randint(1, 8))
            await asyncio.sleep(0)
        await world.rest()
        got = sorted((message.source, message.seq) for _, message, _ in world.reader.items)
        assert got == sorted((message.source, message.seq) for _, message, _ in world.expected)

    asyncio.run(play())


def test_a_message_before_its_turn_does_not_overtake_those_that_wait_for_room() -> None:
    async def play() -> None:
        hub = Hub(History(None, 0, partitions=Partitions(1, 2, "main"), entries_max=40, bytes_max=1 << 20), {})
        reader = Reader()
        feed = Feed(cast(Session, reader), hub, Subscribe(1, ("a",), 8, order="fifo", policy="drop_oldest"))
        hub.open(feed)
        messages = [Message("main", 0, seq, (), seal("a", b"", time_us=1)) for seq in (1, 2, 3)]
        for first in (1, 2):
            reader.can_write = first == 1
            hub.deliver(Batch(first=first, time_us=1, deliveries=[messages[first - 1]], changes=[], held_us={}))
        reader.can_write = True  # the feed is told in the next turn
        hub.arrived([Pub((messages[2],))])
        await asyncio.sleep(0)
        feed.room()
        hub.deliver(Batch(first=3, time_us=1, deliveries=[messages[2]], changes=[], held_us={}))
        assert [message.seq for _, message, _ in reader.items] == [1, 2, 3]

    asyncio.run(play())


def test_pieces_are_shared_by_readers_that_keep_up() -> None:
    async def play() -> None:
        hub = Hub(History(None, 0, partitions=Partitions(1, 2, "main"), entries_max=100, bytes_max=1 << 20), {})
        readers = [Reader() for _ in range(3)]
        for reader in readers:
            hub.open(Feed(cast(Session, reader), hub, Subscribe(1, ("#",), 100)))
        messages = [Message("main", 0, seq, (), seal("a", b"x", time_us=1)) for seq in range(1, 6)]
        hub.deliver(Batch(first=1, time_us=1, deliveries=messages, changes=[], held_us={}))
        pieces = [piece for reader in readers for piece in reader.pieces]
        assert len(pieces) == len(readers)
        assert all(piece is pieces[0] for piece in pieces)

    asyncio.run(play())


def test_a_feed_that_closes_before_it_has_begun_leaves_no_work_behind() -> None:
    """A client that hangs up right after SUBSCRIBE: the log has no warning of a coroutine that was never awaited."""

    async def play() -> None:
        hub = Hub(History(None, 0, partitions=Partitions(1, 2, "main"), entries_max=40, bytes_max=1 << 20), {})
        feed = Feed(cast(Session, Reader()), hub, Subscribe(1, ("a",), 8, since=0))
        feed.open()
        feed.close()
        await asyncio.sleep(0)

    gc.collect()  # what earlier tests left
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        asyncio.run(play())
        gc.collect()
    assert [str(one.message) for one in told] == []


@pytest.mark.interpreted  # it replaces a method or a constant
@awaited
async def test_a_feed_whose_reading_fails_ends_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task that reads for a feed is awaited by no one: what it dies of must reach the reader."""
    async with Node(port=0, directory=tmp_path, recent_messages=1) as node, node.connect() as bus:
        for number in range(10):
            await bus.publish("t", b"%d" % number)

        def fail(*_: object) -> None:
            raise RuntimeError("for the test")

        monkeypatch.setattr(node.hub.history, "older", fail)
        with pytest.raises(StoppedError, match=r"failed to read for this feed \(RuntimeError: for the test\)"):
            async with bus.subscribe("t", since="0") as feed:
                await anext(feed)
