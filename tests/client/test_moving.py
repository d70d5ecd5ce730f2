"""Feeds and cursors that move from node to node: nothing is skipped in silence, and nothing comes twice."""

import asyncio
import random
from pathlib import Path

import pytest

import antecede
from antecede import Bus, GapError, Node
from antecede.journal import Retention
from antecede.wire.cursors import Cursor, parse_cursor
from tests.client.running import awaited, bodies, take, until
from tests.node.clusters import cluster, make, until_all_have


def send_to(bus: Bus, node: Node) -> None:
    """From now on this client dials `node` only."""
    host, port = node.listener.address
    bus._dialler._addresses = ((host, port),)
    bus._dialler.others = ()


def move(bus: Bus, node: Node) -> None:
    send_to(bus, node)
    assert bus._connection is not None
    bus._connection.abort()


async def publish(node: Node, *payloads: str, topic: str = "t") -> None:
    async with node.connect() as bus:
        for payload in payloads:
            await bus.publish(topic, payload.encode())


# -- gaps --------------------------------------------------------------------------------------------------------------


@awaited
async def test_a_reader_that_moves_to_a_newcomer_is_told_what_is_missing() -> None:
    """The newcomer has delivered nothing of node 0 since it joined: there is nothing to notice a jump by."""
    async with cluster(2) as nodes:
        await publish(nodes[0], *"abc")
        await publish(nodes[1], "x")
        await until_all_have(nodes, 4)
        async with make(2, (nodes[0].address,), None) as newcomer, antecede.connect(nodes[0].url) as bus:
            async with bus.subscribe("#", since="0") as feed:
                await take(feed, 2)
                move(bus, newcomer)
                assert len(bodies(await take(feed, 2))) == 2  # those that were here already
                await until(lambda: bus.node == newcomer.slot)
                await publish(nodes[0], "d")
                assert bodies(await take(feed, 1)) == [b"d"]  # it had everything: nothing is missing
            async with bus.subscribe("#", since="0") as feed:
                assert bodies(await take(feed, 1)) == [b"d"]  # all there is, at the newcomer
        async with antecede.connect(nodes[0].url) as bus, bus.subscribe("#", since="0", queue=1) as feed:
            first = await take(feed, 1)
            async with make(3, (nodes[0].address,), None) as newcomer:
                move(bus, newcomer)
                with pytest.raises(GapError, match=r"this node does not have messages") as gap:
                    await take(feed, 10)
                counts = dict.fromkeys((0, 1), 0) | {first[0].source: 1}
                reached = {source: seq for source, _, seq in gap.value.missing}
                assert reached == {0: 4, 1: 1} if first[0].source != 1 else {0: 4}
                assert all(low > counts[source] for source, low, _ in gap.value.missing)


@awaited
async def test_a_reader_that_moves_to_a_node_whose_retention_was_there_first(tmp_path: Path) -> None:
    async with cluster(2, tmp_path, recent_messages=1) as nodes, antecede.connect(nodes[0].url) as bus:
        await publish(nodes[0], *"abcdef")
        await until_all_have(nodes, 6)
        assert nodes[1].journal is not None
        async with bus.subscribe("t", since="0", queue=2) as feed:
            assert bodies(await take(feed, 1)) == [b"a"]
            await nodes[1].journal.retain(Retention(bytes_max=1))
            removed = nodes[1].hub.history.oldest
            assert removed >= 4
            move(bus, nodes[1])
            with pytest.raises(GapError, match=rf"does not have messages (0\.\d to )?0\.{removed}: ") as gap:
                await take(feed, 6)
            ((source, low, high),) = gap.value.missing
            assert (source, high) == (0, removed)
            assert 2 <= low <= 4  # what was on its way here at the time is not missing


@awaited
async def test_since_0_is_everything_there_still_is(tmp_path: Path) -> None:
    async with Node(port=0, directory=tmp_path, recent_messages=1) as node, node.connect() as bus:
        await publish(node, *"abcdef")
        async with bus.subscribe("t", since="0") as feed:
            messages = await take(feed, 6)
        assert node.journal is not None
        await node.journal.retain(Retention(bytes_max=1))
        oldest = node.hub.history.oldest
        assert oldest >= 3
        async with bus.subscribe("t", since="0") as feed:
            await publish(node, "g")
            assert (await take(feed, 1))[0].seq == oldest + 1
        # A cursor is exact: what followed it is gone, and the reader is told.
        with pytest.raises(GapError, match=r"positions 2 to \d were removed"):
            async with bus.subscribe("t", since=messages[0].cursor) as feed:
                await take(feed, 1)


@awaited
async def test_a_feed_from_another_node_with_nothing_missing(tmp_path: Path) -> None:
    """The filter takes little, and retention removed much: what the feed passed over is not missing."""
    async with (
        cluster(2, tmp_path, recent_messages=1) as nodes,
        antecede.connect(nodes[0].url) as bus,
        bus.subscribe("rare") as feed,
    ):
        await publish(nodes[0], "1", topic="rare")
        assert bodies(await take(feed, 1)) == [b"1"]
        await publish(nodes[0], *"abcdef")
        await until_all_have(nodes, 7)
        for node in nodes:
            assert node.journal is not None
            await node.journal.retain(Retention(bytes_max=1))
        nodes[0].hub.tell_progress()
        await until(lambda: feed._reached.seen == {0: 7})
        move(bus, nodes[1])
        await publish(nodes[0], "2", topic="rare")
        assert bodies(await take(feed, 1)) == [b"2"]


# -- cursors -----------------------------------------------------------------------------------------------------------


