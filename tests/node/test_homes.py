"""The past of a partition is at its homes: nodes that take it later give it to their readers, without a seam."""

import asyncio
from pathlib import Path

import pytest

import antecede
from antecede import GapError
from antecede.core import Message
from antecede.core.process import Acknowledgement
from antecede.journal import Retention
from antecede.node import following
from antecede.node.driving import Replicas
from antecede.node.past.reading import PastReader
from tests.client.running import awaited, bodies, take, until
from tests.node.clusters import cluster, make, restart
from tests.node.test_interest import ALONE, judged, taken, topic_at, until_settled

pytestmark = pytest.mark.usefixtures("short_pauses")


@awaited
async def test_a_feed_of_the_past_at_a_node_that_took_the_partition_later_gets_it_from_a_home(tmp_path: Path) -> None:
    async with cluster(2, tmp_path, **ALONE) as nodes:
        await until_settled(nodes)
        topic = topic_at(nodes[0])
        async with nodes[0].connect() as bus, bus.subscribe(topic) as feed:
            for number in range(10):
                await bus.publish(topic, b"%d" % number)
            first, *_ = await take(feed, 10)
        async with nodes[1].connect() as bus:
            async with bus.subscribe(topic, since=first.cursor) as feed:
                moved = await take(feed, 9)
                await bus.publish(topic, b"10")
                moved += await take(feed, 1)
            assert bodies(moved) == [b"%d" % number for number in range(1, 11)]
            async with bus.subscribe(topic, since="0") as feed:
                assert bodies(await take(feed, 11)) == [b"%d" % number for number in range(11)]
            async with bus.subscribe(topic, since=moved[4].cursor) as feed:
                assert bodies(await take(feed, 5)) == [b"%d" % number for number in range(6, 11)]
            async with bus.subscribe(topic, since=moved[-1].cursor) as feed:
                await bus.publish(topic, b"11")
                assert bodies(await take(feed, 1)) == [b"11"]
    assert judged(tmp_path, 2) == ()


@awaited
async def test_a_past_that_retention_removed_at_every_node_is_told(tmp_path: Path) -> None:
    async with cluster(2, tmp_path, **ALONE) as nodes:
        await until_settled(nodes)
        topic = topic_at(nodes[0])
        async with nodes[0].connect() as bus, bus.subscribe(topic) as feed:
            for number in range(4):
                await bus.publish(topic, b"%d" % number)
            first, *_ = await take(feed, 4)
            assert nodes[0].journal is not None
            await nodes[0].journal.retain(Retention(bytes_max=1))
            await bus.publish(topic, b"4")
        async with nodes[1].connect() as bus:
            async with bus.subscribe(topic, since=first.cursor) as feed:
                with pytest.raises(GapError, match="no node has them any more") as told:
                    await anext(feed)
            assert told.value.missing == ((first.source, 2, 4),)
            async with bus.subscribe(topic, since=first.cursor, over_gaps=True) as feed:
                assert bodies(await take(feed, 1)) == [b"4"]
            async with bus.subscribe(topic, since="0") as feed:
                await bus.publish(topic, b"later")
                assert bodies(await take(feed, 2)) == [b"4", b"later"]


