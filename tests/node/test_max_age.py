"""Feeds with a maximum age (Δ-causal order): no message is late, none waits for longer, and no answer comes first."""

import asyncio
import random
from typing import NamedTuple, cast

import pytest

import antecede
from antecede import Node
from antecede.core import Message, Packet
from antecede.core.partitions import Partitions
from antecede.journal.batch import Batch
from antecede.node.fault_injection import FaultyTransport, LinkFaults
from antecede.node.feed import Feed
from antecede.node.history import Entry, History
from antecede.node.hub import Hub
from antecede.node.left_out import LeftOut
from antecede.node.max_age import MaxAge
from antecede.node.session import Session
from antecede.protocols.vcube_ps.packets import Pub
from antecede.wire.envelope import seal
from antecede.wire.requests import TO_NODE, Policy, Subscribe
from tests.client.running import awaited, bodies, take, until
from tests.node.clusters import cluster
from tests.node.http_client import stream
from tests.node.test_feed import Reader as SessionReader

#: Microseconds.
DELTA = 100_000

NodeName = tuple[int, int]


class Sent(NamedTuple):
    """A message, and what the test knows of it."""

    entry: Entry
    #: All messages that precede it.
    past: frozenset[NodeName]
    published: int
    #: The same by the clock of its publisher.
    stamp: int
    arrives: int

    @property
    def name(self) -> NodeName:
        return self.entry.stream, self.entry.message.seq


