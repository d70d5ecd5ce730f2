"""What empty slots cost: processor time of a cluster of three nodes, idle and for each message.

    python bench/slots.py [--slots 8,256,1024] [--messages 20000] [--idle 20]

Nodes are processes with journals. One client publishes at node 0, one reads at node 1; payloads are 128 bytes. The
figures are processor time of all node processes (user and system, from /proc): for a second without clients' messages,
and for each message.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import antecede
from antecede.node.local_cluster import LocalCluster
from interest import PAYLOAD, cpu_s

#: Publications under way.
WINDOW = 256


async def measure(slots: int, messages: int, idle_s: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as base:
        begin = time.monotonic()
        async with LocalCluster(Path(base), nodes=3, slots=slots) as cluster:
            started_s = time.monotonic() - begin
            await asyncio.sleep(3.0)  # the failure detector has looked at every slot
            cpu, begin = cpu_s(cluster), time.monotonic()
            await asyncio.sleep(idle_s)
            idle = (cpu_s(cluster) - cpu) / (time.monotonic() - begin)
            async with (
                antecede.connect(cluster.url(0)) as writer,
                antecede.connect(cluster.url(1)) as reader,
                reader.subscribe("t") as feed,
            ):
                cpu, begin = cpu_s(cluster), time.monotonic()
                publishing = asyncio.ensure_future(publish(writer, messages))
                for _ in range(messages):
                    await anext(feed)
                await publishing
                spent, took_s = cpu_s(cluster) - cpu, time.monotonic() - begin
        return {
            "slots": slots,
            "start s": round(started_s, 2),
            "idle cpu ms/s": round(idle * 1e3, 2),
            "cpu us/message": round((spent - idle * took_s) / messages * 1e6, 1),
            "messages/s": round(messages / took_s),
        }


async def publish(bus: antecede.Bus, messages: int) -> None:
    for first in range(0, messages, WINDOW):
        await asyncio.gather(*[bus.publish("t", PAYLOAD) for _ in range(min(WINDOW, messages - first))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slots", default="8,256,1024")
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--idle", type=float, default=20.0, help="seconds")
    asked = parser.parse_args()
    for slots in map(int, asked.slots.split(",")):
        sys.stdout.write(f"{asyncio.run(measure(slots, asked.messages, asked.idle))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
