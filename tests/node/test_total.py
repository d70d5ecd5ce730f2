"""`protocol = "total"`: one order for all readers of a cluster, numbered by managers that may crash."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import combinations, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from antecede import Bus, Feed, Message, MessageId, Node
from antecede.audit import audit
from antecede.client.options import Subscription
from antecede.client.past import Past
from antecede.core import Message as CoreMessage
from antecede.core import Packet, ProtocolError, UsageError
from antecede.core.errors import StoppedError
from antecede.core.partitions import Partitions
from antecede.journal import export_rows
from antecede.node.config import NodeConfig
from antecede.node.history import History
from antecede.node.hub import Hub
from antecede.node.local_cluster import LocalCluster
from antecede.node.protocol import NodeProtocol
from antecede.protocols.options import PROMISES, TOTAL
from antecede.protocols.tno import encode_event
from antecede.protocols.tno.live import LiveTotal
from antecede.protocols.tno.records import Asked, Told
from antecede.protocols.vcube_ps.packets import Pub
from antecede.trace import Event, Row
from antecede.wire.bulk import Release, Stage
from antecede.wire.cursors import parse_cursor
from antecede.wire.envelope import seal
from antecede.wire.requests import Begun, Info, Items
from tests.client.running import awaited, take
from tests.node.clusters import cluster, make, restart, until_all_have
from tests.node.kill import Load, at_rest
from tests.node.test_bulk import ask, rows
from tests.node.test_bulk import published as bulk_published

SETTINGS: dict[str, Any] = {"protocol": "total", "slots": 4}

#: By reader: its node and its filters, any two of which have topics in common.
READERS = ((0, ("a", "b")), (1, ("b", "c")), (2, ("#",)), (2, ("a", "c")), (1, ("+",)))


@asynccontextmanager
async def managed(count: int, base: Path, **more: Any) -> AsyncIterator[list[Node]]:
    """A cluster whose managers start together: none of them can join before most are there."""
    settings = SETTINGS | more
    async with AsyncExitStack() as stack:
        founder = make(0, (), base, **settings)
        starting = asyncio.ensure_future(founder.start())
        stack.push_async_callback(founder.stop)
        while not hasattr(founder, "listener") or not founder.listener.address[1]:
            await asyncio.sleep(0.01)
        nodes = [founder]
        for number in range(1, count):
            node = make(number, (founder.address,), base, slot=number, **settings)
            stack.push_async_callback(node.stop)
            nodes.append(node)
        await asyncio.gather(starting, *[node.start() for node in nodes[1:]])
        yield nodes


async def talk(nodes: Sequence[Node], count: int, order: str) -> list[list[Message]]:
    """Clients at every node publish on three topics as fast as they can; what each of READERS read."""
    taken = [sum(count // 3 for topic in "abc" if {topic, "#", "+"} & set(filters)) for _, filters in READERS]
    async with AsyncExitStack() as stack:
        feeds: list[Feed] = []
        for node, filters in READERS:
            bus = await stack.enter_async_context(nodes[node].connect())
            feeds.append(await stack.enter_async_context(bus.subscribe(*filters, order=order)))  # type: ignore[arg-type]

        async def publish(node: Node) -> None:
            async with node.connect() as bus:
                for number in range(count):
                    await bus.publish("abc"[number % 3], b"%d" % number)

        await asyncio.gather(*[publish(node) for node in nodes])
        return await asyncio.gather(
            *[take(feed, len(nodes) * expected) for feed, expected in zip(feeds, taken, strict=True)]
        )


async def published(node: Node, topic: str, body: bytes) -> tuple[int, int]:
    """Publish at `node`; the message's name once it is in the journal."""
    answer = node.publish_payload(seal(topic, body, time_us=0), 1)
    message = answer if isinstance(answer, CoreMessage) else await answer
    return message.source, message.seq


def disagreements(read: Sequence[list[Message]]) -> int:
    """Pairs of messages next to each other for one reader which another has the other way round."""
    found = 0
    for one, other in combinations(read, 2):
        place = {message.id: at for at, message in enumerate(other) if not message.out_of_order}
        common = [place[message.id] for message in one if message.id in place and not message.out_of_order]
        found += sum(before > after for before, after in pairwise(common))
    return found


