"""Many idle clients, many messages and a slow reader: memory stays bounded, the node stays responsive. Slow."""

import asyncio
import resource
from dataclasses import dataclass
from pathlib import Path

import pytest

import antecede
from antecede.node.local_cluster import LocalCluster
from antecede.wire.requests import Policy
from tests.client.running import take

pytestmark = pytest.mark.slow


def resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


async def idle_clients(directory: Path, count: int) -> tuple[float, float]:
    """Kilobytes a client costs the node, and how long a message takes to one of them, in ms."""
    async with LocalCluster(directory, nodes=1, memory=True) as cluster:
        pid = cluster.processes[0].pid
        async with antecede.connect(cluster.url(0)) as warm:
            await warm.publish("warm", b"")
        before = resident_mb(pid)
        buses: list[antecede.Bus] = []
        for first in range(0, count, 100):
            fresh = [antecede.connect(cluster.url(0), timeout_s=60) for _ in range(min(100, count - first))]
            await asyncio.gather(*[bus.__aenter__() for bus in fresh])
            feeds = [bus.subscribe(f"idle/{first + number}") for number, bus in enumerate(fresh)]
            await asyncio.gather(*[feed.__aenter__() for feed in feeds])
            buses += fresh
        each_kb = (resident_mb(pid) - before) * 1024 / count
        async with buses[-1].subscribe("ping") as feed:
            began = asyncio.get_running_loop().time()
            for _ in range(20):
                await buses[0].publish("ping", b"x")
                await take(feed, 1)
            took_ms = (asyncio.get_running_loop().time() - began) / 20 * 1000
        for bus in buses:
            await bus.close()
    return each_kb, took_ms


def test_ten_thousand_idle_clients(tmp_path: Path) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(10_000, most - 500)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    each_kb, took_ms = asyncio.run(asyncio.wait_for(idle_clients(tmp_path, count), 300))
    print(f"{count} idle clients with a feed each: {each_kb:.1f} kB a client, {took_ms:.2f} ms there and back")
    assert each_kb < 100


@dataclass(slots=True)
class Reading:
    """What became of messages to a reader that takes ten thousand a second at most while they are published."""

    published: int = 0
    got: int = 0
    dropped: int = 0
    #: The most messages it was behind by.
    behind: int = 0
    #: The most megabytes the node had, beyond those it started with.
    grown_mb: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.published} messages to a slow reader, up to {self.behind} behind: {self.got} read, "
            f"{self.dropped} dropped; the node grew by {self.grown_mb:.0f} MB at most"
        )


async def slow_reader(directory: Path, count: int, *, memory: bool, policy: Policy) -> Reading:
    """Every message in order; with gaps, where messages may be dropped."""
    found = Reading()
    async with LocalCluster(directory, nodes=1, memory=memory) as cluster:
        pid = cluster.processes[0].pid
        async with (
            antecede.connect(cluster.url(0), patience_s=200, timeout_s=60) as writes,
            antecede.connect(cluster.url(0), patience_s=200, timeout_s=60) as reads,
            reads.subscribe("t", queue=256, policy=policy) as feed,
        ):
            before = resident_mb(pid)

            async def publish() -> None:
                while found.published < count:
                    block = range(found.published, min(found.published + 1024, count))
                    await asyncio.gather(
                        *[writes.publish_nowait("t", number.to_bytes(8, "big") + bytes(120)) for number in block]
                    )
                    found.published = block.stop

            publishing = asyncio.create_task(publish())
            last = -1
            while last < count - 1:
                message = await anext(feed)
                number = int.from_bytes(message.payload[:8], "big")
                found.got += 1
                assert number == last + 1 if policy == "block" else number > last
                last = number
                if found.got % 1000 == 0:
                    found.behind = max(found.behind, found.published - last)
                    found.grown_mb = max(found.grown_mb, resident_mb(pid) - before)
                    if not publishing.done():
                        await asyncio.sleep(0.1)
            await publishing
            found.dropped = feed.dropped
    return found


@pytest.mark.parametrize(
    ("count", "memory", "policy"),
    [
        pytest.param(200_000, True, "block", id="without a journal publishers wait"),
        pytest.param(1_000_000, False, "block", id="a million through the journal"),
        pytest.param(1_000_000, False, "drop_oldest", id="a million, the oldest dropped"),
    ],
)
def test_a_slow_reader_costs_bounded_memory(tmp_path: Path, count: int, memory: bool, policy: Policy) -> None:
    found = asyncio.run(asyncio.wait_for(slow_reader(tmp_path, count, memory=memory, policy=policy), 580))
    print(found)
    assert found.published == count == found.got + found.dropped
    assert (found.dropped > 0) == (policy == "drop_oldest")
    assert found.grown_mb < 200