def history(draw: random.Random, *, skew: int, lamport: bool) -> list[Sent]:
    """Eighty messages of five publishers. Each has often read another message before; some arrive long after."""
    offsets = [draw.choice((-skew // 2, skew // 2)) for _ in range(5)]
    pasts: list[frozenset[NodeName]] = [frozenset()] * 5
    clocks, seqs, sent, now = [0] * 5, [0] * 5, list[Sent](), 10 * DELTA
    for _ in range(80):
        now += draw.choice((1, DELTA // 50, DELTA // 4))
        source = draw.randrange(5)
        if sent and draw.random() < 0.6:
            read = draw.choice(sent[-8:])
            pasts[source] |= read.past | {read.name}
            clocks[source] = max(clocks[source], read.entry.message.clock)
        seqs[source] += 1
        clocks[source] += 1
        payload = seal("t", b"", time_us=now + offsets[source])
        message = Message("main", source, seqs[source], (), payload, (), clocks[source] if lamport else 0)
        delay = draw.randint(DELTA // 2, 2 * DELTA) if draw.random() < 0.3 else draw.randint(0, DELTA // 3)
        entry = Entry(0, message, source, 0, "t")
        sent.append(Sent(entry, pasts[source], now, now + offsets[source], now + delay))
        pasts[source] |= {sent[-1].name}
    return sent


class Reader:
    """A node that delivers in causal order, and one feed."""

    def __init__(self) -> None:
        self.age: MaxAge[Sent] = MaxAge(DELTA)
        self.left_out = LeftOut()
        self.left_out.limit(self.age)
        self.delivered: set[NodeName] = set()
        self.held: list[Sent] = []
        #: The messages that the feed gave, and when; and how many it skipped.
        self.given: list[tuple[Sent, int]] = []
        self.dropped = 0

    def pass_time(self, until: int) -> None:
        while (due := self.age.next_due_us()) is not None and due <= until:
            for one in self.age.release(due):
                self.left_out.gave_early(one.entry)
                self.given.append((one, due))

    def receive(self, sent: Sent, now: int) -> None:
        self.pass_time(now)
        self.held.append(sent)
        while turn := next((one for one in self.held if one.past <= self.delivered), None):
            self.held.remove(turn)
            self.delivered.add(turn.name)
            if not self.left_out.was_given(turn.entry):
                if self.left_out.is_late(turn.entry, now):
                    self.dropped += 1
                else:
                    self.given.append((turn, now))
            self.age.settle(turn.name)
        if sent in self.held:
            message = sent.entry.message
            self.age.hold(sent.name, sent.stamp, message.clock, sent, now)


def played(seed: int, *, skew: int, lamport: bool) -> tuple[list[Sent], Reader]:
    sent = history(random.Random(seed), skew=skew, lamport=lamport)
    reader = Reader()
    for one in sorted(sent, key=lambda one: one.arrives):
        reader.receive(one, one.arrives)
    assert reader.delivered == {one.name for one in sent}
    assert reader.age.next_due_us() is None
    return sent, reader


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("skew", [0, DELTA // 4], ids=["clocks that agree", "clocks that nearly agree"])
def test_what_a_feed_is_given_is_in_order_and_never_late_nor_repeated(seed: int, skew: int) -> None:
    sent, reader = played(seed, skew=skew, lamport=True)
    names = [one.name for one, _ in reader.given]
    assert len(set(names)) == len(names)
    assert len(names) + reader.dropped == len(sent)
    for place, (one, at) in enumerate(reader.given):
        assert at - one.stamp <= DELTA
        assert at - one.arrives <= DELTA
        assert not one.past & set(names[place + 1 :])


@pytest.mark.parametrize("seed", range(20))
def test_with_clocks_that_agree_age_alone_decides(seed: int) -> None:
    """Without Lamport times, as some protocols publish: each message that arrives within Δ is given, and no other."""
    sent, reader = played(seed, skew=0, lamport=False)
    assert {one.name for one, _ in reader.given} == {one.name for one in sent if one.arrives - one.stamp <= DELTA}
    names = [one.name for one, _ in reader.given]
    assert not any(one.past & set(names[place + 1 :]) for place, (one, _) in enumerate(reader.given))


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("room", [80, 6], ids=["room for all", "a slow reader"])
@awaited
async def test_the_same_through_a_hub_and_its_feed(seed: int, room: int) -> None:
    """Also while a reader without room makes messages wait, and another feed has another maximum age."""
    draw = random.Random(seed)
    sent = {one.name: one for one in history(draw, skew=DELTA // 4, lamport=True)}
    hub = Hub(History(None, 0, partitions=Partitions(1, 2, "main"), entries_max=200, bytes_max=1 << 20), {})
    now = 0
    hub.early.now_us = lambda: now
    policy: Policy = draw.choice(("block", "drop_oldest"))
    readers = [SessionReader(), SessionReader()]
    feeds = [
        Feed(cast(Session, reader), hub, Subscribe(1, ("t",), room, policy=policy, max_age_us=max_age_us))
        for reader, max_age_us in zip(readers, (DELTA, 3 * DELTA), strict=True)
    ]
    for feed in feeds:
        hub.open(feed)
    given: list[list[Sent]] = [[], []]

    def note() -> None:
        for reader, feed, names in zip(readers, feeds, given, strict=True):
            for _, message, _ in reader.items[len(names) :]:
                names.append(sent[message.source, message.seq])
                assert now - names[-1].stamp <= feed.max_age_us

    gate, held = set[NodeName](), list[Sent]()
    for one in sorted(sent.values(), key=lambda one: one.arrives):
        while (due := min([age.next_due_us() or one.arrives for age in hub.early.ages.values()])) < one.arrives:
            now = due
            hub.early.release()
            note()
        now = one.arrives
        hub.arrived([Pub((one.entry.message,))])
        held.append(one)
        while turn := next((waits for waits in held if waits.past <= gate), None):
            held.remove(turn)
            gate.add(turn.name)
            message = turn.entry.message
            hub.deliver(Batch(first=hub.position + 1, time_us=1, deliveries=[message], changes=[], held_us={}))
        await asyncio.sleep(0)
        note()
        for feed in feeds if draw.random() < 0.3 else ():
            feed.credit = min(feed.credit + draw.randint(1, 6), feed.window)
            feed.room()
            hub.moved()
        note()
    for reader, feed, some in zip(readers, feeds, given, strict=True):
        for _ in range(40):
            feed.credit = feed.window
            feed.room()
            note()
        names = [one.name for one in some]
        assert len(names) == len(set(names))
        assert len(names) + reader.dropped == len(sent)
        assert not any(one.past & set(names[place + 1 :]) for place, one in enumerate(some))


def test_a_message_from_a_clock_that_is_ahead_waits_no_longer_than_others() -> None:
    age: MaxAge[str] = MaxAge(DELTA)
    age.hold((0, 1), 50 * DELTA, 1, "ahead", 3 * DELTA)
    assert age.next_due_us() == 4 * DELTA
    assert age.release(4 * DELTA - 1) == []
    assert age.release(4 * DELTA) == ["ahead"]
    age.hold((0, 1), 50 * DELTA, 1, "ahead", 4 * DELTA)  # a second copy
    assert age.next_due_us() is None


def test_what_precedes_a_message_that_was_released_early_is_late_by_a_slower_clock_too() -> None:
    """A message of Lamport time 5 goes with one of time 9. The one it answers is stamped a quarter of Δ behind it."""
    age: MaxAge[str] = MaxAge(DELTA)
    age.hold((0, 1), 0, 9, "last", 0)
    age.hold((1, 1), DELTA // 4, 5, "answer", DELTA // 2)
    assert age.release(DELTA) == ["answer", "last"]
    question = DELTA // 2
    assert age.is_late(question, 4, DELTA + 1, early_clock=9)
    assert not age.is_late(question, 10, DELTA + 1, early_clock=9)
    age.hold((2, 1), question, 4, "question", DELTA + 1)
    assert age.next_due_us() is None


def test_messages_that_were_delivered_in_time_cost_no_memory() -> None:
    age: MaxAge[int] = MaxAge(3600 * 1_000_000)
    for number in range(1, 20_000):
        age.hold((0, number), number, number, number, number)
        age.settle((0, number))
    assert len(age._young) < 2000
    assert age.next_due_us() is None


class LosesQuestions:
    """A network that loses every packet with a question on its way to node 2, until it is mended."""

    weighs = True
    broken = False

    def weigh(self, packet: Packet) -> int:
        return sum([b"question" in message.payload for message in packet.messages])

    def arrivals(self, now: int, sender: int, to: int, size: int) -> tuple[int, ...]:
        return () if self.broken and to == 2 and size else (now,)

    def between(self, nodes: list[Node]) -> None:
        for node in nodes:
            node.driver.transport = FaultyTransport(node.transport, LinkFaults(self), self.weigh)


@awaited
async def test_an_answer_comes_within_the_maximum_age_and_a_late_question_never() -> None:
    network = LosesQuestions()
    async with (
        cluster(3) as nodes,
        nodes[0].connect() as asks,
        nodes[1].connect() as answers,
        nodes[2].connect() as reads,
        reads.subscribe("#") as causal,
        reads.subscribe("#", max_age_s=2.0) as timely,
        answers.subscribe("q") as questions,
    ):
        network.between(nodes)
        await asks.publish("q", b"first")
        await take(questions, 1)
        await answers.publish("a", b"second")
        for feed in (causal, timely):
            assert bodies(await take(feed, 2)) == [b"first", b"second"]
        network.broken = True
        await asks.publish("q", b"question")
        await take(questions, 1)
        await answers.publish("a", b"answer")
        (answer,) = await take(timely, 1)
        assert answer.payload == b"answer"
        assert answer.held_ms > 0
        assert causal.waiting == 0
        assert nodes[2].hub.counts.late == timely.dropped == 0
        network.broken = False
        assert bodies(await take(causal, 2)) == [b"question", b"answer"]
        await until(lambda: timely.dropped == 1)  # told at once, though no message follows
        await answers.publish("a", b"last")
        assert bodies(await take(timely, 1)) == [b"last"]
        assert (await reads.status())["counts"]["late"] == 1
        assert timely.dropped == 1


@awaited
async def test_a_reader_that_comes_back_is_given_what_is_fresh() -> None:
    async with Node(port=0) as node, node.connect() as bus:
        async with bus.subscribe("t", since="0", max_age_s=3600) as feed:
            await bus.publish("t", b"one")
            assert bodies(await take(feed, 1)) == [b"one"]
        node.hub.early.now_us = lambda: 1 << 60
        async with bus.subscribe("t", since="0", max_age_s=3600) as feed:
            await until(lambda: feed.dropped == 1)
            assert feed.waiting == 0


@awaited
async def test_over_http() -> None:
    async with Node(port=0, http_port=0) as node, node.connect() as bus:
        await bus.publish("t", b"stale")
        now = node.hub.early.now_us()
        node.hub.early.now_us = lambda: now + 61_000_000
        async with stream(node, "filter=t&since=0&max_age=60") as events:
            await until(lambda: node.hub.counts.late == 1)
            node.hub.early.now_us = lambda: now
            await bus.publish("t", b"fresh")
            assert [event.data["text"] for event in await events.messages(1)] == ["fresh"]


@pytest.mark.parametrize("policy", ["block", "drop_oldest"])
@awaited
async def test_messages_that_wait_for_a_slow_reader_grow_old(policy: antecede.client.options.Policy) -> None:
    async with (
        Node(port=0) as node,
        node.connect() as bus,
        bus.subscribe("t", max_age_s=60, policy=policy, queue=1) as feed,
    ):
        for number in range(4):
            await bus.publish("t", b"%d" % number)
        now = node.hub.early.now_us()
        node.hub.early.now_us = lambda: now + 61_000_000
        assert bodies(await take(feed, 1)) == [b"0"]
        await until(lambda: feed.dropped == 3)
        node.hub.early.now_us = lambda: now
        await bus.publish("t", b"fresh")
        assert bodies(await take(feed, 1)) == [b"fresh"]


@pytest.mark.parametrize("max_age_s", [0, -1, 0.0001, 3600.1, float("inf"), float("nan")])
@awaited
async def test_ages_that_no_message_may_have_are_refused(max_age_s: float) -> None:
    async with antecede.connect("memory://") as bus:
        with pytest.raises(antecede.UsageError, match=r"max_age_s.*is not an age.*use 0.001 … 3600 seconds"):
            bus.subscribe("t", max_age_s=max_age_s)


@pytest.mark.parametrize("order", ["fifo", "none", "total"])
@awaited
async def test_it_is_for_causal_order_only(order: antecede.client.options.Order) -> None:
    async with antecede.connect("memory://") as bus:
        with pytest.raises(antecede.UsageError, match=rf'max_age_s.*is not for order .{order}.*use order="causal"'):
            bus.subscribe("t", order=order, max_age_s=1)


@awaited
async def test_a_cluster_with_one_order_refuses_it() -> None:
    async with cluster(1, protocol="total", slots=2) as (node,), node.connect() as bus:
        with pytest.raises(antecede.UsageError, match=r"max_age_s.*one order for all readers.*leave it out"):
            async with bus.subscribe("t", max_age_s=1):
                pass


def test_ends_of_earlier_versions_leave_the_field_out() -> None:
    """It is the last of its record. A node that does not know it reads the others."""
    wanted = Subscribe(1, ("t",), 8, max_age_us=5)
    frame = TO_NODE.frame(wanted)
    assert frame.endswith(b"\xc2\x05")
    assert TO_NODE.decode(frame[4:])[0] == wanted
