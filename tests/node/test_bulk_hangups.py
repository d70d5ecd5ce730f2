"""Bulk readers that hang up in the middle of a read: the node that serves them lives on."""

import asyncio
import random
from pathlib import Path

import antecede
from antecede.node.local_cluster import LocalCluster
from antecede.wire import bulk as records
from antecede.wire.bulk import ExtentQuery, Question, Read
from tests.client.running import awaited
from tests.node.test_security import hello

#: Before the fix a node died within 3 to 180 of them.
HANGUPS = 300


async def hang_up(port: int, question: Question, after_s: float) -> None:
    """Ask, and close the connection without reading the answer."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(hello(role=records.ROLE, speaks=records.SPEAKS) + records.TO_NODE.frame(question))
    await writer.drain()
    await asyncio.sleep(after_s)
    writer.transport.abort()


@awaited
async def test_readers_that_hang_up_do_not_kill_the_node(tmp_path: Path) -> None:
    rng = random.Random(7)
    async with LocalCluster(tmp_path, nodes=1) as cluster:
        async with antecede.connect(cluster.url(0)) as bus:
            futures = [bus.publish_nowait("t", bytes(1000)) for _ in range(4000)]
            await asyncio.gather(*futures)
            position = (await bus.status())["position"]
        for _ in range(HANGUPS // 6):
            questions: list[Question] = [
                *[Read(0, position, ("#",)), Read(rng.randrange(position), position, ("t",))] * 2,
                *[ExtentQuery(after=0, last=position, bytes_max=1 << 40), ExtentQuery(time_us=1)],
            ]
            await asyncio.gather(*[hang_up(cluster.ports[0], one, rng.uniform(0.001, 0.02)) for one in questions])
            process = cluster.processes[0]
            assert process.returncode is None, f"the node ended with {process.returncode}"
        async with antecede.connect(cluster.url(0)) as bus, bus.subscribe("t") as feed:
            await bus.publish("t", b"alive")
            assert (await anext(feed)).payload == b"alive"
