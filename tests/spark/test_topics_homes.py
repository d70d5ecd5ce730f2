"""Topics read from the homes of their partitions: a query goes on at any of them, and every message is read once."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from pickle import dumps, loads
from typing import Any, NamedTuple

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from antecede import Node
from antecede.client.bulk import BrokenError
from antecede.core import UsageError
from antecede.core.epochs import epoch_of
from antecede.core.errors import DeniedError, UnreachableError
from antecede.core.partitions import split_stream
from antecede.journal import Retention
from antecede.node.bulk import service
from antecede.spark.topics.chunks import Chunk
from antecede.spark.topics.columns import SCHEMA
from antecede.spark.topics.options import source_options
from antecede.spark.topics.slices import Slice
from antecede.spark.topics.source import TopicReader
from antecede.spark.topics.stores import NodeStore
from antecede.spark.topics.stream import TopicStream
from antecede.wire.security import init_certificates, new_token

from ..client.running import awaited, until
from ..node.clusters import cluster, make, restart

PARTITIONS: dict[str, Any] = {"partitions": 8, "replicas": 2}


class Row(NamedTuple):
    source: int
    seq: int
    topic: str
    payload: bytes


def options(*nodes: Node, **more: object) -> dict[str, str]:
    url = "antecede://" + ",".join(node.address for node in nodes)
    return {"url": url, "topics": "#", "since": "earliest"} | {name: str(value) for name, value in more.items()}


def stream(*nodes: Node, **more: object) -> TopicStream:
    return TopicStream(source_options(options(*nodes, **more)), SCHEMA)


def rows(source: TopicStream | TopicReader, parts: Any) -> list[Row]:
    """Task after task, as an executor gets them."""
    batches = [batch for part in loads(dumps(list(parts))) for batch in source.read(part)]
    return [Row(*[one[name] for name in Row._fields]) for batch in batches for one in batch.to_pylist()]


def batch(
    source: TopicStream, start: dict[str, Any], limit: ReadLimit | None = None
) -> tuple[dict[str, Any], list[Row]]:
    """The next batch: its end, and its rows."""
    end = source.latestOffset(start, limit or ReadAllAvailable())
    return end, rows(source, source.partitions(start, end)) if end != start else []


async def read_all(
    source: TopicStream, start: dict[str, Any], count: int, limit: ReadLimit | None = None
) -> tuple[dict[str, Any], list[Row]]:
    """Batches until there are `count` rows."""
    found: list[Row] = []

    async def read() -> None:
        nonlocal start
        start, some = await asyncio.to_thread(batch, source, start, limit)
        found.extend(some)

    async with asyncio.timeout(60):
        while len(found) < count:
            await read()
    return start, found


async def publish(node: Node, first: int, count: int, token: str = "") -> None:
    async with node.connect(token=token) as bus:
        for number in range(first, first + count):
            await bus.publish(f"rooms/{number % 12}/chat", b"%d" % number)


def check(found: list[Row], count: int) -> None:
    """Every message once; those of a stream in their order."""
    assert sorted(int(row.payload) for row in found) == list(range(count))
    last: dict[int, int] = {}
    for row in found:
        assert row.seq == last.get(row.source, 0) + 1
        last[row.source] = row.seq


@asynccontextmanager
async def running(count: int, base: Path, **more: Any) -> Any:
    """A cluster whose homes have settled."""
    async with cluster(count, base, **more) as nodes:
        if "partitions" in more:
            names = nodes[0].partitions.names
            await until(lambda: all(len(node.roster.others()) == count - 1 for node in nodes))
            await until(
                lambda: (
                    all(node.process.takes(names[one]) for node in nodes for one in node.taking.homes)
                    and sum(len(node.taking.homes) for node in nodes) == len(names) * more["replicas"]
                )
            )
        yield nodes


async def delivered(nodes: list[Node], count: int) -> None:
    """Every message is at all homes of its partition."""
    replicas = nodes[0].config.replicas if nodes[0].partitions.count > 1 else len(nodes)

    def copies() -> int:
        return sum(
            seq
            for node in nodes
            for at, seq in node.hub.delivered.items()
            if node.partitions.count == 1 or split_stream(at)[0] in node.taking.homes
        )

    await until(lambda: copies() >= count * replicas)


@pytest.mark.parametrize("settings", [{}, PARTITIONS], ids=["one partition", "several"])
@awaited
async def test_a_query_goes_on_at_other_nodes_when_its_node_is_gone_for_good(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    async with running(3, tmp_path, **settings) as nodes:
        for number, node in enumerate(nodes):
            await publish(node, number * 30, 30)
        await delivered(nodes, 90)
        source = stream(nodes[0])
        start = await asyncio.to_thread(source.initialOffset)
        middle, found = await read_all(source, start, 20, ReadMaxRows(20))
        end = await asyncio.to_thread(source.latestOffset, middle, ReadAllAvailable())
        parts = await asyncio.to_thread(source.partitions, middle, end)
        nodes[0].abort()
        # The tasks were planned for a node that is gone. So was the batch, for a driver that starts again elsewhere.
        rest = await asyncio.to_thread(rows, source, parts)
        again = stream(nodes[1])
        same = await asyncio.to_thread(lambda: rows(again, again.partitions(middle, end)))
        assert sorted(rest) == sorted(same)
        await publish(nodes[2], 90, 30)
        _, more = await read_all(again, end, 30)
        check(found + rest + more, 120)
        # The first query still knows nodes that its url does not name.
        _, more_there = await read_all(source, end, 30)
        assert sorted(more) == sorted(more_there)


@awaited
async def test_partitions_are_read_at_different_homes_each_in_the_order_of_its_home(tmp_path: Path) -> None:
    async with running(3, tmp_path, **PARTITIONS) as nodes:
        for number, node in enumerate(nodes):
            await publish(node, number * 40, 40)
        await delivered(nodes, 120)
        reader = TopicReader(source_options(options(nodes[0], rowsPerPartition=25)), SCHEMA)
        parts = [part for part in await asyncio.to_thread(reader.partitions) if isinstance(part, Slice)]
        assert {part.node for part in parts} == {0, 1, 2}
        assert len(parts) > 3  # more than one task at a node
        homes = {
            part.node: {one for other in parts if other.node == part.node for one in other.partitions} for part in parts
        }
        assert sum(map(len, homes.values())) == len(set().union(*homes.values()))
        found = await asyncio.to_thread(rows, reader, parts)
        check(found, 120)
        for node in nodes:
            assert node.journal is not None
            page = await node.journal.read(0, limit=1000)
            mine = [(one.message.topic, one.message.source, one.message.seq) for one in page.items]
            order = {key: at for at, key in enumerate(mine)}
            for partition in homes[node.slot]:
                read = [(f"p{partition}", row.source % 1024, row.seq) for row in found if row.source >> 10 == partition]
                assert [order[key] for key in read] == sorted(order[key] for key in read)


@awaited
async def test_a_task_that_loses_its_node_in_the_middle_reads_the_rest_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "PAGE_BYTES", 200)
    async with running(2, tmp_path) as nodes:
        await publish(nodes[0], 0, 20)
        await publish(nodes[1], 20, 20)
        await delivered(nodes, 40)
        reader = TopicReader(source_options(options(nodes[0])), SCHEMA)
        parts = await asyncio.to_thread(reader.partitions)
        read = NodeStore.read
        pages = []

        def breaking(self: NodeStore, *args: Any) -> Iterator[Chunk]:
            for chunk in read(self, *args):
                pages.append(self.node)
                yield chunk
                if pages == [0, 0, 0]:
                    raise BrokenError("the connection broke")

        monkeypatch.setattr(NodeStore, "read", breaking)
        check(await asyncio.to_thread(rows, reader, parts), 40)
        assert pages[:3] == [0, 0, 0]
        assert len(pages) > 4


@awaited
async def test_limits_targets_and_how_far_a_query_is_behind(tmp_path: Path) -> None:
    async with running(3, tmp_path, **PARTITIONS) as nodes:
        await publish(nodes[0], 0, 60)
        await delivered(nodes, 60)
        source = stream(nodes[1])
        start = await asyncio.to_thread(source.initialOffset)
        end, found = await asyncio.to_thread(batch, source, start, ReadMaxRows(12))
        assert 0 < len(found) <= 14  # twelve by their shares, each rounded up
        report = await asyncio.to_thread(source.reportLatestOffset)
        assert report is not None
        assert report["rowsBehind"] == 60 - len(found)
        assert sum(report["rowsBehindByPartition"].values()) == report["rowsBehind"]
        assert report["bytesBehind"] == sum(report["bytesBehindByPartition"].values())
        assert report["bytesBehind"] >= report["rowsBehind"]
        small = stream(nodes[1], maxBytesPerBatch=1)
        _, some = await asyncio.to_thread(batch, small, end, ReadMaxBytes(1))
        assert 0 < len(some) < 60 - len(found)
        await asyncio.to_thread(source.prepareForTriggerAvailableNow)
        await publish(nodes[0], 60, 10)
        await delivered(nodes, 70)
        while (step := await asyncio.to_thread(batch, source, end, ReadMaxRows(20)))[1]:
            end, found = step[0], found + step[1]
        check(found, 60)  # and not the ten that came after the start of the run


@awaited
async def test_what_no_home_has_any_more_is_named_and_may_be_left_out(tmp_path: Path) -> None:
    async with running(2, tmp_path) as nodes:
        await publish(nodes[0], 0, 40)
        await delivered(nodes, 40)
        source = stream(*nodes)
        start, found = await read_all(source, await asyncio.to_thread(source.initialOffset), 5, ReadMaxRows(5))
        assert nodes[0].journal is not None
        await nodes[0].journal.retain(Retention(bytes_max=600))
        _, rest = await asyncio.to_thread(batch, source, start)
        check(found + rest, 40)  # the other node has them
        assert nodes[1].journal is not None
        await nodes[1].journal.retain(Retention(bytes_max=600))
        with pytest.raises(UsageError, match=r"messages 0\.6 to 0\.\d+ are at none of their homes"):
            await asyncio.to_thread(batch, source, start)
        lenient = stream(*nodes, failOnDataLoss="false")
        _, left = await asyncio.to_thread(batch, lenient, start)
        assert [row.payload for row in left] == [b"%d" % number for number in range(40 - len(left), 40)]
        assert 0 < len(left) < 35


@awaited
async def test_checkpoints_of_one_node(tmp_path: Path) -> None:
    async with running(2, tmp_path) as nodes:
        await publish(nodes[0], 0, 10)
        await publish(nodes[1], 10, 10)
        await delivered(nodes, 20)
        old = {"node": 1, "position": 4}
        alone = stream(nodes[1], oneNode="true")
        new, rest = await asyncio.to_thread(batch, alone, old)
        assert new == {"node": 1, "position": 20}
        source = stream(nodes[0])
        end, found = await asyncio.to_thread(batch, source, old)
        assert found == rest
        assert list(end) == ["p0"]
        with pytest.raises(UsageError, match="is one node, the query's checkpoint was made by asking the homes"):
            await asyncio.to_thread(batch, alone, end)
        for wrong, said in [
            ({"node": 7, "position": 4}, "node 7, which is not in"),
            ({"x": "y"}, "is not that of a query over topics"),
        ]:
            with pytest.raises(UsageError, match=said):
                await asyncio.to_thread(batch, source, wrong)
        nodes[1].abort()
        impatient = stream(nodes[0], reconnect=1)
        with pytest.raises(UnreachableError, match=r"a home of partition p0 \(nodes 1\)"):
            await asyncio.to_thread(batch, impatient, old)


@awaited
async def test_what_cannot_be_asked_of_several_partitions(tmp_path: Path) -> None:
    async with running(2, tmp_path, **PARTITIONS) as nodes:
        await publish(nodes[0], 0, 24)
        await delivered(nodes, 24)
        with pytest.raises(UsageError, match="is a position of one node"):
            await asyncio.to_thread(stream(nodes[0], since="12").initialOffset)
        with pytest.raises(UsageError, match="does not have all partitions"):
            await asyncio.to_thread(batch, stream(nodes[0]), {"node": 0, "position": 4})
        narrow = stream(nodes[0], topics="rooms/1/chat")
        start = await asyncio.to_thread(narrow.initialOffset)
        assert len(start) == 1
        _, found = await asyncio.to_thread(batch, narrow, start)
        assert [row.payload for row in found] == [b"1", b"13"]
        with pytest.raises(UsageError, match="made for other topics"):
            await asyncio.to_thread(batch, stream(nodes[0]), start)
        async with nodes[0].connect() as bus, bus.subscribe("#", since="0") as feed:
            cursor = [await anext(feed) for _ in range(10)][-1].cursor
        reader = TopicReader(source_options(options(nodes[1], since=cursor)), SCHEMA)
        rest = await asyncio.to_thread(lambda: rows(reader, reader.partitions()))
        assert len(rest) == 14


@awaited
async def test_a_node_that_is_down_is_waited_for_where_only_it_has_a_partition(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack, running(2, tmp_path, partitions=4, replicas=1) as nodes:
        await publish(nodes[0], 0, 24)
        await delivered(nodes, 24)
        source = stream(nodes[0], reconnect=1)
        start = await asyncio.to_thread(source.initialOffset)
        nodes[1].abort()
        with pytest.raises(UnreachableError, match=r"a home of partition p\d \(nodes 1\)"):
            await asyncio.to_thread(batch, source, start)
        patient = stream(nodes[0], reconnect=60)
        reading = asyncio.create_task(read_all(patient, start, 24))
        again = await restart(nodes[1], tmp_path, nodes[0], partitions=4, replicas=1)
        await stack.enter_async_context(_stopped(again))
        _, found = await reading
        check(found, 24)


@asynccontextmanager
async def _stopped(node: Node) -> Any:
    try:
        yield node
    finally:
        await node.stop()


@awaited
async def test_one_order_for_all_is_read_by_position(tmp_path: Path) -> None:
    async with running(2, tmp_path, protocol="total", slots=2) as nodes:
        await publish(nodes[0], 0, 10)
        await publish(nodes[1], 10, 10)
        await delivered(nodes, 20)
        source = stream(*nodes)
        start, found = await read_all(source, await asyncio.to_thread(source.initialOffset), 7, ReadMaxRows(7))
        _, rest = await read_all(source, start, 13)
        check(found + rest, 20)
        elsewhere = {"p0": "1" + start["p0"][start["p0"].index(":") :]}
        assert start["p0"].startswith("0:7@")
        _, rest_there = await read_all(source, elsewhere, 13)
        assert rest_there == rest


@awaited
async def test_a_home_that_fetched_the_past_gives_it_by_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first home of all partitions is gone for good, after another node has become one and has fetched the past."""
    for pause in ("antecede.node.taking._PAUSE_S", "antecede.node.past.homes._PAUSE_S"):
        monkeypatch.setattr(pause, 0.2)
    settings: dict[str, Any] = {"partitions": 4, "replicas": 2}
    async with cluster(1, tmp_path, **settings) as (first,), AsyncExitStack() as stack:
        await publish(first, 0, 60)
        source = stream(first)
        start = await asyncio.to_thread(source.initialOffset)
        middle, found = await read_all(source, start, 10, ReadMaxRows(10))
        second = make(1, (first.address,), tmp_path, **settings)
        await stack.enter_async_context(second)
        await until(lambda: second.homes.fetched == 60)
        await publish(second, 60, 20)
        first.abort()
        _, rest = await read_all(stream(second), middle, 80 - len(found))
        check(found + rest, 80)


