"""What a protocol kept, shortened: it restores the same node."""

import asyncio
from pathlib import Path

import pytest

import antecede
from antecede import Node
from antecede.core import Message
from antecede.node import retention
from antecede.node.config import NodeConfig
from antecede.node.protocol import NodeProtocol
from antecede.protocols.diagnosis.records import Life
from antecede.protocols.vcube_ps import VCubePs
from antecede.protocols.vcube_ps.records import Began, Delivered, Held, Published, Registered, Stable
from tests.client.running import awaited, take

HISTORY: list[object] = [
    Life(0),
    Registered("main", 1, 1),
    Registered("main", 0, 1),
    Began("main", 1, ((1, 4),)),
    Published(Message("main", 0, 1, (), b"a")),
    Delivered(Message("main", 1, 5, ((0, 1),), b"b")),
    Published(Message("main", 0, 2, ((1, 5),), b"c")),
    Stable("main", 0, 2),
    Stable("main", 1, 5),
    Life(2),
    Delivered(Message("main", 1, 6, ((0, 2),), b"d")),
    Registered("main", 2, 1),
]


PROTOCOL = NodeProtocol(NodeConfig(slots=4, window=8, round_s=1.0, timeout_s=0.5))


def compact(records: list[object], node: int) -> list[object]:
    return PROTOCOL.make(node).compact(records)


def restored(records: list[object]) -> tuple[object, ...]:
    process = PROTOCOL.make(0)
    process.restore(records)
    inner = process.inner
    assert isinstance(inner, VCubePs)
    group = inner._state.group("main")
    stamp = group.order.stamp("main", group.seq + 1, b"next")
    logs = {source: dict(stream.log) for source, stream in group.streams.items()}
    return inner.delivered("main"), inner.takes("main"), inner.members("main"), group.seq, stamp, logs


def test_a_shortened_history_restores_the_same_node() -> None:
    shorter = compact(HISTORY, 0)
    assert len(shorter) < len(HISTORY)
    assert restored(shorter) == restored(HISTORY)
    assert compact(shorter, 0) == compact(compact(shorter, 0), 0)


def test_what_is_not_stable_stays() -> None:
    records = [*HISTORY[:4], Held(Message("main", 1, 4, (), b"for others")), *HISTORY[4:9]]
    assert Held(Message("main", 1, 4, (), b"for others")) not in compact(records, 0)  # stable
    waiting = [*HISTORY[:4], Held(Message("main", 3, 4, (), b"for others")), *HISTORY[4:9]]
    assert Held(Message("main", 3, 4, (), b"for others")) in compact(waiting, 0)
    records = HISTORY[:7]
    assert [one for one in compact(records, 0) if isinstance(one, Published | Delivered)] == [
        one for one in records if isinstance(one, Published | Delivered)
    ]


def test_a_long_stable_history_becomes_short() -> None:
    records: list[object] = HISTORY[:4] + [Published(Message("main", 0, seq, (), b"x")) for seq in range(1, 1001)]
    records.append(Stable("main", 0, 1000))
    assert len(compact(records, 0)) < 8
    assert restored(compact(records, 0))[3] == 1000


@awaited
async def test_a_running_node_shortens_what_it_keeps_and_comes_back(tmp_path: Path) -> None:
    async with Node(port=0, directory=tmp_path, shorten_every=100) as node, node.connect() as bus:
        for _ in range(500):
            bus.publish_nowait("t", b"x")
        await bus.publish("t", b"x")
        assert node.journal is not None
        async with asyncio.timeout(30):
            while len(await node.journal.kept()) > 100:
                await asyncio.sleep(0.05)
        port = node.listener.address[1]
        await bus.publish("t", b"after")
    async with Node(port=port, directory=tmp_path) as node, antecede.connect(node.url) as bus:
        assert (await bus.publish("t", b"again")).seq == 503
        async with bus.subscribe("t", since="0") as feed:
            assert len(await take(feed, 503)) == 503


@awaited
async def test_records_that_have_grown_are_compacted_however_few_deliveries_there_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "KEPT_BYTES", 1000)
    async with Node(port=0, directory=tmp_path, partitions=4) as node, node.connect() as bus:
        for number in range(200):
            await bus.publish(f"t/{number % 16}", b"x")
        assert node.journal is not None
        async with asyncio.timeout(30):
            while len(await node.journal.kept()) > 100:
                await asyncio.sleep(0.05)
