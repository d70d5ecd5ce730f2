"""What one client may cost its node, in bytes of memory and in work for one turn of the event loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import antecede
from antecede import Node
from antecede.core.limits import (
    BATCH_BYTES_MAX,
    FEEDS_BYTES_MAX,
    PUBLICATIONS_MAX,
    RECORDS_COST_MAX,
    STEP_COST_MAX,
    TURN_COST_MAX,
    WAITING_BYTES_MAX,
    WAITING_MAX,
    WINDOW_BYTES_MAX,
)
from antecede.core.process import Acknowledgement
from antecede.journal import Journal
from antecede.journal.batch import Batch
from antecede.node import publishing
from antecede.node.bulk.service import BulkSession
from antecede.node.driving import Replicas
from antecede.node.session import Session
from antecede.node.shares import Pool, Share
from antecede.node.turns import Turns
from antecede.wire import bulk
from antecede.wire.codec import FRAME_BYTES_FULL, HANDSHAKE, Hello
from antecede.wire.envelope import HEADER_BYTES_MAX, seal
from antecede.wire.frames import WRITE_BYTES_HIGH
from antecede.wire.requests import (
    SPEAKS,
    TO_CLIENT,
    TO_NODE,
    Acks,
    Answer,
    Ask,
    Ended,
    Failed,
    FromClient,
    FromNode,
    Publish,
    Subscribe,
    Unsubscribe,
)
from antecede.wire.security import new_token
from tests.client.running import awaited, take, until

#: Messages that no node will ever publish: as many as a publication may name.
NEVER = tuple((0, (1 << 40) + number) for number in range(4096))
BODY = seal("mine/1", b"x", time_us=1)


class Hostile:
    """A raw client: it writes what a client of ours would not, and reads when it is told to."""

    def __init__(self, node: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._node, self._reader, self._writer = node, reader, writer

    @property
    def session(self) -> Session:
        (session,) = [one for one in self._node.sessions if one.name == "hostile"]
        return session

    async def say(self, *records: FromClient) -> None:
        self._writer.write(TO_NODE.frame(*records))
        await self._writer.drain()

    async def pour(self, frames: Iterable[bytes], until_stopped: Callable[[], bool]) -> None:
        """Write frames until the node has stopped reading, or no more are left."""
        for frame in frames:
            self._writer.write(frame)
            if until_stopped():
                return
            try:
                async with asyncio.timeout(0.2):
                    await self._writer.drain()
            except TimeoutError:
                return

    async def answers(self, kind: type[FromNode], count: int) -> list[Any]:
        found: list[Any] = []
        while len(found) < count:
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            found += [one for one in TO_CLIENT.decode(await self._reader.readexactly(size)) if isinstance(one, kind)]
        return found

    def hang_up(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def hostile(node: Node, token: str = "", role: str = "client") -> AsyncIterator[Hostile]:
    reader, writer = await asyncio.open_connection(*node.listener.address)
    speaks = SPEAKS if role == "client" else bulk.SPEAKS
    hello = Hello(cluster="antecede", speaks=speaks, role=role, name="hostile", token=token)
    writer.write(HANDSHAKE.frame(hello))
    size = int.from_bytes(await reader.readexactly(4), "big")
    await reader.readexactly(size)
    try:
        yield Hostile(node, reader, writer)
    finally:
        writer.transport.abort()


def joined(records: Iterable[FromClient]) -> bytes:
    """One frame of these records, whatever its size."""
    body = TO_NODE.body(list(records))
    return len(body).to_bytes(4, "big") + body


# -- memory ------------------------------------------------------------------------------------------------------------


@awaited
async def test_nothing_is_kept_for_a_client_without_a_grant(tmp_path: Path) -> None:
    token = new_token(tmp_path / "tokens", "poor")
    async with Node(port=0, tokens=tmp_path / "tokens") as node, hostile(node, token) as client:
        for number in range(200):
            await client.say(Publish(number, (BODY,), NEVER), Subscribe(number, ("mine/" + "+/" * 60 + "#",), 1))
        refused = await client.answers(Failed, 200)
        assert {one.kind for one in refused} == {"denied"}
        assert node.pool.used == 0
        assert len(node.hub._predecessors) == 0
        assert len(node.hub._by_filter) == 0


@awaited
async def test_waiting_publications_are_bounded_in_bytes() -> None:
    """Their predecessors count: those of one small publication cost half a megabyte."""
    async with Node(port=0) as node, hostile(node) as client:
        for number in range(100):
            await client.say(Publish(number, (BODY,), NEVER))
        refused = await client.answers(Failed, 100 - 40)
        assert "hold back" in refused[0].text
        assert WAITING_BYTES_MAX // 2 < node.pool.used <= WAITING_BYTES_MAX
        client.hang_up()
        await until(lambda: node.pool.used == 0)
        assert len(node.hub._predecessors) == 0


@awaited
async def test_waiting_publications_are_bounded_in_number() -> None:
    async with Node(port=0) as node, hostile(node) as client:
        await client.say(Publish(0, (BODY,), NEVER[:1]))
        for first in range(1, WAITING_MAX + 1000, 1000):
            await client.say(Publish(first, (BODY,) * 1000))
        await client.answers(Failed, 1000)
        assert client.session._publications._count <= WAITING_MAX


@pytest.mark.interpreted  # it replaces a method or a constant
@awaited
async def test_publications_that_are_not_safe_make_the_next_ones_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of ours has fewer under way. Nothing is refused, and all are acknowledged in the end."""
    monkeypatch.setattr(publishing, "UNSETTLED_BYTES_MAX", 10_000)
    async with Node(port=0) as node, hostile(node) as client:
        promises: list[asyncio.Future[Any]] = []

        def not_yet(payloads: Any, level: int, size: int, make_promise: Any) -> tuple[list[Any], None]:
            return [], None

        def later(payload: bytes, level: int) -> "asyncio.Future[Any]":
            promises.append(asyncio.get_running_loop().create_future())
            return promises[-1]

        monkeypatch.setattr(node, "publish_payloads", not_yet)
        monkeypatch.setattr(node, "publish_payload", later)
        await client.say(*[Publish(number, (BODY,)) for number in range(20)])
        await until(lambda: client.session._publications._crowded)
        assert len(promises) == 5
        done = 0
        while done < 20:
            await until(lambda: len(promises) > done)  # noqa: B023
            promises[done].set_result(antecede.core.Message("main", 0, done + 1, (), b""))
            done += 1
        assert sum([count for one in await client.answers(Acks, 1) for _, _, count in one.runs]) >= 1
        await until(lambda: node.pool.used == 0)