@awaited
async def test_a_batch_ends_before_what_only_its_node_has_while_another_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(2, tmp_path) as nodes:
        await publish(nodes[0], 0, 10)
        await delivered(nodes, 10)
        monkeypatch.setattr("antecede.node.driving.Replicas.acknowledged", lambda *_: 4)
        source = stream(nodes[0])
        start = await asyncio.to_thread(source.initialOffset)
        start, found = await asyncio.to_thread(batch, source, start)
        assert [row.seq for row in found] == [1, 2, 3, 4]
        assert (await asyncio.to_thread(batch, source, start))[1] == []
        reader = TopicReader(source_options(options(nodes[0])), SCHEMA)  # a table has all there is
        check(await asyncio.to_thread(lambda: rows(reader, reader.partitions())), 10)
        nodes[1].abort()
        await until(lambda: 1 in nodes[0].process.down)
        _, rest = await asyncio.to_thread(batch, source, start)
        check(found + rest, 10)


@awaited
async def test_homes_with_certificates_and_tokens(tmp_path: Path) -> None:
    """Every home is reached by its certificate, asked by the token, and gives only what the token may read."""
    certificates, tokens = tmp_path / "certificates", tmp_path / "tokens.json"
    init_certificates(certificates, cluster="antecede", nodes=("n0", "n1", "n2"))
    settings = PARTITIONS | {"tls": certificates, "tokens": tokens}
    some = new_token(tokens, "some", subscribe=("rooms/3/#",))
    every = new_token(tokens, "every", publish=("#",), subscribe=("#",))
    async with running(3, tmp_path, **settings) as nodes:
        await publish(nodes[0], 0, 60, every)
        await delivered(nodes, 60)
        access = {"tls": certificates, "token": every}
        source = stream(nodes[1], **access)
        start = await asyncio.to_thread(source.initialOffset)
        end, found = await read_all(source, start, 60)
        check(found, 60)
        read_at = {part.node for part in await asyncio.to_thread(source.partitions, start, end)}
        assert len(read_at) > 1
        few = stream(nodes[1], **access | {"token": some, "topics": "rooms/3/#"})
        _, found = await read_all(few, await asyncio.to_thread(few.initialOffset), 5)
        assert [int(row.payload) for row in found] == [3, 15, 27, 39, 51]
        with pytest.raises(DeniedError, match="may not subscribe to '#'"):
            await read_all(stream(nodes[1], **access | {"token": some}), start, 1)


