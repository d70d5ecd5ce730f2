"""Several nodes: places, crashes, restarts, repair, clients that move. Over real sockets, with real journals."""

import asyncio
import contextlib
from pathlib import Path

import pytest

import antecede
from antecede.audit import audit
from antecede.journal import export_rows
from tests.client.running import awaited, bodies, take, until
from tests.node.clusters import cluster, make, restart, until_all_have


@awaited
async def test_nodes_take_slots_in_order_and_everybody_delivers_everything() -> None:
    async with cluster(5) as nodes:
        assert [node.slot for node in nodes] == [0, 1, 2, 3, 4]
        buses = [await node.connect().__aenter__() for node in nodes]
        feeds = [await bus.subscribe("#").__aenter__() for bus in buses]
        for number in range(20):
            for bus in buses:
                bus.publish_nowait("t", b"%d" % number)
        read = [await take(feed, 100) for feed in feeds]
        for messages in read:
            assert {message.id for message in messages} == {message.id for message in read[0]}
        for bus in buses:
            await bus.close()


@awaited
async def test_nodes_that_join_at_the_same_time_get_different_slots() -> None:
    async with cluster(1) as (founder,):
        nodes = [make(number, (founder.address,), None) for number in range(1, 8)]
        await asyncio.gather(*[node.start() for node in nodes])
        assert sorted(node.slot for node in nodes) == list(range(1, 8))
        with pytest.raises(antecede.UsageError, match="every slot is taken"):
            await make(9, (founder.address,), None).start()
        await asyncio.gather(*[node.stop() for node in nodes])


@awaited
async def test_a_node_waits_for_its_seed_and_only_the_first_seed_founds() -> None:
    async with cluster(1) as (probe,):
        port = probe.listener.address[1]
    seeds = (f"127.0.0.1:{port}",)
    late = make(1, seeds, None)
    starting = asyncio.create_task(late.start())
    await asyncio.sleep(0.3)
    assert not starting.done()
    async with make(0, seeds, None, port=port) as founder:
        await starting
        assert (founder.slot, late.slot) == (0, 1)
        await late.stop()


@awaited
async def test_a_crashed_node_comes_back_with_its_place_its_numbers_and_what_it_missed(tmp_path: Path) -> None:
    async with cluster(4, tmp_path) as nodes:
        async with nodes[2].connect() as bus:
            for number in range(10):
                await bus.publish("t", b"before %d" % number)
        nodes[2].abort()
        async with nodes[1].connect() as bus:
            for number in range(10):
                await bus.publish("t", b"while away %d" % number)
        again = await restart(nodes[2], tmp_path, nodes[0])
        assert again.slot == 2
        async with again.connect() as bus, bus.subscribe("t", since="0") as feed:
            assert len(await take(feed, 20)) == 20
            assert (await bus.publish("t", b"after")).seq == 11
        await until_all_have([nodes[0], nodes[1], nodes[3], again], 21)
        await again.stop()
    report = audit(list(export_rows([tmp_path / f"n{number}" / "journal.db" for number in range(4)])))
    assert report.ok, str(report)


@awaited
async def test_a_node_that_lost_its_journal_does_not_give_its_numbers_again(tmp_path: Path) -> None:
    async with antecede.Node(port=0, slots=4) as first:
        seeds = [first.url.removeprefix("antecede://")]
        second = antecede.Node(port=0, slots=4, seeds=seeds, directory=tmp_path / "n")
        async with second, second.connect() as bus:
            await bus.publish("t", b"old", durability="replicated(1)")
        for file in (tmp_path / "n").glob("journal.db*"):
            file.unlink()
        for _ in range(2):  # a second try finds a journal, and in it nothing
            with pytest.raises(antecede.JournalError, match="the node of this directory has slot 1"):
                await antecede.Node(port=0, slots=4, seeds=seeds, directory=tmp_path / "n").start()
        async with (
            antecede.Node(port=0, slots=4, seeds=seeds, directory=tmp_path / "empty") as third,
            first.connect() as reader,
            reader.subscribe("t", since="0") as feed,
            third.connect() as bus,
        ):
            assert third.slot == 2
            await bus.publish("t", b"new")
            assert [message.payload for message in await take(feed, 2)] == [b"old", b"new"]


@awaited
async def test_messages_cross_when_a_node_in_the_middle_of_the_tree_dies() -> None:
    async with cluster(8) as nodes:
        nodes[1].abort()
        nodes[4].abort()
        alive = [node for number, node in enumerate(nodes) if number not in (1, 4)]
        async with nodes[0].connect() as bus:
            await asyncio.gather(*[bus.publish("t", b"%d" % number) for number in range(50)])
            await until_all_have(alive, 50)


