"""A node that is gone for good is forgotten by the whole cluster, and its slot gets another owner."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from antecede import Node
from antecede.core.epochs import epoch_base
from antecede.core.errors import AntecedeError, JournalError
from antecede.core.partitions import homes
from antecede.node.roster import Member, Roster
from tests.client.running import awaited, bodies, take
from tests.node.clusters import cluster, make, restart, until_all_have


async def until_suspected(nodes: list[Node], slot: int) -> None:
    async with asyncio.timeout(40):
        while any(slot not in node.process.down for node in nodes):
            await asyncio.sleep(0.05)


async def until_closed(nodes: list[Node], slot: int, epoch: int) -> None:
    """All nodes have delivered what the former owner of the slot left, and know that the others have."""
    async with asyncio.timeout(40):
        while any(node.process.delivered("main").get(slot, 0) < epoch_base(epoch) for node in nodes):
            await asyncio.sleep(0.05)


@awaited
async def test_a_forgotten_node_is_gone_at_every_node_and_refused_with_its_old_directory(tmp_path: Path) -> None:
    async with cluster(3, tmp_path) as nodes:
        async with nodes[2].connect() as bus:
            await bus.publish("t", b"old")
        await until_all_have(nodes, 1)
        async with nodes[0].connect() as bus:
            with pytest.raises(AntecedeError, match="'n2': is up; let it leave"):
                await bus.forget("n2")
            with pytest.raises(AntecedeError, match="'n0': is the node that was asked"):
                await bus.forget("n0")
            with pytest.raises(AntecedeError, match="'n7': is not the name of a node; use one of n0, n1, n2"):
                await bus.forget("n7")
            gone = nodes.pop()
            gone.abort()
            await until_suspected(nodes, 2)
            for number in range(5):
                await bus.publish("t", bytes([number]))
            assert nodes[0].lagging() == {2: 5}
            assert await bus.forget("n2") == "n2 (slot 2) is forgotten; told 1 of the other nodes"
        await until_closed(nodes, 2, 1)
        for node in nodes:
            assert node.process.members("main") == {0, 1}
            assert node.lagging() == {}
            assert node.roster.members[2].forgotten
            assert [one["state"] for one in node.status()["members"] if one["node"] == 2] == ["forgotten"]
        # It survives a restart of those that know it.
        await nodes[1].stop()
        nodes[1] = await restart(nodes[1], tmp_path, nodes[0])
        assert nodes[1].roster.members[2].forgotten
        assert nodes[1].process.members("main") == {0, 1}
        with pytest.raises(JournalError, match=r"operator has said that it is gone for good.*an empty one"):
            await restart(gone, tmp_path, nodes[0])
        await nodes[1].stop()


@awaited
async def test_a_slot_is_reused_with_numbers_that_never_collide(tmp_path: Path) -> None:
    async with cluster(3, tmp_path, slots=3) as nodes:
        async with nodes[2].connect() as bus:
            old = await bus.publish("t", b"old")
        await until_all_have(nodes, 1)
        gone = nodes.pop()
        gone.abort()
        await until_suspected(nodes, 2)
        async with nodes[0].connect() as bus:
            await bus.forget("n2")
        fresh = make(3, (nodes[0].address,), tmp_path, slots=3)
        await fresh.start()
        nodes.append(fresh)
        assert fresh.slot == old.source == 2
        assert fresh.roster.members[2].epoch == 2  # the mark of the operator had one of its own
        async with fresh.connect() as bus, nodes[1].connect() as reader, reader.subscribe("t", since="0") as feed:
            assert (await anext(feed)).id == old
            new = await bus.publish("t", b"new", durability="replicated(2)")
            assert (new.source, new.seq) == (2, epoch_base(2) + 1)
            message = await anext(feed)
            assert message.payload == b"new"
            cursor = message.cursor
        # A reader that has read the old message alone goes on at another node without a gap.
        async with nodes[0].connect() as bus, bus.subscribe("t", since=f"1:1@{old.source}.{old.seq}") as feed:
            assert (await anext(feed)).id == new
        # And the new owner goes on where it was.
        await fresh.stop()
        nodes[2] = await restart(fresh, tmp_path, nodes[0], slots=3)
        assert nodes[2].slot == 2
        async with nodes[2].connect() as bus:
            again = await bus.publish("t", b"again")
            assert again.seq == epoch_base(2) + 2
        async with nodes[1].connect() as bus, bus.subscribe("t", since=cursor) as feed:
            assert (await anext(feed)).id == again
        await nodes[2].stop()


@awaited
async def test_a_node_that_has_left_frees_its_slot(tmp_path: Path) -> None:
    async with cluster(3, tmp_path, slots=3) as nodes:
        left = nodes.pop()
        async with left.connect() as bus:
            await bus.publish("t", b"old")
        await left.leave()
        fresh = make(3, (nodes[0].address,), tmp_path, slots=3)
        async with fresh:
            assert fresh.slot == 2
            assert fresh.roster.members[2].epoch == 1
            async with fresh.connect() as bus:
                assert (await bus.publish("t", b"new")).seq == epoch_base(1) + 1
            await until_all_have(nodes, 2)
            with pytest.raises(JournalError, match="n3 has its slot"):
                await restart(left, tmp_path, nodes[0], slots=3)


@awaited
async def test_a_node_that_joins_later_reads_what_the_former_owner_of_a_slot_published(tmp_path: Path) -> None:
    """It joins after the former owner's messages were closed, and there are no others."""
    settings: dict[str, Any] = {"slots": 4, "partitions": 8, "replicas": 1}
    async with cluster(4, tmp_path, **settings) as nodes:
        left, other = nodes.pop(), nodes.pop()
        partitions = nodes[0].partitions
        topic = next(f"t{n}" for n in range(99) if homes(partitions.of(f"t{n}"), range(4), 1)[0] < 2)
        name = partitions.names[partitions.of(topic)]
        async with left.connect() as bus:
            await bus.publish(topic, b"left behind", durability="replicated(1)")
        await left.leave()
        async with AsyncExitStack() as stack:
            fresh = await stack.enter_async_context(make(4, (nodes[0].address,), tmp_path, **settings))
            assert fresh.slot == left.slot
            async with asyncio.timeout(40):
                while any(node.process.last_before(name, left.slot, 1) != 1 for node in nodes):
                    await asyncio.sleep(0.05)
            await other.leave()
            later = await stack.enter_async_context(make(5, (nodes[0].address,), tmp_path, **settings))
            async with later.connect() as bus, bus.subscribe(topic, since="0") as feed:
                assert bodies(await take(feed, 1)) == [b"left behind"]