@awaited
async def test_a_cursor_holds_at_every_node(tmp_path: Path) -> None:
    async with cluster(3, tmp_path) as nodes:
        for number in range(30):
            await publish(nodes[number % 3], str(number), topic=f"t/{number % 2}")
        await until_all_have(nodes, 30)
        async with antecede.connect(nodes[0].url) as bus, bus.subscribe("t/0", since="0") as feed:
            whole = await take(feed, 15)
        for at in (0, 7, 13):
            rest = {message.id for message in whole[at + 1 :]}
            for node in nodes:
                async with antecede.connect(node.url) as bus, bus.subscribe("t/0", since=whole[at].cursor) as feed:
                    again = await take(feed, len(rest))
                    assert {message.id for message in again} == rest
                    # Its cursors, and those read there, hold at all the others.
                    other = antecede.connect(nodes[(node.slot + 1) % 3].url)
                    async with other as bus2, bus2.subscribe("t/0", since=again[0].cursor) as feed2:
                        later = await take(feed2, len(rest) - 1)
                        assert {message.id for message in later} == {message.id for message in again[1:]}


@awaited
async def test_messages_that_were_queued_when_the_feed_moved_have_cursors_of_their_own_node(tmp_path: Path) -> None:
    async with cluster(2, tmp_path) as nodes, antecede.connect(nodes[0].url) as bus:
        async with bus.subscribe("t") as feed:
            await publish(nodes[0], *"abc")
            await until(lambda: feed.waiting == 3)
            await until_all_have(nodes, 3)
            move(bus, nodes[1])
            await until(lambda: bus.node == 1)
            await publish(nodes[1], "d")
            messages = await take(feed, 4)
        assert [parse_cursor(message.cursor).node for message in messages] == [0, 0, 0, 1]
        assert [parse_cursor(message.cursor).seen for message in messages] == [{0: 1}, {0: 2}, {0: 3}, {0: 3, 1: 1}]


@awaited
async def test_positions_of_one_node_are_not_asked_of_another(tmp_path: Path) -> None:
    """Node 1 joined late, so its positions are lower. The feed moves there, and its connection breaks there."""
    async with cluster(1, tmp_path) as nodes, antecede.connect(nodes[0].url) as bus:
        await publish(nodes[0], *"abcdefgh")
        async with make(1, (nodes[0].address,), tmp_path) as late, bus.subscribe("t") as feed:
            for count, node in enumerate([nodes[0], late, late, nodes[0], nodes[0]]):
                await publish(nodes[0], str(count))
                assert bodies(await take(feed, 1)) == [str(count).encode()]
                move(bus, node)
                await publish(nodes[0], "more")
                assert bodies(await take(feed, 1)) == [b"more"]


def test_cursors_old_and_new() -> None:
    assert parse_cursor("0") == Cursor(0)
    assert parse_cursor("17") == Cursor(17)
    assert parse_cursor("3:17") == Cursor(17, 3)
    assert parse_cursor("3:17@0.5,12.900") == Cursor(17, 3, None, {0: 5, 12: 900})
    assert parse_cursor("3.99:17@0.5") == Cursor(17, 3, 99, {0: 5})
    assert parse_cursor("3:17@") == Cursor(17, 3, None, {})
    for wrong in (
        "",
        "x",
        "3:",
        ":3",
        "3:17@0",
        "3:17@0.5,",
        "3:17@0.5;1.2",
        "-1",
        "3:17 ",
        "9" * 30,
        "3:17@262144.5",
        None,
    ):
        with pytest.raises(antecede.UsageError, match="cursor"):
            parse_cursor(wrong)  # type: ignore[arg-type]


@awaited
async def test_a_cursor_of_a_node_that_forgot_its_past_is_refused() -> None:
    async with Node(port=0) as node, node.connect() as bus, bus.subscribe("t") as feed:
        await bus.publish("t", b"x")
        (message,) = await take(feed, 1)
    async with Node(port=0) as node, node.connect() as bus:
        await bus.publish("t", b"y")
        await bus.publish("t", b"z")
        with pytest.raises(antecede.LostHistoryError, match="node 0 has no journal, and was started anew"):
            async with bus.subscribe("t", since=message.cursor):
                pass


# -- many moves --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["vcube", "gossip"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
@awaited
async def test_readers_that_move_under_load(tmp_path: Path, seed: int, protocol: str) -> None:
    rng = random.Random(seed)
    count = 150
    async with cluster(3, tmp_path, protocol=protocol, recent_messages=8) as nodes:

        async def load(node: Node) -> None:
            async with node.connect() as bus:
                for number in range(count):
                    await bus.publish(f"t/{number % 3}", b"%d" % number)
                    if number % 10 == 0:
                        await asyncio.sleep(0.01)

        async def read(since: str | None) -> list[antecede.MessageId]:
            found = []
            bus = antecede.connect(rng.choice(nodes).url)
            async with bus, bus.subscribe("t/0", "t/1", since=since, queue=5) as feed:
                opened.release()
                while len(found) < 2 * count:
                    message = await anext(feed)
                    found.append(message.id)
                    if rng.random() < 0.05 and bus._connection is not None:
                        move(bus, rng.choice(nodes))
            return found

        opened = asyncio.Semaphore(0)
        readers = [asyncio.create_task(read(since)) for since in ("0", None, None)]
        for _ in readers:
            await opened.acquire()
        await asyncio.gather(*[load(node) for node in nodes])
        wanted = [(node.slot, number + 1) for node in nodes for number in range(count) if number % 3 < 2]
        for reader in readers:
            found = await reader
            assert sorted(found) == sorted(wanted), f"seed {seed}"
            for node in nodes:
                own = [seq for source, seq in found if source == node.slot]
                assert own == sorted(own)
