"""Nodes are killed, and some are gone for good with their directories: nothing acknowledged at two homes is lost."""

import asyncio
import contextlib
import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import antecede
from antecede import MessageId
from antecede.audit import audit
from antecede.journal import export_rows
from antecede.node.local_cluster import LocalCluster
from antecede.trace import Event, Row


class Plan(NamedTuple):
    nodes: int
    topics: int
    partitions: int
    kills: int
    #: The nodes whose directories are taken away, by the number of the kill.
    gone: dict[int, int]


SMALL = Plan(4, 16, 8, 3, {1: 3})
FULL = Plan(8, 64, 64, 60, {20: 6, 40: 7})


class Reader:
    """Reads some topics from the beginning to the end, at whatever node it reaches."""

    def __init__(self, topics: list[str]) -> None:
        self.topics = topics
        self.read: list[MessageId] = []
        self.error: Exception | None = None

    async def run(self, url: str) -> None:
        try:
            async with antecede.connect(url, patience_s=120) as bus, bus.subscribe(*self.topics, since="0") as feed:
                async for message in feed:
                    self.read.append(message.id)
        except antecede.AntecedeError as error:
            self.error = error


async def run(plan: Plan, base: Path, seed: int = 0) -> tuple[dict[MessageId, str], list[Reader]]:
    """The messages that were acknowledged at the level replicated(2), with their topics; and the readers."""
    rng = random.Random(seed)
    topics = [f"t/{number}" for number in range(plan.topics)]
    acknowledged: dict[MessageId, str] = {}
    over = asyncio.Event()

    async def write(url: str, own: random.Random) -> None:
        async with antecede.connect(url, patience_s=120) as bus:
            while not over.is_set():
                topic = own.choice(topics)
                with contextlib.suppress(antecede.PublishError):  # its node was killed, or a home is gone
                    name = await bus.publish(topic, b"x" * 64, durability="replicated(2)", timeout_s=5)
                    acknowledged[name] = topic
                await asyncio.sleep(0.02)

    settings: dict[str, Any] = {
        "partitions": plan.partitions,
        "replicas": 3,
        "linger_s": 2.0,
        "round_s": 0.5,
        "timeout_s": 0.45,
    }
    async with LocalCluster(base, nodes=plan.nodes, **settings) as cluster:
        addresses = [cluster.url(node).removeprefix("antecede://") for node in range(plan.nodes)]

        def url(first: int) -> str:
            return "antecede://" + ",".join(addresses[first:] + addresses[:first])

        readers = [Reader(rng.sample(topics, len(topics) // 8)) for _ in range(plan.nodes)]
        reading = [asyncio.ensure_future(reader.run(url(node))) for node, reader in enumerate(readers)]
        writing = [asyncio.ensure_future(write(url(node), random.Random(node))) for node in range(plan.nodes)]
        gone: set[int] = set()
        starting: dict[int, asyncio.Task[None]] = {}
        for kill in range(plan.kills):
            await asyncio.sleep(1)
            while len([task for task in starting.values() if not task.done()]) > 1:  # on a busy machine
                await asyncio.sleep(0.1)
            victim = plan.gone.get(kill, -1)
            if victim < 0:
                ready = [node for node in range(plan.nodes) if node not in starting or starting[node].done()]
                victim = rng.choice([node for node in ready if node not in gone])
            elif victim in starting:
                await starting[victim]
            await cluster.kill(victim)
            if kill in plan.gone:
                gone.add(victim)
                shutil.move(base / f"n{victim}", base / f"gone{victim}")  # kept for the audit alone
            else:
                starting[victim] = asyncio.ensure_future(cluster.start(victim))
        await asyncio.gather(*starting.values())
        await asyncio.sleep(2)
        over.set()
        await asyncio.gather(*writing)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(60):
                while any(missing(reader, acknowledged) and reader.error is None for reader in readers):
                    await asyncio.sleep(0.2)
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
    return acknowledged, readers


def missing(reader: Reader, acknowledged: dict[MessageId, str]) -> list[MessageId]:
    """Acknowledged messages on the reader's topics that it did not get."""
    read = set(reader.read)
    return [name for name, topic in acknowledged.items() if topic in reader.topics and name not in read]


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(SMALL, id="small"),
        pytest.param(FULL, id="full", marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
    ],
)
def test_what_two_other_homes_have_outlives_nodes_that_are_killed_and_gone(plan: Plan, tmp_path: Path) -> None:
    acknowledged, readers = asyncio.run(run(plan, tmp_path))
    print(f"{len(acknowledged)} acknowledged, {sum(len(reader.read) for reader in readers)} read")
    assert len(acknowledged) > 5 * plan.kills
    for reader in readers:
        assert reader.error is None
        assert len(set(reader.read)) == len(reader.read)
        assert missing(reader, acknowledged) == []
    journals = sorted(tmp_path.glob("*/journal.db"))
    assert len(journals) == plan.nodes
    rows = list(export_rows(journals))
    left = {
        (row.topic, row.source, row.seq)
        for row in rows
        if row.event is Event.DELIVER and row.node not in plan.gone.values()
    }
    assert [one for one in acknowledged if (f"p{one.partition}", one.slot, one.seq) not in left] == []
    # The journal of a node that is gone does not know how its last life ended.
    rows += [Row(rows[-1].time_us, Event.CRASH, node) for node in plan.gone.values()]
    assert audit(rows).violated == ()