@pytest.mark.parametrize("kind", ["questions", "denied"])
@awaited
async def test_a_client_that_reads_no_answers_is_not_read(kind: str, tmp_path: Path) -> None:
    grants: dict[str, Any] = {"status": True} if kind == "questions" else {}
    token = new_token(tmp_path / "tokens", "one", **grants)
    async with Node(port=0, tokens=tmp_path / "tokens") as node, hostile(node, token) as client:
        records = [Ask(1, "status")] * 1000 if kind == "questions" else [Publish(1, (BODY,) * 100)] * 40
        frame = TO_NODE.frame(*records)
        session = client.session
        await client.pour([frame] * 2000, lambda: not session.connection.can_write)
        await until(lambda: session.connection.paused and not session.connection.can_write)
        transport = session.connection._transport
        assert transport is not None
        held = transport.get_write_buffer_size() + session._bodies_bytes
        assert held < 2 * WRITE_BYTES_HIGH
        before = node.counts_edge.bytes_received
        await client.pour([frame] * 10, lambda: False)
        assert node.counts_edge.bytes_received - before <= 2 * FRAME_BYTES_FULL
        before = node.counts_edge.bytes_received
        while node.counts_edge.bytes_received == before:  # it reads: so does the node
            await client.answers(Failed if kind == "denied" else Answer, 100)


@awaited
async def test_filters_are_bounded_in_bytes() -> None:
    async with Node(port=0) as node, hostile(node) as client:
        for number in range(40):
            filters = tuple(f"mine/{number}/{one}/" + "+/" * 55 + "#" for one in range(64))
            await client.say(Subscribe(number, filters, 1))
        (first, *_) = await client.answers(Ended, 30)
        assert first.kind == "limit"
        assert "bytes of memory" in first.text
        assert node.pool.used <= FEEDS_BYTES_MAX
        assert len(node.hub._by_filter) <= 300
        await client.say(*[Unsubscribe(number) for number in range(40)])
        await until(lambda: node.pool.used == 0 and len(node.hub._by_filter) == 0)


