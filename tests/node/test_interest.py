"""A node takes the partitions it is home of and those its clients need, and no other."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import antecede
from antecede import Node
from antecede.audit import audit
from antecede.journal import export_rows
from antecede.node import following
from antecede.node.metrics import metrics
from antecede.wire.bulk import Done, Release, Row, Stage, encode_rows
from tests.client.running import awaited, bodies, take, until
from tests.node.clusters import cluster
from tests.node.test_bulk import ask

pytestmark = pytest.mark.usefixtures("short_pauses")

#: One home for each of eight partitions.
ALONE: dict[str, Any] = {"partitions": 8, "replicas": 1, "linger_s": 0.5}


def taken(node: Node) -> set[int]:
    return {number for number, name in enumerate(node.partitions.names) if node.process.takes(name)}


async def until_settled(nodes: list[Node]) -> None:
    """Each node takes the partitions it is home of, and no other."""
    everything = list(range(8))
    await until(lambda: sorted(home for node in nodes for home in node.taking.homes) == everything)
    await until(lambda: all(taken(node) == node.taking.homes for node in nodes))


def judged(base: Path, count: int) -> tuple[str, ...]:
    return audit(list(export_rows([base / f"n{number}" / "journal.db" for number in range(count)]))).violated


def topic_at(node: Node) -> str:
    """A topic of which this node is the home."""
    return next(f"t/{number}" for number in range(1000) if node.partitions.of(f"t/{number}") in node.taking.homes)


@awaited
async def test_a_node_takes_a_partition_while_it_is_home_or_a_client_needs_it(tmp_path: Path) -> None:
    async with cluster(4, tmp_path, **ALONE) as nodes:
        await until_settled(nodes)
        home, reader, writer, stranger = nodes
        topic = topic_at(home)
        partition = home.partitions.of(topic)
        async with reader.connect() as bus, bus.subscribe(topic) as feed, writer.connect() as out:
            assert reader.taking.why(partition) == ["1 feed"]
            for number in range(50):
                await out.publish(topic, b"%d" % number, durability="replicated(1)")
            assert bodies(await take(feed, 50)) == [b"%d" % number for number in range(50)]
            assert partition not in taken(stranger) | taken(writer)
            assert stranger.hub.position == writer.hub.position == 0
            assert home.hub.position == 50
            told = {one["partition"]: one for one in home.status()["partitions"]}[partition]
            assert (told["why"], told["homes"], told["delivered"]) == (["home"], [home.slot], 50)
            (out_of,) = [one for one in writer.status()["partitions"] if one["partition"] == partition]
            assert (out_of["taken"], out_of["why"], out_of["published"], out_of["lag"]) == (False, [], 50, {})
            assert out_of["published_bytes"] == told["bytes"] > 50
            assert set(told["members"]) >= {home.slot, reader.slot}
            assert f'antecede_partition_delivered_total{{node="{home.slot}",partition="{partition}"}} 50.0' in metrics(
                home
            )
        await until(lambda: partition not in taken(reader))
        async with reader.connect() as bus, bus.subscribe(topic) as feed, writer.connect() as out:
            await out.publish(topic, b"again")
            assert bodies(await take(feed, 1)) == [b"again"]
    assert judged(tmp_path, 4) == ()


@awaited
async def test_an_answer_follows_its_question_through_nodes_that_take_one_partition_each(tmp_path: Path) -> None:
    async with cluster(3, tmp_path, **ALONE) as nodes:
        await until_settled(nodes)
        async with (
            nodes[0].connect() as asker,
            nodes[1].connect() as answerer,
            nodes[2].connect() as reader,
            answerer.subscribe("questions/1") as questions,
            reader.subscribe("questions/1", "answers/2") as both,
        ):
            for number in range(30):
                await asker.publish("questions/1", b"q%d" % number)
                await anext(questions)
                await answerer.publish("answers/2", b"a%d" % number)
            assert bodies(await take(both, 60)) == [b"%s%d" % (kind, one) for one in range(30) for kind in (b"q", b"a")]
    assert judged(tmp_path, 3) == ()


@awaited
async def test_a_feed_that_is_closed_while_its_node_joins_is_not_opened(tmp_path: Path) -> None:
    async with cluster(2, tmp_path, **ALONE) as nodes:
        await until_settled(nodes)
        topic = topic_at(nodes[0])
        async with nodes[1].connect() as bus:
            opening = asyncio.ensure_future(bus.subscribe(topic).__aenter__())
            await asyncio.sleep(0)
            opening.cancel()
        await until(lambda: taken(nodes[1]) == nodes[1].taking.homes)
        assert not nodes[1].hub.feeds


@awaited
async def test_a_client_that_moves_to_a_node_without_the_partition_still_publishes_after_what_it_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new node does not take what the client has read. It names it in what the client publishes."""
    monkeypatch.setattr(following, "_PATIENCE_S", 0.5)  # no node is left that could show it
    async with cluster(3, tmp_path, **ALONE) as nodes:
        await until_settled(nodes)
        questions, answers = topic_at(nodes[0]), topic_at(nodes[1])
        async with nodes[2].connect() as reader, reader.subscribe(questions, answers) as both:
            async with antecede.connect(f"{nodes[0].url},{nodes[1].address}") as moving:
                async with moving.subscribe(questions) as feed:
                    asked = await moving.publish(questions, b"question")
                    assert (await anext(feed)).id == asked
                noted = await moving.publish("elsewhere/1", b"covers nothing of the question's partition")
                await nodes[0].stop()
                answered = await moving.publish(answers, b"answer")
                assert answered.slot == 1
            first, second = await take(both, 2)
            assert (first.id, second.id) == (asked, answered)
            assert asked in second.after
            assert noted in second.after or noted.partition in (asked.partition, answered.partition)


@awaited
async def test_a_release_takes_the_partitions_of_its_rows_and_publishes_each_once(tmp_path: Path) -> None:
    async with cluster(3, tmp_path, **ALONE) as nodes:
        await until_settled(nodes)
        rows = encode_rows([Row(f"out/{number % 6}", b"%d" % number) for number in range(60)])
        async with nodes[0].connect() as bus, bus.subscribe("out/#") as feed:
            answers = await ask(nodes[1], Stage("part", 0, rows), Release("job", 1, (("part", 1),), patience_ms=30_000))
            assert answers[-1] == Done(60)
            assert bodies(await take(feed, 60)) == [b"%d" % number for number in range(60)]
            again = await ask(nodes[1], Stage("more", 0, rows), Release("job", 1, (("more", 1),), patience_ms=30_000))
            assert again[-1] == Done(0)
    assert judged(tmp_path, 3) == ()
