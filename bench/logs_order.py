"""Causal order over a JetStream cluster: a plain reader beside antecede, judged by the audit.

    python bench/logs_order.py [--records 100000] [--streams 2] [--leader-kills 0] [--client-kills 0]

Three nats-servers form a cluster on loopback; the streams have three replicas. Five clients, each a process of its own,
read all streams and answer what they read on a stream chosen at random. A plain nats-py reader reads the same streams
beside them. It counts the records that it is shown before one that they depend on (by their headers).

With `--leader-kills` the leader of a stream is killed -9 and started again, that many times while clients talk. With
`--client-kills` clients are killed -9 and go on from the cursor they stored last. A client that was killed is another
node for the audit, which had read the same up to that cursor.

Judged: order, nothing twice, nothing made up (`antecede.audit`); and each client was given every record of the streams.
"""

import argparse
import asyncio
import base64
import json
import logging
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nats

from antecede.audit import OUT_OF_ORDER, Question
from antecede.audit.vectorised.source import TableSource
from antecede.audit.vectorised.verdict import judge_run
from antecede.logs import connect
from antecede.protocols.logs import decode_header
from antecede.search.harness import ORDER
from antecede.trace import Event, Recorder

CLIENTS = 5
PAYLOAD_BYTES = 100
CURSOR_EVERY = 50
IN_FLIGHT = 500
PROGRAM = shutil.which("nats-server", path=f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/usr/sbin")


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    """Three servers with JetStream."""

    def __init__(self, directory: Path) -> None:
        self.ports, self.routes = free_ports(3), free_ports(3)
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * 3

    @property
    def hosts(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self, number: int) -> None:
        routes = ",".join(f"nats://127.0.0.1:{port}" for port in self.routes)
        words = f"-js -sd {self._directory / str(number)} -n s{number} -a 127.0.0.1 -p {self.ports[number]}"
        words += f" --cluster_name c --cluster nats://127.0.0.1:{self.routes[number]} --routes {routes}"
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._processes[number] = subprocess.Popen([str(PROGRAM), *words.split()], **quiet)

    def kill(self, number: int) -> None:
        process = self._processes[number]
        if process is not None:
            process.kill()
            process.wait()

    def stop(self) -> None:
        for number in range(3):
            self.kill(number)


async def until(check: Any, seconds: float = 120) -> Any:
    async with asyncio.timeout(seconds):
        while True:
            try:
                found = await check()
            except Exception:  # the cluster elects a leader
                found = None
            if found is not None:
                return found
            await asyncio.sleep(0.2)


# -- one client, in a process of its own ------------------------------------------------------------------------------


async def client(number: int, url: str, share: int, file: Path) -> None:
    lives, cursor, sent = 1, "0", 0
    if file.exists():
        for line in file.read_text().splitlines():
            kind, _, rest = line.partition(" ")
            lives += kind == "L"
            sent += kind == "P"
            cursor = rest if kind == "C" else cursor
    node, rng = number + CLIENTS * (lives - 1), random.Random(f"{number}.{lives}")
    with file.open("a") as out:
        out.write(f"L {time.time_ns() // 1000} {node}\n")
        seqs: dict[str, int] = {}
        ends, since_cursor = set(), 0
        async with connect(url, patience_s=20) as bus:
            topics = [f"{name}/x" for name in bus.names().values()]

            async def publish() -> None:
                nonlocal sent
                topic = rng.choice(topics)
                seq = seqs[topic] = seqs.get(topic, 0) + 1
                sent += 1
                out.write(f"P {time.time_ns() // 1000} {topic} {node} {seq}\n")
                out.flush()
                future = bus.publish_nowait(
                    topic, f"{topic} {node} {seq} ".encode().ljust(PAYLOAD_BYTES), timeout_s=300
                )
                if bus._publisher.waiting > IN_FLIGHT:
                    await future

            for _ in range(20):
                await publish()
            async with bus.subscribe("#", since=cursor) as feed:
                async for message in feed:
                    if message.payload == b"END":
                        ends.add(message.log)
                    else:
                        name = message.payload.decode().rstrip()
                        tag = " late" if message.out_of_order or message.incomplete else ""
                        out.write(f"D {time.time_ns() // 1000} {name}{tag}\n")
                        if sent < share and rng.random() < 0.5:
                            await publish()
                    since_cursor += 1
                    if since_cursor >= CURSOR_EVERY:
                        since_cursor = 0
                        out.write(f"C {message.cursor}\n")
                        out.flush()
                    if sent >= share and not bus._publisher.waiting and "done" not in seqs:
                        seqs["done"] = 1
                        file.with_suffix(".done").write_text(str(sent))
                    if len(ends) == len(topics) and not feed.held and not feed.waiting:
                        break
            file.with_suffix(".end").write_text(str(sent))


# -- a reader that knows nothing of us ---------------------------------------------------------------------------------


async def plain_reader(hosts: str, streams: list[str], numbers: dict[str, int], found: dict[str, int]) -> None:
    connection = await nats.connect([f"nats://{host}" for host in hosts.split(",")], max_reconnect_attempts=-1)
    js, seen = connection.jetstream(), dict.fromkeys(numbers.values(), 0)

    async def read(stream: str) -> None:
        ended = False
        while not ended:
            start = {"opt_start_seq": seen[numbers[stream]] + 1, "deliver_policy": "by_start_sequence"}
            config = nats.js.api.ConsumerConfig(ack_policy="none", inactive_threshold=60, **start)
            try:
                consumer = await js.pull_subscribe(f"{stream}.>", stream=stream, config=config)
                while not ended:
                    try:
                        messages = await consumer.fetch(200, timeout=5)
                    except nats.errors.TimeoutError:
                        await consumer.consumer_info()  # raises if it is gone with its server
                        continue
                    for message in messages:
                        seen[numbers[stream]] = message.metadata.sequence.stream
                        found["records"] += 1
                        text = (message.headers or {}).get("Antecede")
                        past = decode_header(base64.b64decode(text)).past if text else ()
                        found["early"] += any(seen.get(log, 0) < offset for log, offset in past)
                        ended = message.data == b"END"
            except Exception:  # a leader was killed: read on with another consumer
                await asyncio.sleep(0.5)

    await asyncio.gather(*[read(stream) for stream in streams])
    await connection.close()


# -- the whole ---------------------------------------------------------------------------------------------------------


async def run(options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    cluster = Cluster(directory / "servers")
    for number in range(3):
        cluster.start(number)
    running: dict[int, subprocess.Popen[bytes]] = {}
    try:
        return await play(options, directory, cluster, running)
    finally:
        for process in running.values():
            process.kill()
        cluster.stop()


async def play(
    options: argparse.Namespace, directory: Path, cluster: Cluster, running: dict[int, subprocess.Popen[bytes]]
) -> dict[str, Any]:
    streams = [f"s{number}" for number in range(options.streams)]
    servers = [f"nats://{host}" for host in cluster.hosts.split(",")]
    connection = await until(lambda: nats.connect(servers, max_reconnect_attempts=-1))
    js = connection.jetstream()
    for stream in streams:
        await until(lambda stream=stream: js.add_stream(name=stream, subjects=[f"{stream}.>"], num_replicas=3))
    url = f"nats://{cluster.hosts}?streams={','.join(streams)}"
    share, rng = options.records // CLIENTS, random.Random(1)
    files = [directory / f"client{number}.txt" for number in range(CLIENTS)]

    def start(number: int) -> None:
        words = [sys.executable, __file__, "--client", str(number), "--url", url, "--share", str(share)]
        running[number] = subprocess.Popen([*words, "--file", str(files[number])])

    async with connect(url) as bus:
        numbers = {name: number for number, name in bus.names().items()}
    began = time.monotonic()
    for number in range(CLIENTS):
        start(number)
    plain = {"records": 0, "early": 0}
    reading = asyncio.create_task(plain_reader(cluster.hosts, streams, numbers, plain))

    async def disturb() -> None:
        """Kills are spread over the publishing."""
        kills = ["leader"] * options.leader_kills + ["client"] * options.client_kills
        rng.shuffle(kills)
        for index, kill in enumerate(kills):
            due = options.records * (index + 1) // (len(kills) + 2)
            while plain["records"] < due and not all(file.with_suffix(".done").exists() for file in files):
                await asyncio.sleep(0.1)
            if kill == "leader":
                info = await until(lambda: js.stream_info(rng.choice(streams)))
                if info.cluster is None or not info.cluster.leader:
                    continue
                leader = int(info.cluster.leader[1:])
                await asyncio.to_thread(cluster.kill, leader)
                await asyncio.sleep(2)
                cluster.start(leader)
            else:
                number = rng.randrange(CLIENTS)
                running[number].send_signal(signal.SIGKILL)
                running[number].wait()
                start(number)

    await disturb()
    async with asyncio.timeout(options.seconds):
        while not all(file.with_suffix(".done").exists() for file in files):
            await asyncio.sleep(0.2)
    published_s = time.monotonic() - began
    for stream in streams:
        await until(lambda stream=stream: js.publish(f"{stream}.x", b"END"))
    async with asyncio.timeout(options.seconds):
        while not all(file.with_suffix(".end").exists() for file in files):
            await asyncio.sleep(0.2)
        await reading
    whole_s = time.monotonic() - began
    stored = await scan(js, streams)
    await connection.close()
    return {
        "streams": options.streams,
        "leader kills": options.leader_kills,
        "client kills": options.client_kills,
        "records": len(stored),
        "plain reader: answers before questions": plain["early"],
        "plain reader: records": plain["records"],
        "seconds until published": round(published_s, 1),
        "seconds until read": round(whole_s, 1),
        **judge(files, stored),
    }


async def scan(js: Any, streams: list[str]) -> set[str]:
    """The names of all records that the streams have."""
    stored = set()
    for stream in streams:
        config = nats.js.api.ConsumerConfig(ack_policy="none")
        consumer = await js.pull_subscribe(f"{stream}.>", stream=stream, config=config)
        left = (await js.stream_info(stream)).state.messages
        while left:
            for message in await consumer.fetch(min(left, 500), timeout=10):
                left -= 1
                if message.data and message.data != b"END":
                    stored.add(message.data.decode().rstrip())
    return stored


def judge(files: list[Path], stored: set[str]) -> dict[str, Any]:
    rows: list[tuple[int, int, int, Event, str, str]] = []
    missing = twice = late = deliveries = 0
    for file in files:
        kept: list[tuple[str, str]] = []
        upto = node = at = 0
        for line in file.read_text().splitlines():
            kind, *words = line.split(" ")
            if kind == "C":
                upto = len(kept)
                continue
            at = int(words[0])
            if kind == "L":
                node = int(words[1])
                del kept[upto:]
                for name, tag in kept:
                    rows.append((at, len(rows), node, Event.DELIVER, name, tag))
            elif kind == "P":
                rows.append((at, len(rows), node, Event.PUBLISH, " ".join(words[1:4]), ""))
            elif len(words) >= 4:  # a line that a kill cut off is shorter
                name, tag = " ".join(words[1:4]), OUT_OF_ORDER if len(words) > 4 else ""
                kept.append((name, tag))
                rows.append((at, len(rows), node, Event.DELIVER, name, tag))
        given = [name for name, _ in kept]
        deliveries += len(given)
        missing += len(stored - set(given))
        twice += len(given) - len(set(given))
        late += sum(bool(tag) for _, tag in kept)
    recorder = Recorder()
    for at, _, node, event, name, tag in sorted(rows):
        topic, source, seq = name.split(" ")
        recorder.add(event, at, node, topic=topic, source=int(source), seq=int(seq), note=tag)
    report = judge_run(TableSource(recorder.table("logs")), Question(rules=frozenset(ORDER))).report
    return {
        "deliveries": deliveries,
        "missing": missing,
        "twice": twice,
        "tagged": late,
        "audit": {rule.name: f"{rule.verdict.name.lower()}, {rule.violations}" for rule in report.rules},
        "examples": [rule.example.words for rule in report.rules if rule.example is not None],
    }


def main() -> None:
    logging.getLogger("nats").setLevel(logging.CRITICAL)  # it tells of every dial that fails
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--streams", type=int, default=2)
    parser.add_argument("--leader-kills", type=int, default=0)
    parser.add_argument("--client-kills", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--client", type=int, default=-1, help=argparse.SUPPRESS)
    for word in ("--url", "--share", "--file"):
        parser.add_argument(word, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client >= 0:
        asyncio.run(client(options.client, options.url, int(options.share), Path(options.file)))
        return
    with tempfile.TemporaryDirectory(prefix="logs-order-") as directory:
        print(json.dumps(asyncio.run(run(options, Path(directory))), indent=2))


if __name__ == "__main__":
    main()
