"""Many idle clients, many messages and a slow reader: memory stays bounded, the node stays responsive. Slow."""

import asyncio
import resource
from pathlib import Path

import pytest

import antecede
from antecede.live.node.local import LocalCluster
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


async def slow_reader(directory: Path, count: int, *, memory: bool) -> tuple[float, int]:
    """Megabytes the node grew by, and how many messages the slow reader got, all of them in order."""
    async with LocalCluster(directory, nodes=1, memory=memory) as cluster:
        pid = cluster.processes[0].pid
        async with (
            antecede.connect(cluster.url(0), patience_s=200) as writes,
            antecede.connect(cluster.url(0), patience_s=200) as reads,
            reads.subscribe("t", queue=256) as feed,
        ):
            grown = 0.0
            before = resident_mb(pid)

            async def publish() -> None:
                window: list[asyncio.Future[antecede.MessageId]] = []
                for number in range(count):
                    window.append(writes.publish_nowait("t", number.to_bytes(8, "big") + bytes(120)))
                    if len(window) == 1024:
                        await asyncio.gather(*window)
                        window.clear()
                await asyncio.gather(*window)

            publishing = asyncio.create_task(publish())
            got = 0
            while got < count:
                for message in await take(feed, min(1000, count - got)):
                    assert int.from_bytes(message.payload[:8], "big") == got
                    got += 1
                await asyncio.sleep(0.002)
                grown = max(grown, resident_mb(pid) - before)
            await publishing
    return grown, got


@pytest.mark.parametrize("memory", [True, False], ids=["memory", "journal"])
def test_a_slow_reader_costs_bounded_memory(tmp_path: Path, memory: bool) -> None:
    grown, got = asyncio.run(asyncio.wait_for(slow_reader(tmp_path, 200_000, memory=memory), 400))
    print(f"{got} messages to a slow reader: the node grew by {grown:.0f} MB at most")
    assert grown < 200
