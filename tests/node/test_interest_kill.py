"""Nodes are killed while clients publish and read in partitions that few nodes take: nothing acknowledged is lost."""

import asyncio
import contextlib
import random
from pathlib import Path

import pytest

import antecede
from antecede import MessageId
from antecede.audit import audit
from antecede.journal import export_rows
from antecede.node.local_cluster import LocalCluster
from antecede.trace import Event

NODES = 4
TOPICS = [f"t/{number}" for number in range(32)]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(3))
def test_nothing_acknowledged_is_lost_by_nodes_that_are_killed(seed: int, tmp_path: Path) -> None:
    acknowledged = asyncio.run(run(seed, tmp_path))
    rows = list(export_rows([tmp_path / f"n{node}" / "journal.db" for node in range(NODES)]))
    assert audit(rows).violated == ()
    delivered = {(row.topic, row.source, row.seq) for row in rows if row.event is Event.DELIVER}
    assert len(acknowledged) > 100
    assert [one for one in acknowledged if (f"p{one.partition}", one.slot, one.seq) not in delivered] == []


async def run(seed: int, base: Path) -> list[MessageId]:
    """The messages that were acknowledged at the level replicated(1)."""
    rng = random.Random(seed)
    acknowledged: list[MessageId] = []
    over = asyncio.Event()

    async def write(url: str, number: int) -> None:
        async with antecede.connect(url, patience_s=60) as bus:
            while not over.is_set():
                with contextlib.suppress(antecede.PublishError):  # its node was killed
                    body = b"%d" % number
                    name = await bus.publish(rng.choice(TOPICS), body, durability="replicated(1)", timeout_s=20)
                    acknowledged.append(name)
                await asyncio.sleep(0.01)

    async def read(url: str) -> None:
        topics = rng.sample(TOPICS, 6)
        while not over.is_set():
            with contextlib.suppress(antecede.AntecedeError):  # a gap, or its node was killed: begin anew
                async with antecede.connect(url, patience_s=60) as bus, bus.subscribe(*topics) as feed:
                    async for _ in feed:
                        pass

    settings = {"partitions": 16, "replicas": 2, "linger_s": 2.0, "round_s": 0.5, "timeout_s": 0.4}
    async with LocalCluster(base, nodes=NODES, **settings) as cluster:
        writers = [asyncio.ensure_future(write(cluster.url(node), node)) for node in range(NODES)]
        readers = [asyncio.ensure_future(read(cluster.url(node))) for node in range(NODES)]
        for _ in range(8):
            await asyncio.sleep(1.5)
            node = rng.randrange(NODES)
            await cluster.kill(node)
            await asyncio.sleep(0.5)
            await cluster.start(node)
        await asyncio.sleep(3)
        over.set()
        await asyncio.gather(*writers)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        await asyncio.sleep(3)  # what is under way to other homes arrives
    return acknowledged