@awaited
async def test_what_a_reader_says_it_has_read_is_bounded() -> None:
    async with Node(port=0) as node, hostile(node) as client:
        await client.say(Subscribe(1, ("a",), 1, 0, seen=tuple((source, 1) for source in range(5000))))
        (ended,) = await client.answers(Ended, 1)
        assert ended.kind == "usage"
        assert node.pool.used == 0


@pytest.mark.parametrize("policy", ["drop_oldest", "disconnect"])
@awaited
async def test_messages_that_wait_for_a_reader_are_bounded_in_bytes(policy: Any) -> None:
    async with Node(port=0) as node, node.connect() as bus, hostile(node) as client:
        await client.say(*[Subscribe(number, ("a",), 1, policy=policy, window=1 << 20) for number in range(1, 5)])
        await until(lambda: len(node.hub.feeds) == 4)
        session = client.session
        for _ in range(40):
            await bus.publish("a", bytes(300_000))
        assert session.window_share.used <= WINDOW_BYTES_MAX
        assert node.pool.used <= WINDOW_BYTES_MAX + FEEDS_BYTES_MAX
        if policy == "disconnect":
            ended = await client.answers(Ended, 1)
            assert ended[0].kind == "slow"
        else:
            assert node.hub.counts.dropped >= 4 * (39 - WINDOW_BYTES_MAX // 300_000)


@awaited
async def test_pages_that_are_not_read_are_bounded(tmp_path: Path) -> None:
    async with Node(port=0, directory=tmp_path) as node, node.connect() as bus, hostile(node, role="bulk") as client:
        for _ in range(8):
            await bus.publish("a", bytes(500_000))
        questions = [bulk.TO_NODE.frame(bulk.Read(0, 1 << 40, ("#",)))] * 500
        sent = node.counts_edge.bytes_sent
        await client.pour(questions, lambda: False)
        await asyncio.sleep(0.5)
        received = node.counts_edge.bytes_sent - sent  # the page before that the node's socket took, and one more
        assert received <= 4 * bulk.PAGE_BYTES


@awaited
async def test_pages_are_read_by_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread that runs takes the interpreter from the event loop."""
    active: list[int] = [0]
    read = BulkSession._read

    def counted(session: BulkSession, *question: Any) -> bulk.Page:
        active.append(active[-1] + 1)
        time.sleep(0.02)  # gives the interpreter away: other threads would begin
        try:
            return read(session, *question)
        finally:
            active.append(active[-1] - 1)

    monkeypatch.setattr(BulkSession, "_read", counted)
    question = bulk.TO_NODE.frame(bulk.Read(0, 1, ("#",)))
    async with Node(port=0, directory=tmp_path) as node, AsyncExitStack() as stack:
        for _ in range(4):
            client = await stack.enter_async_context(hostile(node, role="bulk"))
            await client.pour([question], lambda: False)
        await until(lambda: len(active) == 1 + 2 * 4)
    assert max(active) == 1


@awaited
async def test_departed_clients_leave_nothing_at_a_busy_node() -> None:
    async with Node(port=0) as node:
        node.hub._jammed = True
        for _ in range(5):
            async with hostile(node) as client:
                await client.say(Publish(1, (BODY,)))
                await until(lambda: node.pool.used > 0)
            await until(lambda: not node.sessions)
        assert node.pool.used == 0
        assert node.pressure._waiting == {}


def test_a_share_and_the_pool() -> None:
    pool = Pool(1_000_000)
    greedy, modest = Share(pool, 2_000_000), Share(pool, 2_000_000)
    assert greedy.take(1_000_000)
    assert not greedy.take(1)
    assert modest.take(60_000)  # what is kept for clients that ask for little
    assert not modest.take(60_000)
    greedy.clear()
    assert modest.take(60_000)
    assert pool.used == modest.used == 120_000


# -- time --------------------------------------------------------------------------------------------------------------


class Work:
    """Counts what is handled for a client in each turn of the event loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.turns: list[int] = [0]
        self.records = 0
        handle = Session._handle

        def counted(session: Session, record: FromClient) -> int:
            cost = handle(session, record)
            if session.name == "hostile":
                self.records += 1
                self.turns[-1] += cost
            return cost

        monkeypatch.setattr(Session, "_handle", counted)

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.turns.append(0)


FRAMES: dict[str, Callable[[], list[FromClient]]] = {
    "subscriptions": lambda: [
        one for number in range(1200) for one in (Subscribe(number, ("mine/+/1",), 1), Unsubscribe(number))
    ],
    "questions": lambda: [Ask(number, "status") for number in range(4000)],
    "publications": lambda: [Publish(number, (BODY,)) for number in range(1500)],
}


@pytest.mark.interpreted  # it replaces a method or a constant
@pytest.mark.parametrize("kind", FRAMES)
@awaited
async def test_a_frame_full_of_records_leaves_turns_to_others(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    records = FRAMES[kind]()
    frame = joined(records)
    assert len(frame) <= FRAME_BYTES_FULL
    work = Work(monkeypatch)
    async with Node(port=0) as node, node.connect() as bus, hostile(node) as client:
        watching = asyncio.create_task(work.watch())
        await client.pour([frame], lambda: False)
        await until(lambda: work.records > 0)
        await bus.publish("well", b"yes")
        assert work.records < len(records), "an honest client waited for all of a frame"
        reading = asyncio.create_task(client.answers(Answer, len(records) + 1))
        await until(lambda: work.records == len(records))
        reading.cancel()
        watching.cancel()
        assert max(work.turns) <= RECORDS_COST_MAX + 2 * STEP_COST_MAX


@awaited
async def test_a_client_cannot_fill_the_batch_that_others_wait_for(tmp_path: Path) -> None:
    """While a commit is under way, all that is published gathers in one batch."""
    size = BATCH_BYTES_MAX // 8
    body = seal("mine/1", bytes(size), time_us=1)
    async with Node(port=0, directory=tmp_path) as node, node.connect() as bus, hostile(node) as client:
        journal = node.journal
        assert journal is not None
        batches: list[Batch] = []
        held: list[Callable[[], None]] = []

        def slow(batch: Batch, done: Callable[[Exception | None], None], *, sync: bool = False) -> None:
            batches.append(batch)
            held.append(lambda: Journal.append(journal, batch, done, sync=sync))

        journal.append = slow  # type: ignore[method-assign]
        await client.say(*[Publish(number, (BODY,)) for number in range(10)])
        await until(lambda: len(held) == 1)
        for number in range(10, 50):
            await client.say(Publish(number, (body,)))
        publications = client.session._publications
        await until(lambda: node.hub.counts.published + publications._count == 50)
        honest = asyncio.create_task(bus.publish("well", b"yes"))
        await until(lambda: node.hub.counts.published + publications._count == 51)
        while node.hub.position < 51:
            if held:
                held.pop(0)()
            await asyncio.sleep(0)
        await honest
        journal.append = partial(Journal.append, journal)  # type: ignore[method-assign]
        sizes = [sum([len(one.payload) for one in batch.deliveries]) for batch in batches]
        assert max(sizes) < BATCH_BYTES_MAX + 2 * size
        (at,) = [at for at, batch in enumerate(batches) if any(b"well" in one.payload for one in batch.deliveries)]
        assert at <= 2, "it waited for batches that another client filled"


@awaited
async def test_a_large_frame_holds_one_record() -> None:
    async with Node(port=0) as node, hostile(node) as client:
        await client.pour([joined([Ask(number, "status") for number in range(20_000)])], lambda: False)
        await until(lambda: not node.sessions)
        assert node.transport.counts.refused["malformed"] == 1
    assert TO_NODE.decode(TO_NODE.body([Publish(1, (BODY,) * PUBLICATIONS_MAX)]))
    with pytest.raises(antecede.ProtocolError, match="length <= 4096"):
        TO_NODE.decode(TO_NODE.body([Publish(1, (BODY,) * (PUBLICATIONS_MAX + 1))]))


@awaited
async def test_clients_take_turns_however_many_steps_they_have() -> None:
    turns = Turns()
    order: list[str] = []

    def step(name: str) -> Callable[[], int]:
        return lambda: order.append(name) or TURN_COST_MAX // 2  # type: ignore[func-returns-value]

    for _ in range(6):
        turns.add("greedy", step("greedy"))
    turns.add("modest", step("modest"))
    await asyncio.sleep(0)
    assert order == ["greedy", "modest"]  # and no more in one turn of the loop
    await asyncio.sleep(0)
    assert order == ["greedy", "modest", "greedy", "greedy"]
    while len(turns):
        await asyncio.sleep(0)
    assert len(order) == 7


@awaited
async def test_a_client_with_many_feeds_gets_each_message_once_and_in_order() -> None:
    async with Node(port=0) as node, node.connect() as bus, node.connect() as other, AsyncExitStack() as stack:
        feeds = [await stack.enter_async_context(other.subscribe("a/#")) for _ in range(40)]
        for number in range(50):
            bus.publish_nowait("a/1", b"%d" % number)
        for feed in feeds:
            assert [message.payload for message in await take(feed, 50)] == [b"%d" % number for number in range(50)]


# -- waiters -----------------------------------------------------------------------------------------------------------


@awaited
async def test_publications_that_wait_for_ever_cost_the_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a publication looks at does not grow with those that wait: of one client, or of many."""
    async with Node(port=0) as node, node.connect() as bus, AsyncExitStack() as stack:
        looked = 0
        missing = node.hub.missing

        def counted(after: Any) -> Any:
            nonlocal looked
            looked += len(after)
            return missing(after)

        monkeypatch.setattr(node.hub._predecessors, "_missing", counted)
        clients = [await stack.enter_async_context(hostile(node)) for _ in range(50)]
        for client in clients:
            await client.say(*[Publish(number, (BODY,), NEVER[:1]) for number in range(400)])
        await until(lambda: sum([one._publications._count for one in node.sessions]) == 20_000)
        looked = 0
        for _ in range(10):
            await bus.publish("well", b"yes")
        assert looked <= 20
        for client in clients:
            client.hang_up()
        await until(lambda: len(node.hub._predecessors) == 0)


@pytest.mark.interpreted  # it replaces a method or a constant
@awaited
async def test_copies_that_are_waited_for_cost_the_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    replicas = Replicas(lambda name, peer: True)
    looked = 0
    copied = replicas._of("main")._copied

    def counted(copies: int) -> int:
        nonlocal looked
        looked += 1
        return copied(copies)

    monkeypatch.setattr(replicas._of("main"), "_copied", counted)
    loop = asyncio.get_running_loop()
    waiting = []
    for seq in range(1, 32_001):
        promise = loop.create_future()
        promise.set_result(antecede.core.Message("main", 0, seq, (), b""))
        waiting.append(replicas.wait(promise, 5))
    await asyncio.sleep(0)
    looked = 0
    replicas.note([Acknowledgement(1, "main", 1)])
    assert looked <= 4
    for peer in range(1, 6):
        replicas.note([Acknowledgement(peer, "main", 2)])
    assert [one.done() for one in waiting[:3]] == [True, True, False]
    for one in waiting:
        one.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(replicas) == 0


@pytest.mark.interpreted  # it replaces a method or a constant
@awaited
async def test_publications_over_their_time_fail_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Node(port=0) as node, hostile(node) as client:
        await client.say(*[Publish(number, (BODY,), NEVER[:1], timeout_ms=3000) for number in range(1000)])
        await until(lambda: client.session._publications._count == 1000)
        publications = client.session._publications
        counts = []
        sweep = publications._sweep

        def swept() -> None:
            before = publications._count
            sweep()
            counts.append(before - publications._count)

        monkeypatch.setattr(publications, "_sweep", swept)
        publications._next_sweep = float("inf")
        publications._sweep_by(0.0)
        assert len(await client.answers(Failed, 1000)) >= 1000
        assert sum(counts) <= 1000
        assert max(counts) <= publishing._EXPIRE_MAX
        assert node.pool.used == 0


# -- sizes -------------------------------------------------------------------------------------------------------------


@awaited
async def test_headers_are_bounded_in_bytes() -> None:
    wide = "𝄞" * (HEADER_BYTES_MAX // 4 + 1)
    with pytest.raises(antecede.LimitError, match="a header in bytes is 1028"):
        seal("a", b"", time_us=1, headers={"k": wide})
    payload = seal("a", b"", time_us=1, headers={"k": wide[:-1]})
    async with Node(port=0) as node, hostile(node) as client:
        large = antecede.wire.envelope._encoder.encode(("a", 1, b"", {"k": wide}))
        await client.say(Publish(1, (payload,)), Publish(2, (large,)))
        (failed,) = await client.answers(Failed, 1)
        assert failed.number == 2
        assert "a header in bytes is 1028" in failed.text
