"""The live system beside others, on this machine: messages a second, and latency, process to process.

    python bench/live.py [--messages 20000] [--seconds 3] [--only antecede,nats] [--shapes 1-1,1-8,8-8]

Each system's server runs by itself; publishers share one process, subscribers another, with a connection each. Payloads
are 128 bytes and begin with the time they were sent. Two runs for each system and shape: *rate*, publishers as fast as
their library lets them with everything delivered; and *latency*, one publisher at 500 messages a second. Each library
is used as its documentation shows for speed, and a message counts when it is in the application's hands: in the
callback where there is one, in the body of `async for` elsewhere.

Beside the clock on the wall stands the processor time of each side for one published message: on a machine that others
use too, that is what can be compared.

Others: nats-py with nats-server, redis-py with redis-server, aiomqtt with mosquitto (QoS 0), eclipse-zenoh. What is not
installed is named and left out: `apt-get install nats-server redis-server mosquitto`, `pip install nats-py redis
aiomqtt eclipse-zenoh`. None of them orders messages across publishers; antecede does unless it says "order none".
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from live_systems import SYSTEMS, Reader, System, missing

PAYLOAD_BYTES = 128
LATENCY_PER_S = 500


def payload() -> bytes:
    return time.time_ns().to_bytes(8, "big") + bytes(PAYLOAD_BYTES - 8)


async def publish_all(system: System, address: str, connections: int, count: int, paced: bool) -> dict[str, Any]:
    """`count` messages from each connection. When it began."""
    async with asyncio.timeout(300):
        clients = [await system.connect(address) for _ in range(connections)]
        for client in clients:
            await client.prepare("bench")
        begin, before = time.time_ns(), time.process_time()
        if paced:
            for number in range(count):
                await clients[0].publish("bench", payload())
                await asyncio.sleep(max(0.0, begin / 1e9 + (number + 1) / LATENCY_PER_S - time.time()))
        else:
            await asyncio.gather(*[client.publish_many("bench", payload, count) for client in clients])
        used = time.process_time() - before
        await asyncio.sleep(0.2)
        for client in clients:
            await client.close()
    return {"begin": begin, "cpu": used}


async def read_all(system: System, address: str, connections: int, count: int) -> dict[str, Any]:
    """`count` messages on each connection: when the last came, and how long each took."""

    async with asyncio.timeout(300):
        clients = [await system.connect(address) for _ in range(connections)]
        readers = [Reader(count) for _ in clients]
        for client, reader in zip(clients, readers, strict=True):
            await client.subscribe("bench", reader)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        before = time.process_time()
        await asyncio.gather(*[client.read(reader) for client, reader in zip(clients, readers, strict=True)])
        used = time.process_time() - before
        for client in clients:
            await client.close()
    latencies = sorted(took for reader in readers for took in reader.taken)
    step = max(1, len(latencies) // 1000)
    return {"end": max(reader.end for reader in readers), "latencies": latencies[::step], "cpu": used}


def server_cpu_s() -> float:
    """Processor time of the processes this one has started and that still run."""
    ticks = 0
    for task in Path("/proc/self/task").glob("*/children"):
        for child_id in task.read_text().split():
            fields = Path(f"/proc/{child_id}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


async def child(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--child", json.dumps(arguments), stdout=asyncio.subprocess.PIPE
    )


async def answer(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), 300)
    await process.wait()
    result: dict[str, Any] = json.loads(line or b"{}")
    if not result:
        raise RuntimeError("a child failed; see above")
    return result


async def measure(
    name: str, address: str, publishers: int, subscribers: int, count: int, paced: bool
) -> dict[str, Any]:
    before = server_cpu_s()
    reading = await child("read", name, address, str(subscribers), str(count * publishers))
    assert reading.stdout is not None
    if await asyncio.wait_for(reading.stdout.readline(), 60) != b"ready\n":
        raise RuntimeError("the subscribers did not start")
    writing = await child("publish", name, address, str(publishers), str(count), str(int(paced)))
    wrote, read = await asyncio.gather(answer(writing), answer(reading))
    cpu = {"server": server_cpu_s() - before, "publisher": wrote["cpu"], "subscriber": read["cpu"]}
    return {"seconds": (read["end"] - wrote["begin"]) / 1e9, "latencies": read["latencies"], "cpu": cpu}


async def bench(name: str, shape: str, messages: int, seconds: float) -> dict[str, float]:
    publishers, subscribers = map(int, shape.split("-"))
    count = max(100, messages // (publishers * max(1, subscribers // 4)))
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        async with SYSTEMS[name].server(Path(directory)) as address:
            quick = await measure(name, address, publishers, subscribers, count, False)
            slow = await measure(name, address, 1, subscribers, int(seconds * LATENCY_PER_S), True)
    latencies = [took / 1e6 for took in slow["latencies"]]
    return {
        "published_per_s": publishers * count / quick["seconds"],
        "delivered_per_s": publishers * subscribers * count / quick["seconds"],
        "p50_ms": statistics.quantiles(latencies, n=100)[49],
        "p99_ms": statistics.quantiles(latencies, n=100)[98],
        **{side: used / (publishers * count) * 1e6 for side, used in quick["cpu"].items()},
    }


async def run(options: argparse.Namespace) -> None:
    names = [
        name for name in SYSTEMS if not options.only or any(name.startswith(one) for one in options.only.split(","))
    ]
    lacking = {name: what for name in names if (what := missing(name))}
    for name, what in lacking.items():
        print(f"left out: {name} ({what})")
    for shape in options.shapes.split(","):
        print(f"\n{shape.replace('-', ' publishers → ')} subscribers, {PAYLOAD_BYTES}-byte payloads")
        print(
            f"  {'system':34}{'published/s':>13}{'delivered/s':>13}{'p50 ms':>9}{'p99 ms':>9}{'× nats':>9}"
            f"{'server µs':>11}{'pub µs':>8}{'sub µs':>8}"
        )
        yardstick = 0.0
        for name in sorted([name for name in names if name not in lacking], key=lambda name: name != "nats"):
            try:
                found = await bench(name, shape, options.messages, options.seconds)
            except (RuntimeError, TimeoutError, OSError) as error:
                print(f"  {name:34} failed: {error}")
                continue
            yardstick = yardstick or (found["published_per_s"] if name == "nats" else 0.0)
            ratio = f"{found['published_per_s'] / yardstick:.2f}" if yardstick else "–"
            print(
                f"  {name:34}{found['published_per_s']:>13,.0f}{found['delivered_per_s']:>13,.0f}"
                f"{found['p50_ms']:>9.2f}{found['p99_ms']:>9.2f}{ratio:>9}"
                f"{found['server']:>11.1f}{found['publisher']:>8.1f}{found['subscriber']:>8.1f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--shapes", default="1-1,1-8,8-8")
    parser.add_argument("--child", default="")
    options = parser.parse_args()
    if not options.child:
        asyncio.run(run(options))
        return
    what, name, address, connections, count, *rest = json.loads(options.child)
    system = SYSTEMS[name]
    if what == "publish":
        result = asyncio.run(publish_all(system, address, int(connections), int(count), rest == ["1"]))
    else:
        result = asyncio.run(read_all(system, address, int(connections), int(count)))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