@awaited
async def test_protocols_that_cannot_forget_refuse_by_name(tmp_path: Path) -> None:
    async with cluster(2, tmp_path, protocol="total") as nodes, nodes[0].connect() as bus:
        with pytest.raises(AntecedeError, match="the protocol total cannot forget a node"):
            await bus.forget("n1")


def test_an_entry_of_a_higher_epoch_replaces_the_one_before_in_any_order() -> None:
    old = Member(slot=1, name="n1", key=5, address="h:1", incarnation=7)
    gone = Member(slot=1, name="n1", key=0, epoch=1, left=True, forgotten=True)
    new = Member(slot=1, name="n9", key=9, epoch=2)
    for order in ([old, gone, new], [new, gone, old], [gone, old, new]):
        roster = Roster(3, 4)
        roster.merge(order)
        assert roster.members[1] == new
    mine = Roster(5, 4)
    mine.merge([old])
    mine.merge([gone])
    assert mine.displaced == gone


def test_slots_that_no_node_ever_had_are_given_first() -> None:
    roster = Roster(3, 3, reuses=True)
    assert roster.give(3, "n0") is not None
    roster.merge([Member(slot=1, name="n1", key=5, left=True)])
    first = roster.give(6, "n2")
    assert first is not None
    assert (first.slot, first.epoch) == (2, 0)
    second = roster.give(7, "n3")
    assert second is not None
    assert (second.slot, second.epoch) == (1, 1)
    assert roster.give(8, "n4") is None
