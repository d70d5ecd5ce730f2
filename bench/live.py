"""The live system beside others, on this machine: messages a second, and latency, process to process.

    python bench/live.py [--payload 128,4096] [--shapes 1-1,1-8,8-8] [--rounds 3] [--quick]
                         [--only nats "antecede, journal"]

The whole run, all systems with both payloads, takes about ten minutes; `--quick` takes two.

Each system's server runs by itself; publishers share one process, subscribers another, with a connection each. Payloads
begin with the time they were sent. Two runs for each system, payload and shape: *rate*, publishers as fast as their
library lets them with everything delivered; and *latency*, one publisher at 500 messages a second (8-8 has none: it
would be that of 1-8). Each library is used as its documentation shows for speed, and a message counts when it is in the
application's hands: in the callback where there is one, in the body of `async for` elsewhere.

Systems take turns, round after round, and the table has medians. A ratio is the median of those to nats-py's run of the
same round.

Beside the clock on the wall stands the processor time of each side for one published message: on a machine that others
use too, that is what can be compared. "alone" is that of the server for a message that travels alone (latency run).

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
from collections import defaultdict
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from live_systems import SYSTEMS, Reader, System, missing

LATENCY_PER_S = 500
#: How many times fewer messages a slow system is given, so that it takes no longer than the others.
SLOW = {"redis": 3, "mqtt (mosquitto)": 8, "mqtt (antecede, journal)": 10}
#: A message of 4 KiB stands for so many small ones.
LARGE = 4

#: The columns of a result: name, heading, digits.
COLUMNS = (
    ("published", "published/s", 0),
    ("delivered", "delivered/s", 0),
    ("p50", "p50 ms", 3),
    ("p99", "p99 ms", 3),
    ("rate_ratio", "× nats", 2),
    ("p50_ratio", "p50 × nats", 2),
    ("server", "server µs", 1),
    ("publisher", "pub µs", 1),
    ("subscriber", "sub µs", 1),
    ("alone", "alone µs", 0),
)


def payload(size: int) -> bytes:
    return time.time_ns().to_bytes(8, "big") + bytes(size - 8)


def say(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


async def publish_all(system: System, address: str, size: int, connections: int, count: int, paced: int) -> None:
    """`count` messages from each connection; then, when told to, `paced` messages at a steady pace."""
    async with asyncio.timeout(300):
        clients = [await system.connect(address) for _ in range(connections)]
        for client in clients:
            await client.prepare("bench")
        begin, before = time.time_ns(), time.process_time()
        await asyncio.gather(*[client.publish_many("bench", partial(payload, size), count) for client in clients])
        say({"begin": begin, "cpu": time.process_time() - before})
        await asyncio.to_thread(sys.stdin.readline)
        start = time.time()
        for number in range(paced):
            await clients[0].publish("bench", payload(size))
            await asyncio.sleep(max(0.0, start + (number + 1) / LATENCY_PER_S - time.time()))
        await asyncio.to_thread(sys.stdin.readline)
        for client in clients:
            await client.close()


async def read_all(system: System, address: str, connections: int, count: int, paced: int) -> None:
    """`count` messages on each connection, when the last came; then `paced` messages, and how long each took."""
    async with asyncio.timeout(300):
        clients = [await system.connect(address) for _ in range(connections)]
        readers = [Reader() for _ in clients]
        for client, reader in zip(clients, readers, strict=True):
            reader.expect(count)
            await client.subscribe("bench", reader)
        say("ready")
        before = time.process_time()
        await asyncio.gather(*[client.read(reader) for client, reader in zip(clients, readers, strict=True)])
        result = {"end": max(reader.end for reader in readers), "cpu": time.process_time() - before}
        for reader in readers:
            reader.expect(paced)
        say(result)
        if paced:
            await asyncio.gather(*[client.read(reader) for client, reader in zip(clients, readers, strict=True)])
            latencies = sorted(took for reader in readers for took in reader.taken)
            say([took / 1e6 for took in latencies])
        for client in clients:
            await client.close()


def children() -> set[int]:
    """The processes that this one has started and that still run."""
    return {int(child) for task in Path("/proc/self/task").glob("*/children") for child in task.read_text().split()}


def cpu_s(processes: set[int]) -> float:
    """Processor time of these processes."""
    used = 0
    for process in processes:
        for task in Path(f"/proc/{process}/task").glob("*/schedstat"):
            used += int(task.read_text().split()[0])
    return used / 1e9


class Child:
    """A process of publishers or subscribers."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, *arguments: object) -> "Child":
        pipe = asyncio.subprocess.PIPE
        words = (sys.executable, __file__, "--child", json.dumps(arguments))
        limit = 1 << 24
        return cls(await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, limit=limit))

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    async def answer(self) -> Any:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), 300)
        if not line:
            raise RuntimeError("a child failed; see above")
        return json.loads(line)

    async def end(self) -> None:
        if self._process.returncode is None and self._process.stdin is not None:
            self._process.stdin.close()
            await asyncio.wait_for(self._process.wait(), 60)