@pytest.mark.parametrize("settings", [{}, PARTITIONS], ids=["one partition", "several"])
@awaited
async def test_a_query_reads_on_behind_a_slot_that_got_another_owner(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with running(3, tmp_path, slots=3, **settings) as nodes:
        for number, node in enumerate(nodes):
            await publish(node, number * 20, 20)
        await delivered(nodes, 60)
        source = stream(nodes[0])
        start = await asyncio.to_thread(source.initialOffset)
        middle, found = await read_all(source, start, 40, ReadMaxRows(40))
        assert len(found) < 60
        await nodes[2].leave()
        async with make(3, (nodes[0].address,), tmp_path, slots=3, **settings) as fresh:
            assert fresh.slot == 2
            await publish(fresh, 60, 20)
            _, rest = await read_all(source, middle, 80 - len(found))
        rows = found + rest
        assert sorted(int(row.payload) for row in rows) == list(range(80))
        for at in {row.source for row in rows}:
            seqs = [row.seq for row in rows if row.source == at]
            assert seqs == sorted(seqs)
        assert {epoch_of(row.seq) for row in rows if int(row.payload) >= 60} == {1}


@awaited
async def test_a_table_is_in_causal_order_across_partitions_by_its_clock(tmp_path: Path) -> None:
    """Each message is published after the one before was read, at another node and on another topic. By then every home
    has that one, so none is named: only the clocks tell."""
    async with running(3, tmp_path, **PARTITIONS) as nodes:
        for number in range(40):
            at = nodes[number % 3]
            async with at.connect() as bus, bus.subscribe(f"rooms/{(number - 1) % 12}/chat", since="0") as feed:
                while number and (await anext(feed)).payload != b"%d" % (number - 1):
                    pass
                await bus.publish(f"rooms/{number % 12}/chat", b"%d" % number)
            await delivered(nodes, number + 1)
        reader = TopicReader(source_options(options(nodes[0])), SCHEMA)
        parts = await asyncio.to_thread(reader.partitions)
        batches = await asyncio.to_thread(lambda: [batch for part in parts for batch in reader.read(part)])
        table = sorted([row for batch in batches for row in batch.to_pylist()], key=lambda row: row["clock"])
        assert [int(row["payload"]) for row in table] == list(range(40))
