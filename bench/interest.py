"""What a message costs all nodes of a cluster together, where few of them want it.

    python bench/interest.py [--nodes 2,4,8] [--replicas 1,2,3] [--partitions 256] [--topics 64] [--messages 200]
        [--window 256] [--pause 0]

Nodes are processes with journals. Each topic is subscribed at two nodes and published at a third. Payloads are 128
random bytes. The figures: processor time of all node processes for one message (user and system, from /proc); bytes in
the journals, once the nodes have stopped, for one message and node that delivered it; dependencies across partitions
that a message names.

Then one topic alone is published on. A node that neither takes its partition nor is a home of it is watched: bytes it
receives from other nodes meanwhile, and in as much time without any message (failure detection, rosters).
"""

import argparse
import asyncio
import itertools
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import antecede
from antecede import Bus
from antecede.node.local_cluster import LocalCluster

PAYLOAD_BYTES = 128
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def payload() -> bytes:
    """Random bytes: journals pack what repeats, and zeros would flatter them."""
    return os.urandom(PAYLOAD_BYTES)


def cpu_s(cluster: LocalCluster) -> float:
    """Processor time of all nodes so far."""
    spent = 0
    for process in cluster.processes.values():
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        spent += int(fields[11]) + int(fields[12])
    return spent / TICKS_PER_S


def stored(cluster: LocalCluster) -> int:
    """Bytes of all journals with their logs, of nodes that have stopped."""
    homes = [cluster.journal(node).parent for node in range(cluster.count)]
    return sum([file.stat().st_size for home in homes for file in home.glob("journal.db*")])


async def read(bus: Bus, topics: list[str], count: int, ready: "asyncio.Future[None]") -> float:
    """Read `count` messages; how many messages each names across partitions, on average, after the first round."""
    across = 0
    async with bus.subscribe(*topics) as feed:
        ready.set_result(None)
        for number in range(count):
            message = await anext(feed)
            if number >= len(topics):
                across += sum(one.partition != message.id.partition for one in message.after)
    return across / max(1, count - len(topics))


async def publish(bus: Bus, topics: list[str], count: int, pause_s: float, window: int = 0) -> None:
    """`count` rounds: in each a message on every topic, all under way together; with a pause, one after the other.

    With a window and no pause, rounds follow each other without waiting: up to `window` messages are under way.
    """
    if window and not pause_s:
        names = itertools.chain.from_iterable(itertools.repeat(topics, count))

        async def one_after_the_other() -> None:
            for topic in names:
                await bus.publish(topic, payload())

        await asyncio.gather(*[one_after_the_other() for _ in range(window)])
        return
    for _ in range(count):
        if not pause_s:
            await asyncio.gather(*[bus.publish(topic, payload()) for topic in topics])
        for topic in topics if pause_s else ():
            await bus.publish(topic, payload())
            await asyncio.sleep(pause_s)


async def settle(buses: list[Bus], *, within_s: float = 60.0) -> None:
    """Return when each node takes what it needs: two looks in a row say the same."""
    last: list[Any] = []
    async with asyncio.timeout(within_s):
        while True:
            now = [[one["partition"] for one in (await bus.status())["partitions"]] for bus in buses]
            if now == last:
                return
            last = now
            await asyncio.sleep(3)


async def measure(nodes: int, replicas: int, asked: argparse.Namespace) -> dict[str, Any]:
    partitions, topics, messages = asked.partitions, asked.topics, asked.messages
    pause_s, window = asked.pause / 1000, asked.window
    names = [f"t/{number}" for number in range(topics)]
    settings = {"partitions": partitions, "replicas": replicas, "linger_s": 3600.0}
    with tempfile.TemporaryDirectory() as base:
        async with LocalCluster(Path(base), nodes=nodes, **settings) as cluster:
            buses = [await antecede.connect(cluster.url(node)).__aenter__() for node in range(nodes)]
            await settle(buses)
            at = {place: [[] for _ in range(nodes)] for place in ("first", "second", "writer")}
            for number, name in enumerate(names):
                for offset, place in enumerate(at):
                    at[place][(number + offset) % nodes].append(name)
            ready, readers = [], []
            for place in ("first", "second"):
                for bus, taken in zip(buses, at[place], strict=True):
                    ready.append(asyncio.get_running_loop().create_future())
                    work = read(bus, taken or ["nothing"], len(taken) * messages, ready[-1])
                    readers.append(asyncio.ensure_future(work))
            await asyncio.gather(*ready)
            await asyncio.gather(*[publish(bus, mine, 1, 0) for bus, mine in zip(buses, at["writer"], strict=True)])
            await settle(buses)
            cpu, begin = cpu_s(cluster), time.monotonic()
            await asyncio.gather(
                *[
                    publish(bus, mine, messages - 1, pause_s, window)
                    for bus, mine in zip(buses, at["writer"], strict=True)
                ]
            )
            across = await asyncio.gather(*readers)
            took_s = time.monotonic() - begin
            count = topics * (messages - 1)
            delivered = sum([(await bus.status())["counts"]["delivered"] for bus in buses])
            row = {
                "nodes": nodes,
                "replicas": replicas,
                "partitions": partitions,
                "cpu us/message": round((cpu_s(cluster) - cpu) / count * 1e6, 1),
                "messages/s": round(count / took_s),
                "deliveries/message": round(delivered / (topics * messages), 2),
                "across/message": round(sum(across) / len(across), 2),
                **await stranger(buses, names),
            }
            for bus in buses:
                await bus.close()
        row["bytes on disk/delivery"] = round(stored(cluster) / delivered)
    return row


async def stranger(buses: list[Bus], names: list[str]) -> dict[str, Any]:
    """Bytes at a node that does not take the partition of the topic published on."""
    answers = [await bus.status() for bus in buses]
    taken = [{one["partition"] for one in answer["partitions"]} for answer in answers]
    for writer, bus in enumerate(buses):
        for name in names:
            partition = (await bus.publish(name, payload())).partition if writer == 0 else -1
            outside = [at for at, mine in enumerate(taken) if partition >= 0 and partition not in mine]
            if outside and partition in taken[0]:
                idle, position = await _received(buses[outside[0]]), answers[outside[0]]["position"]
                await asyncio.sleep(3)
                begin = await _received(buses[outside[0]])
                until = asyncio.get_running_loop().time() + 3
                sent = 0
                while asyncio.get_running_loop().time() < until:
                    await bus.publish(name, payload())
                    sent += 1
                end = await _received(buses[outside[0]])
                after = (await buses[outside[0]].status())["position"]
                return {
                    "stranger: bytes in 3 s idle": begin - idle,
                    f"in 3 s of {sent} messages": end - begin,
                    "delivered": after - position,
                }
    return {"stranger": "every node takes every partition that node 0 takes"}


async def _received(bus: Bus) -> int:
    return int((await bus.status())["counts"]["bytes_received"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="2,4,8")
    parser.add_argument("--replicas", default="1,2,3")
    parser.add_argument("--partitions", type=int, default=256)
    parser.add_argument("--topics", type=int, default=64)
    parser.add_argument("--messages", type=int, default=200, help="on each topic")
    parser.add_argument("--pause", type=float, default=0, help="milliseconds after each message")
    parser.add_argument("--window", type=int, default=256, help="messages under way at each node; 0: one on each topic")
    asked = parser.parse_args()
    for replicas in map(int, asked.replicas.split(",")):
        for nodes in map(int, asked.nodes.split(",")):
            row = asyncio.run(measure(nodes, replicas, asked))
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
