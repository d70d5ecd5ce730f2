"""What a node tells of itself is true: who is up, who has left, what was delivered here, what can be read."""

from pathlib import Path

import pytest

from antecede import Node, UsageError
from antecede.journal import Retention
from antecede.node.local_cluster import LocalCluster
from antecede.node.roster import Member, Roster
from tests.client.running import awaited, bodies, take, until
from tests.node.clusters import cluster, make, restart, until_all_have


def states(node: Node) -> dict[int, str]:
    return {member["node"]: member["state"] for member in node.status()["members"]}


async def publish(node: Node, *payloads: str) -> None:
    async with node.connect() as bus:
        for payload in payloads:
            await bus.publish("t", payload.encode())


@awaited
async def test_nodes_that_do_not_run_are_not_up(tmp_path: Path) -> None:
    """A cluster of three starts again as one: nothing was heard of the others, then they are found to be down."""
    async with cluster(3, tmp_path) as nodes:
        await publish(nodes[0], "a")
        await until_all_have(nodes, 1)
        await until(lambda: states(nodes[0]) == {0: "here", 1: "up", 2: "up"})
    alone = await restart(nodes[0], tmp_path, nodes[0])
    try:
        assert "up" not in states(alone).values()
        await until(lambda: states(alone) == {0: "here", 1: "down", 2: "down"})
    finally:
        await alone.stop()


@awaited
async def test_fewer_slots_than_nodes_there_were_are_refused(tmp_path: Path) -> None:
    """With fewer slots than before, the failure detector knows nothing of some members: they stayed "up" for ever."""
    async with cluster(3, tmp_path, slots=4) as nodes:
        await publish(nodes[0], "a")
    with pytest.raises(UsageError, match=r"slots 2: the cluster has a node in slot 2 \(n2\)"):
        await make(0, (), tmp_path, slots=2, port=nodes[0].listener.address[1]).start()


@pytest.mark.parametrize(("protocol", "slots"), [("vcube", 256), ("locamu", 4)])
def test_a_local_cluster_that_starts_smaller_keeps_its_slots_and_ports(
    tmp_path: Path, protocol: str, slots: int
) -> None:
    whole = LocalCluster(tmp_path, nodes=4, protocol=protocol)
    fewer = LocalCluster(tmp_path, nodes=2, protocol=protocol)
    assert (fewer.ports, fewer._slots) == (whole.ports[:2], slots)
    assert LocalCluster(tmp_path, nodes=4, protocol=protocol).ports == whole.ports


@awaited
async def test_a_node_that_left_and_came_back_is_up(tmp_path: Path) -> None:
    async with cluster(3, tmp_path) as nodes:
        await publish(nodes[2], "a")
        await until_all_have(nodes, 1)
        await nodes[2].leave()
        await until(lambda: states(nodes[0])[2] == states(nodes[1])[2] == "left")
        await publish(nodes[0], "b")
        again = await restart(nodes[2], tmp_path, nodes[0])
        try:
            assert again.slot == 2
            await until(lambda: states(nodes[0])[2] == states(nodes[1])[2] == "up")
            await until(lambda: states(again) == {0: "up", 1: "up", 2: "here"})
            async with nodes[1].connect() as bus, bus.subscribe("t") as feed:
                await publish(again, "c")
                assert bodies(await take(feed, 1)) == [b"c"]
            async with again.connect() as bus, bus.subscribe("t") as feed:
                await publish(nodes[0], "d")
                assert bodies(await take(feed, 1)) == [b"d"]
        finally:
            await again.stop()


def test_a_farewell_is_outlived_by_a_newer_incarnation_only() -> None:
    roster = Roster(key=1, slots=8)
    left = Member(slot=2, name="n2", key=9, address="h:1", incarnation=3, left=True)
    back = Member(slot=2, name="n2", key=9, address="h:1", incarnation=4)
    late = Member(slot=2, name="n2", key=9, address="h:1", incarnation=3)
    for order in ([left, back, late], [back, left, late], [late, left, back]):
        roster = Roster(key=1, slots=8)
        for member in order:
            roster.merge([member])
        assert roster.members[2] == back
    roster = Roster(key=1, slots=8)
    roster.merge([late])
    roster.merge([left])
    roster.merge([late])
    assert roster.members[2] == left


@awaited
async def test_a_newcomer_has_delivered_nothing_of_what_was_before_it(tmp_path: Path) -> None:
    async with cluster(2, tmp_path) as nodes:
        await publish(nodes[0], *"abc")
        await until_all_have(nodes, 3)
        assert nodes[1].status()["delivered"] == nodes[1].status()["reached"] == {0: 3}
        newcomer = make(2, (nodes[0].address,), tmp_path)
        async with newcomer:
            assert newcomer.status()["position"] == 0
            assert newcomer.status()["delivered"] == {}
            assert newcomer.status()["reached"] == {0: 3}
            await publish(nodes[1], "d")
            await until_all_have([newcomer], 1)
            assert newcomer.status()["delivered"] == {1: 1}
        again = await restart(newcomer, tmp_path, nodes[0])
        try:
            assert again.status()["delivered"] == {1: 1}
            assert again.status()["reached"] == {0: 3, 1: 1}
        finally:
            await again.stop()


@awaited
async def test_what_is_said_to_be_readable_is_what_is_served(tmp_path: Path) -> None:
    """Retention has removed messages from the journal that memory still has."""
    async with Node(port=0, directory=tmp_path) as node, node.connect() as bus:
        await publish(node, *"abcdef")
        assert node.journal is not None
        await node.journal.retain(Retention(bytes_max=1))
        assert node.journal.removed >= 5
        oldest = node.status()["oldest"]
        async with bus.subscribe("t", since="0") as feed:
            (first,) = await take(feed, 1)
        assert oldest == first.seq - 1 == 0
    # Without that memory it is the journal that says.
    async with Node(port=0, directory=tmp_path) as node, node.connect() as bus:
        oldest = node.status()["oldest"]
        assert node.journal is not None
        assert oldest == node.journal.removed
        async with bus.subscribe("t", since="0") as feed:
            await publish(node, "g")
            (first,) = await take(feed, 1)
        assert oldest == first.seq - 1
