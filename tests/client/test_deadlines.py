"""Every publication ends within its time: acknowledged, or with an error that says why and whether it may arrive."""

import asyncio
import signal
import time
from pathlib import Path

import pytest

import antecede
from antecede import MessageId, Node, PublishError
from antecede.node.local_cluster import LocalCluster
from tests.client.running import awaited, bodies, take, until
from tests.node.clusters import cluster

#: A message that will never be published, of a slot that the cluster has.
NEVER = [MessageId(3, 17)]


@awaited
async def test_copies_that_no_node_can_hold_are_refused_at_once(tmp_path: Path) -> None:
    async with Node(port=0, directory=tmp_path) as node, node.connect() as bus:
        with pytest.raises(PublishError, match="this cluster has 0 other nodes; ask for fewer") as failed:
            await bus.publish("t", b"x", durability="replicated(1)")
        assert not failed.value.may_arrive
        await bus.publish("t", b"y")


@awaited
async def test_copies_that_are_not_confirmed_in_time(tmp_path: Path) -> None:
    async with cluster(3, tmp_path) as nodes, nodes[0].connect() as bus:
        nodes[1].abort()
        nodes[2].abort()
        with pytest.raises(
            PublishError, match=r"1 of the 2 other nodes did not confirm a copy within 0\.3 s"
        ) as failed:
            await bus.publish("t", b"x", durability="replicated(1)", timeout_s=0.3)
        assert failed.value.may_arrive
        assert nodes[0].hub.delivered == {0: 1}
        assert nodes[0].driver.replicas is not None
        await bus.publish("t", b"y")
        assert len(nodes[0].driver.replicas) == 0


@pytest.mark.parametrize("kind", ["tcp", "memory"])
@awaited
async def test_a_predecessor_that_never_comes_fails_its_publication_alone(kind: str) -> None:
    async with Node(port=0) as node:
        connection = antecede.connect(node.url) if kind == "tcp" else node.connect()
        async with connection as bus, bus.subscribe("t") as feed:
            late = bus.publish_nowait("t", b"late", after=NEVER, timeout_s=0.3)
            behind = bus.publish_nowait("t", b"behind")
            with pytest.raises(PublishError, match=r"it follows message 3\.17, which was not delivered here") as failed:
                await late
            assert not failed.value.may_arrive
            assert await behind == MessageId(0, 1)
            assert bodies(await take(feed, 1)) == [b"behind"]


@awaited
async def test_an_answer_that_came_while_the_application_held_up_the_loop_is_heard() -> None:
    async with Node(port=0) as node, node.connect() as bus:
        late = bus.publish_nowait("t", b"late", after=NEVER, timeout_s=0.3)
        await asyncio.sleep(0.1)
        time.sleep(1.5)
        with pytest.raises(PublishError, match=r"it follows message 3\.17, which was not delivered here"):
            await late


@awaited
async def test_a_predecessor_of_no_cluster_is_refused_at_once() -> None:
    async with Node(port=0, slots=4) as node, node.connect() as bus:
        with pytest.raises(PublishError, match=r"after '4\.1': cannot exist: the cluster has slots 0 … 3"):
            await bus.publish("t", b"x", after=[MessageId(4, 1)])
        await bus.publish("t", b"y")


@awaited
async def test_a_client_s_past_binds_its_later_publications() -> None:
    """What the client has read, it has read: a publication that failed does not free the next one from it."""
    async with Node(port=0) as node, node.connect() as bus:
        bus._frontier.read(3, 17)
        early = [bus.publish_nowait("t", b"%d" % number, timeout_s=0.3) for number in range(3)]
        for failed in await asyncio.gather(*early, return_exceptions=True):
            assert isinstance(failed, PublishError)
            assert not failed.may_arrive
        with pytest.raises(PublishError, match=r"it follows message 3\.17"):
            await bus.publish("t", b"3", timeout_s=0.3)
        assert node.hub.position == 0
        # What the application chooses itself does without.
        await bus.publish("t", b"4", after=[])
        assert node.hub.position == 1