@awaited
async def test_a_client_that_moves_takes_its_past_along(tmp_path: Path) -> None:
    """What it read at one node comes before what it publishes at another, wherever that other node is by then."""
    async with cluster(3, tmp_path) as nodes:
        url = f"antecede://{nodes[1].address},{nodes[2].address}"
        async with antecede.connect(url) as bus, bus.subscribe("t") as feed, nodes[0].connect() as other:
            for number in range(30):
                await other.publish("t", b"%d" % number)
            got = bodies(await take(feed, 10))
            assert bus.node == 1
            nodes[1].abort()
            await until(lambda: bus.node == 2)
            got += bodies(await take(feed, 20))
            assert got == [b"%d" % number for number in range(30)]
            answer = await bus.publish("t", b"answer")
            assert answer.source == 2
            async with other.subscribe("t", since="0") as whole:
                assert bodies(await take(whole, 31))[-1] == b"answer"


@awaited
async def test_a_publication_waits_at_a_node_that_has_not_its_past_yet() -> None:
    async with cluster(2) as nodes, nodes[0].connect() as far, nodes[1].connect() as near:
        nodes[0].transport.pause()
        first = await near.publish("t", b"question")
        # `far` has read it elsewhere: from the other node.
        waiting = asyncio.create_task(far.publish("t", b"answer", after=[first]))
        behind = asyncio.create_task(far.publish("t", b"and more"))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        assert not behind.done()
        nodes[0].transport.resume()
        assert (await waiting).seq == 1
        assert (await behind).seq == 2
        async with near.subscribe("t", since="0") as feed:
            assert bodies(await take(feed, 3)) == [b"question", b"answer", b"and more"]


@awaited
async def test_replicated_returns_when_others_have_it(tmp_path: Path) -> None:
    async with cluster(3, tmp_path) as nodes, nodes[0].connect() as bus:
        identity = await bus.publish("t", b"x", durability="replicated(2)")
        assert all(node.hub.delivered.get(0, 0) >= identity.seq for node in nodes)
        nodes[1].abort()
        nodes[2].abort()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await bus.publish("t", b"y", durability="replicated(1)")
        with pytest.raises(antecede.PublishError, match="this cluster has 2 other nodes"):
            await bus.publish("t", b"z", durability="replicated(20)")


@awaited
async def test_a_node_that_leaves_is_gone_for_good_and_the_rest_goes_on(tmp_path: Path) -> None:
    async with cluster(3, tmp_path) as nodes:
        async with nodes[2].connect() as bus:
            await bus.publish("t", b"last words")
        await nodes[2].leave()
        await until_all_have(nodes[:2], 1)
        async with nodes[0].connect() as bus:
            await bus.publish("t", b"next", durability="replicated(1)")
        await until_all_have(nodes[:2], 2)
        states = {member["node"]: member["state"] for member in nodes[0].status()["members"]}
        assert states[2] == "left"
        async with make(3, (nodes[0].address,), None) as newcomer:
            assert newcomer.slot == 3  # a slot is never given to another


@awaited
async def test_two_clusters_founded_apart_cannot_become_one(tmp_path: Path) -> None:
    async with cluster(1, tmp_path / "a") as (one,), cluster(1, tmp_path / "b") as (other,):
        assert one.slot == other.slot == 0
        client = one.membership._client
        assert client is not None
        low, high = sorted([one, other], key=lambda node: node.roster.key)
        with contextlib.suppress(antecede.UnreachableError):  # when the one that is asked is the one that stops
            one.membership.heard(await client.exchange(other.address, me=one.membership._me))
        with pytest.raises(antecede.UsageError, match="founded apart"):
            await high.stopped()
        assert not low.driver.stopped.done()


@awaited
async def test_order_none_and_fifo_give_what_causal_order_holds_back() -> None:
    async with (
        cluster(3) as nodes,
        nodes[0].connect() as asks,
        nodes[1].connect() as answers,
        nodes[2].connect() as reads,
        reads.subscribe("#") as causal,
        reads.subscribe("#", order="fifo") as fifo,
        reads.subscribe("#", order="none") as none,
        answers.subscribe("q") as questions,
    ):
        await asks.publish("q", b"0")
        await answers.publish("a", b"0")
        for feed in (causal, fifo, none):
            await take(feed, 2)
        await take(questions, 1)
        # The question is lost on its way to node 2; the answer is not.
        real = nodes[0].transport.send
        nodes[0].transport.send = lambda to, packet: None if to == 2 and packet.messages else real(to, packet)  # type: ignore[method-assign]
        await asks.publish("q", b"question")
        await take(questions, 1)
        await answers.publish("a", b"answer")
        assert bodies(await take(fifo, 1)) == [b"answer"]
        assert bodies(await take(none, 1)) == [b"answer"]
        assert causal.waiting == 0
        nodes[0].transport.send = real  # type: ignore[method-assign]
        held = await take(causal, 2)
        assert bodies(held) == [b"question", b"answer"]
        assert held[1].held_ms > 0
        assert bodies(await take(none, 1)) == [b"question"]
        assert bodies(await take(fifo, 1)) == [b"question"]
