"""Messages that no node has any more: the node that missed them says so, and its readers are told."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

import antecede
from antecede import GapError, Node
from antecede.journal import Retention
from antecede.protocols.gossip import Broker
from antecede.wire.listener import Listener
from tests.client.running import awaited, take, until
from tests.node.clusters import cluster, restart, until_all_have

SETTINGS: dict[str, Any] = {"slots": 4, "window": 16}
GOSSIP = SETTINGS | {"protocol": "gossip", "gossip_round_s": 0.02}


async def _forget(node: Node) -> None:
    """Retention leaves one block of the journal."""
    assert node.journal is not None
    await node.journal.retain(Retention(bytes_max=1))


async def _until_nothing_waits_for(slot: int, nodes: list[Node]) -> None:
    """In gossip, packets to a node that is down wait in queues until it is suspected."""
    for node in nodes:
        while isinstance(node.process.inner, Broker) and slot not in node.process.down:
            await asyncio.sleep(0.02)


async def _until_it_pushes_nothing(node: Node, position: int) -> None:
    """What comes later stays in the journal; and in gossip, young messages are pushed to nodes that come back."""
    broker = node.process.inner
    await until(lambda: node.hub.position == position and not (isinstance(broker, Broker) and broker.store.young))


async def _until_it_joins_anew(node: Node) -> None:
    async with asyncio.timeout(60):
        while not node.hub.history.gaps:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("settings", [SETTINGS, GOSSIP], ids=["vcube", "gossip"])
@awaited
async def test_a_gap_is_told(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with cluster(3, tmp_path, **settings) as nodes, nodes[0].connect() as bus:
        await bus.publish("t", b"before")
        async with nodes[2].connect() as reading, reading.subscribe("t", since="0") as feed:
            assert [message.payload for message in await take(feed, 1)] == [b"before"]
        nodes[2].abort()
        await _until_nothing_waits_for(2, nodes[:2])
        for number in range(200):
            await bus.publish("t", b"%d" % number)
        for node in nodes[:2]:
            await _until_it_pushes_nothing(node, 201)
            await _forget(node)
        again = await restart(nodes[2], tmp_path, nodes[0], **settings)
        try:
            await _until_it_joins_anew(again)
            await bus.publish("t", b"after")
            await _check(again)
            (gap,) = again.status()["gaps"]
            (source, first, last), *_ = gap["missing"]
            assert source == 0
            assert 2 <= first <= 2 + settings["window"]
            assert last >= 150
            assert again.status()["given_up"] == 1
        finally:
            await again.stop()
        # The next life knows of it, too.
        once_more = await restart(again, tmp_path, nodes[0], **settings)
        try:
            await _check(once_more)
        finally:
            await once_more.stop()


@awaited
async def test_a_gap_that_is_found_while_the_node_starts_leaves_out_what_was_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The protocol runs before the node listens, and may find a gap at once."""
    found = Node._run
    listen = Listener.start

    async def listen_late(listener: Listener) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(20):
                while not starting.process.given_up:
                    await asyncio.sleep(0.02)
        await listen(listener)

    async def run(node: Node, *evidence: Any) -> None:
        nonlocal starting
        starting = node
        await found(node, *evidence)

    async with cluster(3, tmp_path, **SETTINGS) as nodes, nodes[0].connect() as bus:
        await bus.publish("t", b"before")
        await until_all_have(nodes, 1)
        starting = nodes[2]
        nodes[2].abort()
        await until(lambda: all(2 in node.process.down for node in nodes[:2]))  # and keep nothing ready for it
        for number in range(200):
            await bus.publish("t", b"%d" % number)
        for node in nodes[:2]:
            await _until_it_pushes_nothing(node, 201)
            await _forget(node)
        monkeypatch.setattr(Node, "_run", run)
        monkeypatch.setattr(Listener, "start", listen_late)
        again = await restart(nodes[2], tmp_path, nodes[0], **SETTINGS)
        try:
            await _until_it_joins_anew(again)
            ((source, first, _), *_) = again.status()["gaps"][0]["missing"]
            assert source == 0
            assert first >= 2
        finally:
            await again.stop()


async def _read_all(feed: antecede.Feed, payloads: list[bytes]) -> None:
    async for message in feed:
        payloads.append(message.payload)


async def _check(node: Node) -> None:
    async with antecede.connect(node.url) as bus:
        async with bus.subscribe("t", since="0") as feed:
            payloads: list[bytes] = []
            with pytest.raises(GapError, match="never delivered here"):
                await _read_all(feed, payloads)
            assert payloads[0] == b"before"  # and perhaps some that were under way when the node stopped
            assert b"after" not in payloads
        async with bus.subscribe("t", since="0", over_gaps=True) as feed:
            payloads = []
            while not payloads or payloads[-1] != b"after":
                payloads.append((await anext(feed)).payload)
            assert payloads[0] == b"before"


@awaited
async def test_a_feed_that_is_open_ends_at_the_gap(tmp_path: Path) -> None:
    async with cluster(3, tmp_path, **SETTINGS) as nodes, nodes[0].connect() as bus:
        nodes[2].abort()
        for number in range(200):
            await bus.publish("t", b"%d" % number)
        again = await restart(nodes[2], tmp_path, nodes[0], **SETTINGS)
        again.process.inner._join_anew(again.process.inner._state.group(again.partitions.names[0]))
        try:
            async with antecede.connect(again.url) as reading, reading.subscribe("t") as feed:
                await bus.publish("t", b"more")
                with pytest.raises(GapError):
                    async for _ in feed:
                        pass
        finally:
            await again.stop()


@pytest.mark.parametrize("settings", [SETTINGS, GOSSIP], ids=["vcube", "gossip"])
@awaited
async def test_nothing_is_given_up_while_a_node_has_it(tmp_path: Path, settings: dict[str, Any]) -> None:
    """One of two journals has removed the messages: the other serves."""
    async with cluster(3, tmp_path, **settings) as nodes, nodes[0].connect() as bus:
        nodes[2].abort()
        for number in range(200):
            await bus.publish("t", b"%d" % number)
        await _forget(nodes[0])  # the publisher's own, which is asked first
        again = await restart(nodes[2], tmp_path, nodes[0], **settings)
        try:
            async with antecede.connect(again.url) as reading, reading.subscribe("t", since="0") as feed:
                assert [message.payload for message in await take(feed, 200)] == [b"%d" % n for n in range(200)]
            assert again.status()["gaps"] == []
        finally:
            await again.stop()