async def measure(
    name: str, address: str, servers: set[int], size: int, shape: str, messages: int, paced: int
) -> dict[str, float]:
    """One system, payload and shape, once."""
    publishers, subscribers = map(int, shape.split("-"))
    count = max(100, messages // (publishers * max(1, subscribers // 4)))
    paced = 0 if publishers > 1 else paced
    reading = await Child.start("read", name, address, subscribers, count * publishers, paced)
    await reading.answer()
    writing = await Child.start("publish", name, address, size, publishers, count, paced)
    try:
        before = cpu_s(servers)
        wrote, read = await asyncio.gather(writing.answer(), reading.answer())
        published = publishers * count
        seconds = (read["end"] - wrote["begin"]) / 1e9
        result = {
            "published": published / seconds,
            "delivered": published * subscribers / seconds,
            "server": (cpu_s(servers) - before) / published * 1e6,
            "publisher": wrote["cpu"] / published * 1e6,
            "subscriber": read["cpu"] / published * 1e6,
        }
        if paced:
            before = cpu_s(servers)
            writing.go_on()
            cuts = statistics.quantiles(await reading.answer(), n=100)
            result |= {"p50": cuts[49], "p99": cuts[98], "alone": (cpu_s(servers) - before) / paced * 1e6}
        return result
    finally:
        await writing.end()
        await reading.end()


def median(rounds: list[dict[str, float]], beside: list[dict[str, float]]) -> dict[str, float]:
    """The medians of some rounds of a system; and of the ratios to nats-py in the same rounds."""
    found = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    for ratio, name in (("rate_ratio", "published"), ("p50_ratio", "p50")):
        ratios = [
            one[name] / other[name]
            for one, other in zip(rounds, beside, strict=False)
            if name in one and other.get(name)
        ]
        if ratios:
            found[ratio] = statistics.median(ratios)
    return found


def show(size: int, shape: str, found: dict[str, list[dict[str, float]]]) -> None:
    print(f"\n{shape.replace('-', ' → ')}, {size}-byte payloads\n")
    print("| system | " + " | ".join(heading for _, heading, _ in COLUMNS) + " |")
    print("|---" * (1 + len(COLUMNS)) + "|")
    for name, rounds in found.items():
        result = median(rounds, found.get("nats", []))
        cells = [f"{result[key]:,.{digits}f}" if key in result else "–" for key, _, digits in COLUMNS]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


async def run(options: argparse.Namespace) -> None:
    names = [name for name in SYSTEMS if not options.only or name.startswith(tuple(options.only))]
    for name in [name for name in names if missing(name)]:
        print(f"left out: {name} ({missing(name)})")
        names.remove(name)
    runs = [(int(size), shape) for size in options.payload.split(",") for shape in options.shapes.split(",")]
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        servers: dict[str, tuple[str, set[int]]] = {}
        for name in names:
            others = children()
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
            address = await stack.enter_async_context(SYSTEMS[name].server(directory))
            servers[name] = (address, children() - others)
        for size, shape in runs:
            found: dict[str, list[dict[str, float]]] = defaultdict(list)
            for _ in range(options.rounds):
                for name in names:
                    messages = options.messages // SLOW.get(name, 1) // (LARGE if size > 1024 else 1)
                    try:
                        paced = int(options.seconds * LATENCY_PER_S)
                        found[name].append(await measure(name, *servers[name], size, shape, messages, paced))
                    except (RuntimeError, TimeoutError, OSError) as error:
                        print(f"{name} failed: {error}")
            show(size, shape, {name: rounds for name, rounds in found.items() if rounds})
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"\n{options.rounds} rounds, {time.monotonic() - began:.0f} s, load average {load}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--payload", default="128,4096", help="bytes, separated by commas")
    parser.add_argument("--messages", type=int, default=100_000, help="of 128 bytes; fewer of larger ones")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each latency run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round of fewer messages")
    parser.add_argument("--only", nargs="+", default=(), help="beginnings of names of systems")
    parser.add_argument("--shapes", default="1-1,1-8,8-8")
    parser.add_argument("--child", default="")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.messages = 1, min(options.messages, 30_000)
    if not options.child:
        asyncio.run(run(options))
        return
    what, name, *rest = json.loads(options.child)
    asyncio.run((publish_all if what == "publish" else read_all)(SYSTEMS[name], *rest))


if __name__ == "__main__":
    main()