@awaited
async def test_what_a_client_leaves_is_dropped() -> None:
    async with Node(port=0) as node:
        for _ in range(20):
            async with node.connect() as bus:
                bus.publish_nowait("t", b"x", after=NEVER)
                bus.publish_nowait("t", b"y")
                await until(lambda: len(node.hub._predecessors) == 1)
            await until(lambda: len(node.hub._predecessors) == 0)
        assert node.hub.position == 0


@awaited
async def test_a_publisher_that_waits_for_a_busy_node() -> None:
    async with Node(port=0) as node, node.connect() as bus:
        node.driver.peer_up(1)  # nobody waits for a node that is down
        node.transport.relief.set(1, True)
        with pytest.raises(PublishError, match="another node takes packets too slowly") as failed:
            await bus.publish("t", b"x", timeout_s=0.3)
        assert not failed.value.may_arrive
        node.transport.relief.set(node.slot, False)
        await bus.publish("t", b"y")
        assert node.hub.position == 1


@awaited
async def test_a_node_that_says_nothing(tmp_path: Path) -> None:
    """SIGSTOP: the connection stands, and no answer comes."""
    async with LocalCluster(tmp_path, nodes=1) as local, antecede.connect(local.url(0)) as bus:
        await bus.publish("t", b"0")
        local.processes[0].send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(PublishError, match=r"did not answer within 0\.2 s") as failed:
                await bus.publish("t", b"1", timeout_s=0.2)
            assert failed.value.may_arrive
            with pytest.raises(antecede.ConnectionLostError, match=r"did not answer within 0\.2 s"):
                await bus.status(timeout_s=0.2)
        finally:
            local.processes[0].send_signal(signal.SIGCONT)
        # Its late answer is no answer to anything else, and does no harm.
        assert (await bus.publish("t", b"2")).seq in (2, 3)
        async with bus.subscribe("t", since="0") as feed:
            assert bodies(await take(feed, 3)) in ([b"0", b"1", b"2"], [b"0", b"2", b"1"])


@awaited
async def test_without_a_connection(tmp_path: Path) -> None:
    async with Node(port=0) as node, antecede.connect(node.url) as bus:
        await node.stop()
        await until(lambda: bus._connection is None)
        with pytest.raises(PublishError, match=r"there was no connection for 0\.2 s") as failed:
            await bus.publish("t", b"x", timeout_s=0.2)
        assert not failed.value.may_arrive


@awaited
async def test_times_that_make_no_sense() -> None:
    async with Node(port=0) as node, node.connect() as bus:
        for timeout_s in (0, -1, float("nan"), float("inf"), 1e9):
            with pytest.raises(antecede.UsageError, match="timeout_s"):
                await bus.publish("t", b"x", timeout_s=timeout_s)


def test_scripts_without_asyncio() -> None:
    with antecede.connect_sync("memory://") as bus:
        with pytest.raises(PublishError, match=r"it follows message 0\.9"):
            bus.publish("t", b"x", after=[MessageId(0, 9)], timeout_s=0.2)
        assert bus.publish("t", b"y", timeout_s=5) == MessageId(0, 1)


@awaited
async def test_the_past_of_a_publication_under_way_is_kept_when_its_connection_breaks() -> None:
    """Also the part that the node itself published, and need not be told: another node must be."""
    async with Node(port=0) as node, antecede.connect(node.url) as bus, bus.subscribe("t") as feed:
        await bus.publish("t", b"x")
        await take(feed, 1)
        under_way = bus.publish_nowait("t", b"y")
        assert bus._frontier.entries() == ()
        assert bus._connection is not None
        bus._connection.abort()
        with pytest.raises(PublishError):
            await under_way
        assert bus._frontier.entries() == ((0, 1),)
