"""A cluster grows from 3 nodes to 12 and shrinks to 3 again while messages flow: how long each step takes, and is
anything lost?

    python bench/grow.py [--nodes 12] [--rate 100]

Nodes are processes with journals, started by `antecede node --leave`. A client at node 0 publishes all the time, and
so does one at each further node while that is a member; publications are acknowledged as `replicated(1)`. Clients at
node 1 and 2 read everything. A step begins with the start of a process, or with the signal that stops it. It ends when
node 0 shows the new member as up, or when the process has left and ended. No other process is restarted.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from pathlib import Path

import antecede
from antecede import Bus, MessageId
from antecede.node.local_cluster import free_ports

STAYING = 3


class Growing:
    """The processes of one cluster."""

    def __init__(self, directory: Path, nodes: int) -> None:
        self.directory = directory
        self.ports = free_ports([0] * nodes)
        self.processes: dict[int, asyncio.subprocess.Process] = {}

    def url(self, node: int) -> str:
        return f"antecede://127.0.0.1:{self.ports[node]}"

    async def start(self, node: int) -> None:
        """Start a node. Returns when it takes clients."""
        words = ["node", "--name", f"n{node}", "--dir", str(self.directory / f"n{node}"), "--leave"]
        words += ["--port", str(self.ports[node])]
        words += ["--seed", f"127.0.0.1:{self.ports[0]}"] if node else []
        with (self.directory / f"n{node}.log").open("wb") as log:
            self.processes[node] = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "antecede", *words, stdout=asyncio.subprocess.PIPE, stderr=log
            )
        out = self.processes[node].stdout
        assert out is not None
        line = await asyncio.wait_for(out.readline(), 120)
        if not line.startswith(b"node "):
            raise SystemExit((self.directory / f"n{node}.log").read_text())

    async def leave(self, node: int) -> None:
        self.processes[node].send_signal(signal.SIGTERM)
        await asyncio.wait_for(self.processes[node].wait(), 120)

    def kill(self) -> None:
        for process in self.processes.values():
            if process.returncode is None:
                process.kill()


class Publisher:
    """Publishes until it is told to stop."""

    def __init__(self, bus: Bus, name: str, pause_s: float, acknowledged: list[MessageId]) -> None:
        self._stopping = False
        self._task = asyncio.create_task(self._publish(bus, f"load/{name}", pause_s, acknowledged))

    async def stop(self) -> None:
        """Return when the publication under way is acknowledged."""
        self._stopping = True
        await self._task

    async def _publish(self, bus: Bus, topic: str, pause_s: float, acknowledged: list[MessageId]) -> None:
        number = 0
        while not self._stopping:
            number += 1
            acknowledged.append(await bus.publish(topic, b"%d" % number, durability="replicated(1)"))
            await asyncio.sleep(pause_s)


async def read(bus: Bus, seen: list[MessageId]) -> None:
    async with bus.subscribe("load/#", since="0") as feed:
        async for message in feed:
            seen.append(message.id)


async def until_up(bus: Bus, count: int) -> None:
    """Node 0 shows so many members as up."""
    while True:
        states = [one["state"] for one in (await bus.status())["members"]]
        if sum(state in ("up", "here") for state in states) >= count:
            return
        await asyncio.sleep(0.05)


async def run(nodes: int, rate: float) -> None:
    with tempfile.TemporaryDirectory() as base:
        cluster = Growing(Path(base), nodes)
        acknowledged: list[MessageId] = []
        seen: dict[int, list[MessageId]] = {1: [], 2: []}
        publishers: dict[int, Publisher] = {}
        buses: dict[int, Bus] = {}
        try:
            for node in range(STAYING):
                await cluster.start(node)
                buses[node] = await antecede.connect(cluster.url(node)).__aenter__()
            readers = [asyncio.create_task(read(buses[node], ids)) for node, ids in seen.items()]
            publishers[0] = Publisher(buses[0], "n0", 1 / rate, acknowledged)
            await asyncio.sleep(2)
            for node in range(STAYING, nodes):
                begin = time.monotonic()
                await cluster.start(node)
                ready_s = time.monotonic() - begin
                await until_up(buses[0], node + 1)
                up_s = time.monotonic() - begin
                say(f"{node} -> {node + 1} nodes: {ready_s:.2f} s to take clients, {up_s:.2f} s to be up")
                buses[node] = await antecede.connect(cluster.url(node)).__aenter__()
                publishers[node] = Publisher(buses[node], f"n{node}", 1 / rate, acknowledged)
            await asyncio.sleep(3)
            for node in reversed(range(STAYING, nodes)):
                await publishers.pop(node).stop()
                await buses.pop(node).close()
                begin = time.monotonic()
                await cluster.leave(node)
                say(f"{node + 1} -> {node} nodes: {time.monotonic() - begin:.2f} s to leave")
            await asyncio.sleep(2)
            await publishers.pop(0).stop()
            await asyncio.sleep(3)
            for node, ids in seen.items():
                lost, twice = set(acknowledged) - set(ids), len(ids) - len(set(ids))
                say(f"reader at node {node}: {len(ids)} messages")
                say(f"  of {len(acknowledged)} acknowledged lost {len(lost)}, delivered twice {twice}")
            restarted = [node for node in range(STAYING) if cluster.processes[node].returncode is not None]
            say(f"processes that stayed and ended: {restarted}")
            for reader in readers:
                reader.cancel()
            for bus in buses.values():
                await bus.close()
        finally:
            cluster.kill()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=12)
    parser.add_argument("--rate", type=float, default=100.0, help="messages a second of each publisher, at most")
    asked = parser.parse_args()
    asyncio.run(run(asked.nodes, asked.rate))


if __name__ == "__main__":
    main()
