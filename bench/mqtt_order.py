"""Causal order through MQTT: three devices ask and answer each other at three brokers with bad links between them.

    python bench/mqtt_order.py [--questions 200] [--mean 0.02] [--seconds 60]

antecede: three nodes of a cluster, whose fault injection delays packets between them; a few take long (a heavy-tailed
distribution). mosquitto: three brokers, each with a bridge to the two others that carries what its own device publishes
(QoS 1); the connections of the bridges go through a proxy that delays what it carries by the same distribution, in
order. Devices are aiomqtt's clients, unmodified. A trace of what they published and read is judged by the audit.
"""

import argparse
import asyncio
import contextlib
import random
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.node.clusters import cluster
from tests.node.mqtt.conversation import DEVICES, Conversation

from antecede.audit.report import Report
from antecede.node.local_cluster import free_ports

SHAPE = 1.2


class SlowLink:
    """A proxy to one port: it carries bytes in order, each piece after a delay of its own."""

    def __init__(self, port: int, mean_s: float, seed: int) -> None:
        self._port = port
        self._mean_s = mean_s
        self._chance = random.Random(seed)
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
            await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))
        writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        last = 0.0
        while data := await reader.read(65536):
            delay_s = self._mean_s * (SHAPE - 1) / SHAPE * self._chance.paretovariate(SHAPE)
            last = max(last + 1e-6, loop.time() + delay_s)  # calls of the same time have no order
            loop.call_at(last, writer.write, data)
        writer.close()

    def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()


@asynccontextmanager
async def nodes(mean_s: float) -> AsyncIterator[list[int]]:
    faults = (f"heavy-tailed:mean={mean_s},shape={SHAPE},t_pc=0,t_t=0",)
    with tempfile.TemporaryDirectory() as base:
        async with cluster(DEVICES, Path(base), mqtt_port=0, fault_injection=faults) as running:
            yield [node.mqtt.ports["mqtt_port"] for node in running if node.mqtt is not None]


@asynccontextmanager
async def bridged(mean_s: float) -> AsyncIterator[list[int]]:
    ports = free_ports([0] * DEVICES)
    command = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    async with AsyncExitStack() as stack:
        base = stack.enter_context(tempfile.TemporaryDirectory())
        for here, port in enumerate(ports):
            lines = [f"listener {port} 127.0.0.1", "allow_anonymous true", "max_queued_messages 0"]
            for there in range(DEVICES):
                if there != here:
                    link = SlowLink(ports[there], mean_s, seed=DEVICES * here + there)
                    lines += [f"connection b{here}to{there}", f"address 127.0.0.1:{await link.start()}"]
                    lines += [f"topic o{here}/# out 1", "notifications false", "restart_timeout 1"]
                    stack.callback(link.stop)
            settings = Path(base, f"{here}.conf")
            settings.write_text("\n".join(lines) + "\n")
            quiet = asyncio.subprocess.DEVNULL
            process = await asyncio.create_subprocess_exec(command, "-c", str(settings), stdout=quiet, stderr=quiet)
            stack.callback(process.terminate)
        await asyncio.sleep(1.0)
        yield ports


async def measure(name: str, questions: int, mean_s: float, within_s: float) -> None:
    async with (nodes if name == "antecede" else bridged)(mean_s) as ports:
        talk = Conversation(ports, questions, every_s=0.02)
        report: Report = await talk.run(within_s)
    found = {rule.name: rule for rule in report.rules}
    words = [name, report.messages, report.deliveries]
    words += [found[rule].violations for rule in ("causal", "fifo", "complete")]
    print("|", " | ".join(map(str, [*words, talk.twice])), "|", flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--mean", type=float, default=0.02)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    print(
        "| brokers | messages | read by devices | before one that they depend on | before an older one | lost | twice |"
    )
    print("|---" * 7 + "|")
    for name in ("antecede", "mosquitto"):
        await measure(name, given.questions, given.mean, given.seconds)


if __name__ == "__main__":
    asyncio.run(main())