@awaited
async def test_readers_at_different_nodes_agree_where_causal_order_alone_leaves_them_to_differ(tmp_path: Path) -> None:
    async with cluster(3, tmp_path / "total", **SETTINGS) as nodes:
        total = await talk(nodes, 60, "total")
        await until_all_have(nodes, 180)
        async with nodes[1].connect() as bus, bus.subscribe("#", since="0", order="total") as feed:
            replay = await take(feed, 180)
        rows = list(export_rows([tmp_path / "total" / f"n{number}" / "journal.db" for number in range(3)]))
        status = nodes[1].status()
    async with cluster(3, tmp_path / "causal", slots=4) as nodes:
        causal = await talk(nodes, 60, "causal")
    assert disagreements(total) == 0
    assert disagreements(causal) > 0
    assert not any(message.out_of_order for read in total for message in read)
    assert [message.id for message in total[2]] == [message.id for message in replay]
    assert status["counts"]["published"] == 60
    assert status["held"] == 0
    report = audit(rows, rules=(*PROMISES, TOTAL))
    assert report.ok, str(report)
    assert report.deliveries == 3 * 180


@awaited
async def test_a_manager_is_killed_in_the_middle_and_comes_back(tmp_path: Path) -> None:
    """Of three managers, the one that leads dies while messages are being numbered, with some of its own under way.

    These may come tagged: the others do not wait for its return.
    """
    settings: dict[str, Any] = {"managers": 3, "shorten_every": 30, "patience_s": 1.0}
    async with managed(4, tmp_path, **settings) as nodes:
        acknowledged: set[tuple[int, int]] = set()
        stopping = False

        async def publish(node: Node) -> None:
            number = 0
            while not stopping:
                number += 1
                acknowledged.add(await published(node, "abc"[number % 3], b"%d" % number))
                await asyncio.sleep(0.01)

        async with asyncio.TaskGroup() as tasks:
            doomed = tasks.create_task(publish(nodes[0]))
            for node in nodes[1:]:
                tasks.create_task(publish(node))
            await asyncio.sleep(1.0)
            doomed.cancel()
            nodes[0].abort()
            numbered = nodes[2].hub.position
            await until_all_have(nodes[1:], numbered + 30)  # without it
            nodes[0] = await restart(nodes[0], tmp_path, nodes[1], **(SETTINGS | settings))
            await until_all_have(nodes, nodes[2].hub.position + 30)
            stopping = True
        try:
            await until_all_have(nodes, sum(node.process.last_published("main") for node in nodes))
            rows = list(export_rows([tmp_path / f"n{number}" / "journal.db" for number in range(4)]))
        finally:
            await nodes[0].stop()
    report = audit(rows, rules=(*PROMISES, TOTAL))
    assert report.ok, str(report)
    for place in range(4):
        taken = {(row.source, row.seq) for row in rows if row.event is Event.DELIVER and row.node == place}
        assert acknowledged <= taken, "acknowledged and lost"


@pytest.mark.parametrize("patience_s", [0.5, 3600.0])
@awaited
async def test_who_was_silent_too_long_is_tagged_and_not_lost(tmp_path: Path, patience_s: float) -> None:
    """Node 2 stops right after its message was numbered: the others go on without it, and have it later.

    They do when their patience ends, or long before that because node 2 is found to be down.
    """
    settings = SETTINGS | {"patience_s": patience_s}
    async with cluster(3, tmp_path, **settings) as nodes:
        silent, numbered = nodes[2], asyncio.Event()
        send = silent.transport.send

        def cut(to: int, packet: Packet) -> None:
            if packet.messages or numbered.is_set():
                numbered.set()  # kept, and not on its way
            else:
                send(to, packet)

        silent.transport.send = cut  # type: ignore[method-assign]
        await published(silent, "a", b"late")
        await numbered.wait()
        silent.abort()
        async with nodes[0].connect() as bus, bus.subscribe("#", order="total") as feed:
            await bus.publish("a", b"in time")
            read = await take(feed, 1)
            nodes[2] = await restart(silent, tmp_path, nodes[0], **settings)
            try:
                read += await take(feed, 1)
                assert [(one.payload, one.out_of_order) for one in read] == [(b"in time", False), (b"late", True)]
                await until_all_have(nodes, 2)
            finally:
                await nodes[2].stop()
        await nodes[1].stop()
        nodes[1] = await restart(nodes[1], tmp_path, nodes[0], **settings)
        try:
            for node in nodes[:2]:  # from memory, and from the journal alone
                async with node.connect() as bus, bus.subscribe("#", since="0", order="total") as feed:
                    assert [one.out_of_order for one in await take(feed, 2)] == [False, True]
        finally:
            await nodes[1].stop()
        rows = list(export_rows([tmp_path / f"n{number}" / "journal.db" for number in range(3)]))
    report = audit(rows, rules=(*PROMISES, TOTAL))
    assert report.ok, str(report)
    assert report.deliveries == 6


@awaited
async def test_where_there_is_no_one_order_it_is_refused_with_the_remedy() -> None:
    async with cluster(1, slots=2) as (node,), node.connect() as bus:
        with pytest.raises(UsageError, match=r'order.*set protocol = "total" on all nodes'):
            async with bus.subscribe("#", order="total"):
                pass
        await bus.publish("a", b"the session goes on")