@awaited
async def test_a_reader_of_everything_is_told_if_no_home_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The home is being restarted, say. Without a word the reader would go on without what only the home has."""
    monkeypatch.setitem(PastReader.read.__kwdefaults__, "patience_s", 0.5)
    async with cluster(3, tmp_path, **ALONE) as nodes:
        await until_settled(nodes)
        topic = topic_at(nodes[0])
        async with nodes[0].connect() as bus:
            first = await bus.publish(topic, b"old")
        async with nodes[1].connect() as bus, bus.subscribe(topic) as live:
            await nodes[0].stop()
            async with bus.subscribe(topic, since="0") as feed:
                with pytest.raises(GapError, match="the nodes that may have them do not answer") as told:
                    await anext(feed)
            assert told.value.missing == ((first.source, 1, 1),)
            async with nodes[2].connect() as out, bus.subscribe(topic, since="0", over_gaps=True) as feed:
                await out.publish(topic, b"new")
                assert bodies(await take(live, 1)) == bodies(await take(feed, 1)) == [b"new"]
            again = await restart(nodes[0], tmp_path, nodes[1], **ALONE)
            async with bus.subscribe(topic, since="0") as feed:
                assert bodies(await take(feed, 2)) == [b"old", b"new"]
            await again.stop()


@awaited
async def test_the_past_of_several_partitions_comes_in_causal_order_and_goes_on_without_a_seam(tmp_path: Path) -> None:
    """Answers follow questions in other partitions, of other homes, while more are published and readers move."""
    topics = [f"t/{number}" for number in range(12)]
    async with cluster(4, tmp_path, **ALONE) as nodes:
        await until_settled(nodes)
        over = False

        async def echo(at: int) -> int:
            """Publish after what was read last: every message follows the one it names."""
            count = 0
            async with nodes[at].connect() as bus, bus.subscribe("t/#") as feed:
                await bus.publish(topics[at], b"start")
                async for message in feed:
                    if over:
                        return count
                    count += 1
                    if message.id.slot == at:
                        continue
                    await bus.publish(topics[(count * 7 + at) % len(topics)], str(message.id).encode())
            return count

        async def follow(at: int, since: str) -> dict[str, int]:
            """By id: the place of each message. Moves to another node after every fifty messages."""
            places: dict[str, int] = {}
            while len(places) < 150:
                async with nodes[at % 4].connect() as bus, bus.subscribe(*topics[:8], since=since) as feed:
                    for _ in range(50):
                        message = await anext(feed)
                        assert str(message.id) not in places
                        places[str(message.id)] = len(places)
                        since = message.cursor
                        follows = message.payload.decode()
                        if follows in named and named[follows] in topics[:8]:
                            assert places.get(follows, -1) >= 0, f"{message.id} came before {follows}"
                at += 1
                await asyncio.sleep(0.7)  # what a node took for the feed, it leaves now and then
            return places

        named: dict[str, str] = {}

        async def note() -> None:
            async with nodes[0].connect() as bus, bus.subscribe("t/#", since="0") as feed:
                async for message in feed:
                    named[str(message.id)] = message.topic

        noting = asyncio.ensure_future(note())
        echoes = [asyncio.ensure_future(echo(at)) for at in (0, 1)]
        await asyncio.sleep(0.3)
        places = await asyncio.gather(follow(2, "0"), follow(3, "0"))
        over = True
        await asyncio.gather(*echoes)
        noting.cancel()
        assert all(len(one) >= 150 for one in places)
    assert judged(tmp_path, 4) == ()


@awaited
async def test_a_reader_whose_connection_breaks_amid_a_fetched_past_goes_on_behind_what_it_has(tmp_path: Path) -> None:
    async with cluster(2, tmp_path, **ALONE) as nodes:
        await until_settled(nodes)
        topic = topic_at(nodes[0])
        async with nodes[0].connect() as bus:
            for number in range(100):
                await bus.publish(topic, b"%d" % number)
        async with antecede.connect(nodes[1].url) as bus, bus.subscribe(topic, since="0", queue=8) as feed:
            read = bodies(await take(feed, 20))
            (session,) = nodes[1].sessions
            session.connection.abort()
            read += bodies(await take(feed, 80))
        assert read == [b"%d" % number for number in range(100)]


@awaited
async def test_a_cursor_of_an_earlier_life_goes_on_with_wider_filters(tmp_path: Path) -> None:
    """The node took the other partition behind the cursor, for the first time. It knows that after a restart, too."""
    async with cluster(2, tmp_path, **ALONE) as nodes:
        await until_settled(nodes)
        mine, other = topic_at(nodes[1]), topic_at(nodes[0])
        async with nodes[1].connect() as bus, bus.subscribe(mine) as feed:
            await bus.publish(mine, b"mine")
            (cursor,) = [message.cursor for message in await take(feed, 1)]
            await bus.publish(mine, b"more")
        async with nodes[0].connect() as bus:
            await bus.publish(other, b"other")
        async with nodes[1].connect() as bus, bus.subscribe(other):
            pass
        await nodes[1].stop()
        again = await restart(nodes[1], tmp_path, nodes[0], **ALONE)
        try:
            for since in (cursor, cursor.partition("@")[0]):
                async with again.connect() as bus, bus.subscribe(mine, other, since=since) as feed:
                    assert sorted(bodies(await take(feed, 2))) == [b"more", b"other"]
        finally:
            await again.stop()


@awaited
async def test_a_publication_does_not_wait_for_a_partition_that_its_node_is_leaving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_PATIENCE_S", 0.5)  # no node is left that could show the message
    async with cluster(3, tmp_path, **ALONE) as nodes:
        await until_settled(nodes)
        first, second = topic_at(nodes[0]), topic_at(nodes[1])
        async with nodes[2].connect() as bus, bus.subscribe(first):
            pass
        await nodes[0].stop()
        await until(lambda: not nodes[2].process.wants(nodes[2].partitions.names[nodes[2].partitions.of(first)]))
        ahead = antecede.MessageId(1024 * nodes[2].partitions.of(first), 1)
        async with nodes[2].connect() as bus:
            await bus.publish(second, b"follows", after=[ahead], timeout_s=20)


@awaited
async def test_what_is_published_behind_a_fetched_past_follows_it_everywhere(tmp_path: Path) -> None:
    """The node never delivered the question. It names it, and gives the answer a later time."""
    async with cluster(3, tmp_path, **ALONE) as nodes:
        await until_settled(nodes)
        question, answer = topic_at(nodes[0]), topic_at(nodes[1])
        async with nodes[0].connect() as bus:
            for _ in range(20):
                asked = await bus.publish(question, b"question")
        async with nodes[2].connect() as bus:
            async with bus.subscribe(question, since="0") as feed:
                await take(feed, 20)
            answered = await bus.publish(answer, b"answer")
        for node in nodes:
            async with node.connect() as bus, bus.subscribe(question, answer, since="0") as feed:
                read = await take(feed, 21)
                assert [message.id for message in read[-2:]] == [asked, answered]
        assert taken(nodes[2]) >= {asked.partition}


@awaited
async def test_a_new_home_fetches_the_past_before_the_old_one_lets_go(tmp_path: Path) -> None:
    async with cluster(2, tmp_path, **ALONE) as nodes:
        await until_settled(nodes)
        topics = [f"t/{number}" for number in range(20)]
        async with nodes[0].connect() as bus:
            for number in range(200):
                await bus.publish(topics[number % 20], b"%d" % number)
            third = make(2, (nodes[0].address,), tmp_path, **ALONE)
            await third.start()
            try:
                await until_settled([*nodes, third])
                moved = [topic for topic in topics if third.partitions.of(topic) in third.taking.homes]
                assert moved
                assert third.homes.fetched > 0
                assert third.status()["partitions"][0]["lacking"] == 0
                wanted = [b"%d" % number for number in range(200) if topics[number % 20] in moved]
                for node in nodes:
                    await node.stop()
                async with third.connect() as other, other.subscribe(*moved, since="0") as feed:
                    assert bodies(await take(feed, len(wanted))) == wanted
            finally:
                await third.stop()
    assert judged(tmp_path, 3) == ()


@awaited
async def test_a_node_that_leaves_hands_its_partitions_over(tmp_path: Path) -> None:
    async with cluster(3, tmp_path, **ALONE) as nodes:
        await until_settled(nodes)
        topics = [f"t/{number}" for number in range(20)]
        async with nodes[0].connect() as bus:
            for number in range(100):
                await bus.publish(topics[number % 20], b"%d" % number)
            kept = [topic for topic in topics if nodes[2].partitions.of(topic) in nodes[2].taking.homes]
            assert kept
            await until(lambda: nodes[2].hub.position == 5 * len(kept))
            await nodes[2].leave()
            await until_settled(nodes[:2])
            async with bus.subscribe("t/#", since="0") as feed:
                assert sorted(bodies(await take(feed, 100))) == sorted([b"%d" % number for number in range(100)])


@awaited
async def test_nodes_that_leave_at_a_time_do_not_rely_on_each_other(tmp_path: Path) -> None:
    async with cluster(4, tmp_path, **ALONE) as nodes:
        await until_settled(nodes)
        topics = [f"t/{number}" for number in range(20)]
        async with nodes[0].connect() as bus:
            for number in range(100):
                await bus.publish(topics[number % 20], b"%d" % number)
            await until(lambda: sum([node.hub.position for node in nodes]) == 100)
            await asyncio.gather(nodes[2].leave(), nodes[3].leave())
            await until_settled(nodes[:2])
            async with bus.subscribe("t/#", since="0") as feed:
                assert sorted(bodies(await take(feed, 100))) == sorted([b"%d" % number for number in range(100)])


@awaited
async def test_a_home_that_joined_behind_a_publication_counts_once_it_has_it() -> None:
    counted = Replicas(lambda name, peer: peer in (1, 2))
    promise: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    promise.set_result(Message("p1", 0, 5, (), b""))
    safe = counted.wait(promise, 2)
    await asyncio.sleep(0)
    counted.note([Acknowledgement(1, "p1", 5), Acknowledgement(2, "p1", 7, 6), Acknowledgement(3, "p1", 7)])
    assert not safe.done()
    assert len(counted) == 1
    assert counted.doubtful() == [("p1", 2, [5])]
    counted.confirm("p1", 2, [5])
    assert safe.done()
    assert len(counted) == 0


@awaited
async def test_copies_are_counted_at_homes_and_more_than_there_are_is_refused(tmp_path: Path) -> None:
    async with cluster(2, tmp_path, **ALONE) as nodes:
        await until_settled(nodes)
        async with nodes[0].connect() as bus:
            await bus.publish(topic_at(nodes[1]), b"its home is the other node", durability="replicated(1)")
            with pytest.raises(antecede.PublishError, match="0 other homes of this topic"):
                await bus.publish(topic_at(nodes[0]), b"its home is this node", durability="replicated(1)")