@awaited
async def test_every_feed_of_such_a_cluster_has_the_one_order_and_copies_are_counted(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        nodes = await stack.enter_async_context(cluster(3, tmp_path, **SETTINGS))
        buses = [await stack.enter_async_context(node.connect()) for node in nodes]
        orders = ("none", "fifo", "causal")
        feeds = [await stack.enter_async_context(b.subscribe("#", order=o)) for b, o in zip(buses, orders, strict=True)]  # type: ignore[arg-type]
        await asyncio.gather(*[bus.publish("t", b"", durability="replicated(2)") for bus in buses for _ in range(10)])
        read = await asyncio.gather(*[take(feed, 30) for feed in feeds])
        assert disagreements(read) == 0


@awaited
async def test_a_client_moves_and_is_answered_behind_what_it_read(tmp_path: Path) -> None:
    """Also behind what was numbered before its new node took part, of which that node has nothing to show."""
    async with cluster(2, tmp_path, **SETTINGS) as nodes:
        before = await published(nodes[0], "t", b"before")
        await until_all_have(nodes, 1)
        async with (
            make(2, (nodes[0].address,), None, **SETTINGS) as late,
            late.connect() as bus,
            bus.subscribe("t", order="total") as feed,
        ):
            await bus.publish("t", b"after", after=[MessageId(*before)])
            (message,) = await take(feed, 1)
            assert message.payload == b"after"


@awaited
async def test_rows_in_bulk_are_published_once_though_the_node_dies_before_they_are_numbered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = [str(number) for number in range(10)]
    async with cluster(2, tmp_path, **SETTINGS) as nodes:
        await published(nodes[1], "t", b"before")
        await until_all_have(nodes, 1)
        nodes[0].abort()  # which gives the numbers
        calls = itertools.count()

        def six(
            payloads: Sequence[bytes], level: int, size: int, make_promise: object
        ) -> tuple[list[CoreMessage], None]:
            if next(calls) == 6:
                raise StoppedError("that is enough")
            return [], None  # one by one, then

        monkeypatch.setattr(nodes[1], "publish_payloads", six)
        with pytest.raises(StoppedError):
            await ask(nodes[1], Stage("p", 0, rows(*bodies)), Release("job", 1, (("p", 1),)))
        await nodes[1].driver.settled()
        assert nodes[1].process.backlog == 6
        nodes[1].abort()
        async with AsyncExitStack() as stack:
            again = []
            for node in reversed(nodes):
                again.append(await restart(node, tmp_path, nodes[0], **SETTINGS))
                stack.push_async_callback(again[-1].stop)
                if node is nodes[1]:
                    await ask(again[0], Stage("q", 0, rows(*bodies)), Release("job", 1, (("q", 1),)))
            await published(again[0], "t", b"behind")
            await until_all_have(again, 12)
    assert bulk_published(tmp_path / "n0") == bulk_published(tmp_path / "n1") == bodies


@awaited
async def test_a_node_that_leaves_has_told_everything() -> None:
    async with cluster(3, **SETTINGS) as nodes:
        for number in range(20):
            nodes[2].publish_payload(seal("t", b"%d" % number, time_us=0), 0)
        await nodes[2].leave()
        await until_all_have(nodes[:2], 20)


@awaited
async def test_a_shorter_account_restores_the_same_node(tmp_path: Path) -> None:
    async with managed(3, tmp_path, managers=3) as nodes:
        for number in range(30):
            for node in nodes:
                await published(node, "t", b"%d" % number)
        await until_all_have(nodes, 90)
        nodes[2].abort()
        waiting = [await published(nodes[1], "t", b"cut off") for _ in range(3)]
        kept = [list(await node.journal.kept()) for node in nodes[:2] if node.journal is not None]
    for place, records in enumerate(kept):
        config = nodes[place].config
        short = NodeProtocol(config).make(place).compact(records)
        assert sum(isinstance(record, Told) for record in records) >= 90
        assert not any(isinstance(record, Told) for record in short)
        assert sum(isinstance(record, Asked) for record in short) <= 1 + len(waiting)
        whole, again = restored(place, config, records), restored(place, config, short)
        for state in (lambda one: one.module.published("main"), lambda one: one.module.managers_kept(), seen):
            assert state(whole) == state(again)
        assert again.publish("main", b"").seq == whole.publish("main", b"").seq
        assert NodeProtocol(config).make(place).compact(short) == short


def restored(place: int, config: NodeConfig, records: list[object]) -> LiveTotal:
    process = NodeProtocol(config).make(place)
    process.restore(records)
    process.start()
    assert isinstance(process.inner, LiveTotal)
    return process.inner


def seen(process: LiveTotal) -> tuple[dict[bytes, int], list[CoreMessage], bool]:
    module = process.module
    return module._clock.seen, module.waiting(), module.takes("main")


@awaited
async def test_a_journal_of_an_ordinary_node_is_refused(tmp_path: Path) -> None:
    async with cluster(1, tmp_path, slots=4) as (node,):
        await published(node, "t", b"")
    with pytest.raises(UsageError, match=r"was written with .vcube.; set that, or give the node an empty directory"):
        await make(0, (), tmp_path, **SETTINGS).start()


def test_a_reader_that_moves_asks_again_for_what_follows_a_tagged_message() -> None:
    """Of source 1, number 6 came tagged before 5. Who counted it would never ask another node for 5."""
    bus = SimpleNamespace(_frontier=Past(), _credit=lambda record: None)
    feed = Feed(cast(Bus, bus), 1, Subscription(("#",), None, "total", "block", 8, over_gaps=False))
    feed._connected(Info(0, 0, 0))
    feed._begin(Begun(1, 0, ((1, 4), (2, 0))))
    bodies = tuple(seal("t", body, time_us=0) for body in (b"a", b"6", b"b"))
    feed._take(Items(1, 0, bodies, ((1, 3),), ((2, 1, 1), (1, 6, 1), (2, 2, 1)), {}, {}, (1,)))
    assert feed._reached.seen == {1: 4, 2: 2}
    messages = [one for one in feed._queue if isinstance(one, Message)]
    assert [message.out_of_order for message in messages] == [False, True, False]
    assert [parse_cursor(message.cursor).seen for message in messages] == [{1: 4, 2: 1}, {1: 4, 2: 1}, {1: 4, 2: 2}]


def test_what_was_before_a_nodes_time_is_not_waited_for() -> None:
    hub = Hub(
        History(None, 0, partitions=Partitions(1, 2, "main"), entries_max=40, bytes_max=1 << 20), {0: 3}, total=True
    )
    assert not hub.has(((0, 4),))
    hub.settled = lambda: {0: 4}
    assert hub.has(((0, 4),))
    assert not hub.has(((0, 5),))


def test_settings_are_checked() -> None:
    with pytest.raises(UsageError, match="managers"):
        NodeConfig(protocol="total", slots=4, managers=5)
    with pytest.raises(UsageError, match="managers"):
        NodeConfig(protocol="total", managers=0)
    with pytest.raises(UsageError, match="patience_s"):
        NodeConfig(protocol="total", patience_s=0)


def test_events_are_looked_at_before_anybody_takes_them() -> None:
    event = encode_event(CoreMessage("main", 1, 7, (), b"x"), 0, 3, (), ())
    process = NodeProtocol(NodeConfig(protocol="total", slots=8)).make(0)
    process.check([Pub((CoreMessage("main", 1, 7, (), event),))])
    with pytest.raises(ProtocolError, match="calls itself"):
        process.check([Pub((CoreMessage("main", 2, 7, (), event),))])
    with pytest.raises(ProtocolError, match="has no timestamp"):
        process.check([Pub((CoreMessage("main", 1, 7, (), b"x"),))])


@pytest.mark.slow
def test_processes_are_killed_under_load_and_all_have_one_order(tmp_path: Path) -> None:
    """Four processes, three of them managers, killed one after the other, the one that leads twice."""
    load, rows = asyncio.run(asyncio.wait_for(killed(tmp_path, victims=[0, 3, 1, 0]), 300))
    report = audit(rows, rules=(*PROMISES, TOTAL))
    tagged = sum(row.note == "out_of_order" for row in rows if row.event is Event.DELIVER)
    print(f"{len(load.acknowledged)} acknowledged, {load.uncertain} uncertain, {tagged} deliveries tagged, {report}")
    assert report.ok, str(report)
    assert load.acknowledged
    for node in range(4):
        taken = {(row.source, row.seq) for row in rows if row.event is Event.DELIVER and row.node == node}
        assert load.acknowledged <= taken, "acknowledged and lost"


async def killed(directory: Path, *, victims: list[int]) -> tuple[Load, list[Row]]:
    settings: dict[str, Any] = {"protocol": "total", "managers": 3, "patience_s": 2.0, "shorten_every": 200}
    async with LocalCluster(directory, nodes=4, **settings) as running:
        load = Load(running, 1)
        clients = [asyncio.create_task(load.run(node)) for node in range(4)]
        for victim in victims:
            await asyncio.sleep(2.0)
            await running.kill(victim)
            await asyncio.sleep(2.0)
            await running.start(victim)
        await asyncio.sleep(2.0)
        await at_rest(running, load, clients, 60)
        return load, list(export_rows([running.journal(node) for node in range(4)]))
