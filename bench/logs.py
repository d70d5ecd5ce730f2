"""A bus over logs beside the plain libraries, on the same servers, in one run: records a second and processor time.

    python bench/logs.py [--records 20000] [--rounds 3] [--only nats,redis,kafka]

*publish*: one log, as many in flight as the library's documentation shows for speed, until all are acknowledged.
*read*: the same records from the beginning of the log. *switching*: two logs in turn, which for antecede means a round
trip for each message. Plain and ours take turns, each in the same process; the best of the rounds is shown, with the
processor time of the client for one record, which other work on the machine changes less.

*latency*: a publication alone, until its acknowledgement; the median and the 99th percentile of each round's, the best.

Servers: nats-server with JetStream on files; redis-server without a file; Kafka is the mock cluster of librdkafka,
which runs in this process, so its processor time is the sum of both. Plain Kafka works in batches in C and looks at no
record. `kafka aio` is the asyncio interface of the same library: a future for each record, as ours; its reader looks at
the value, key, headers and offset of each.
"""

import argparse
import asyncio
import logging
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
import nats
import redis.asyncio
from confluent_kafka.aio import AIOConsumer, AIOProducer

from antecede.logs import LogBus, connect
from antecede.protocols.logs import Header, encode_header, log_number

PAYLOAD = bytes(128)
WINDOW = 500
#: Publications that are sent one by one.
ALONE = 200


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def server(words: list[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            with socket.socket() as dialled:
                if dialled.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


class Nats:
    def __init__(self, port: int) -> None:
        self.url = f"nats://127.0.0.1:{port}"

    async def open(self) -> None:
        self._client = await nats.connect(self.url)
        self._js = self._client.jetstream(publish_async_max_pending=WINDOW)

    def bus(self, *logs: str) -> LogBus:
        return connect(f"{self.url}?streams={','.join(logs)}")

    async def make(self, log: str) -> None:
        await self._js.add_stream(name=log, subjects=[f"{log}.>"])

    async def publish(self, logs: list[str], count: int) -> None:
        futures = []
        for index in range(count):
            futures.append(await self._js.publish_async(f"{logs[index % len(logs)]}.x", PAYLOAD, wait_stall=60))
        await asyncio.gather(*futures)

    async def publish_one(self, log: str) -> None:
        await self._js.publish(f"{log}.x", PAYLOAD)

    async def read(self, log: str, count: int) -> None:
        config = nats.js.api.ConsumerConfig(ack_policy="none")
        consumer = await self._js.pull_subscribe(f"{log}.>", stream=log, config=config)
        while count > 0:
            count -= len(await consumer.fetch(min(count, WINDOW), timeout=60))


class Redis:
    def __init__(self, port: int) -> None:
        self.url = f"redis://127.0.0.1:{port}"

    async def open(self) -> None:
        self._client = redis.asyncio.Redis.from_url(self.url)

    def bus(self, *logs: str) -> LogBus:
        return connect(f"{self.url}?streams={','.join(logs)}")

    async def make(self, log: str) -> None:
        """The first entry makes a stream."""

    async def publish(self, logs: list[str], count: int) -> None:
        for first in range(0, count, WINDOW):
            pipeline = self._client.pipeline(transaction=False)
            for index in range(first, min(first + WINDOW, count)):
                pipeline.xadd(logs[index % len(logs)], {"payload": PAYLOAD})
            await pipeline.execute()

    async def publish_one(self, log: str) -> None:
        await self._client.xadd(log, {"payload": PAYLOAD})

    async def read(self, log: str, count: int) -> None:
        last = b"0"
        while count > 0:
            found = await self._client.xread({log: last}, count=WINDOW)
            entries = found[0][1] if isinstance(found, list) else next(iter(found.values()))[0]
            count -= len(entries)
            last = entries[-1][0]


class Kafka:
    """Topics of one partition would need a real broker; all goes to partition 0."""

    def __init__(self) -> None:
        self._cluster = confluent_kafka.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 3})
        brokers = self._cluster.list_topics(timeout=30).brokers.values()
        self.hosts = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    async def open(self) -> None:
        options = {"bootstrap.servers": self.hosts, "enable.idempotence": True, "linger.ms": 1}
        self._producer = confluent_kafka.Producer(options)

    def bus(self, *logs: str) -> LogBus:
        return connect(f"kafka://{self.hosts}?topics={','.join(logs)}")

    async def make(self, log: str) -> None:
        self._cluster.list_topics(log, 30)

    async def publish(self, logs: list[str], count: int) -> None:
        acknowledged: list[Any] = []
        for index in range(count):
            topic = logs[index % len(logs)]
            self._producer.produce(topic, PAYLOAD, partition=0, on_delivery=lambda _, one: acknowledged.append(one))
            self._producer.poll(0)
        self._producer.flush(60)

    async def publish_one(self, log: str) -> None:
        await self.publish([log], 1)

    async def read(self, log: str, count: int) -> None:
        options = {"bootstrap.servers": self.hosts, "group.id": "bench", "enable.auto.commit": False}
        consumer = confluent_kafka.Consumer(options)
        consumer.assign([confluent_kafka.TopicPartition(log, 0, 0)])
        while count > 0:
            count -= len(await asyncio.to_thread(consumer.consume, WINDOW, 1.0))
        await asyncio.to_thread(consumer.close)


class KafkaAio(Kafka):
    """The library's own producer and consumer for asyncio."""

    async def open(self) -> None:
        options = {"bootstrap.servers": self.hosts, "enable.idempotence": True, "linger.ms": 1}
        self._aio = AIOProducer(options, batch_size=WINDOW // 2, buffer_timeout=0.05)

    async def publish(self, logs: list[str], count: int) -> None:
        futures = deque[asyncio.Future[Any]]()
        for index in range(count):
            futures.append(await self._aio.produce(logs[index % len(logs)], PAYLOAD, partition=0))
            if len(futures) == 2 * WINDOW:
                await take_half(futures)
        await self._aio.flush(60)
        for future in futures:
            await future

    async def read(self, log: str, count: int) -> None:
        options = {"bootstrap.servers": self.hosts, "group.id": "bench", "enable.auto.commit": False}
        consumer = AIOConsumer(options)
        await consumer.assign([confluent_kafka.TopicPartition(log, 0, 0)])
        while count > 0:
            for message in await consumer.consume(WINDOW, 1.0):
                if message.error() is None:
                    _ = message.value(), message.key(), message.headers(), message.offset()
                    count -= 1
        await consumer.close()


async def take_half(futures: "deque[asyncio.Future[Any]]") -> None:
    for _ in range(len(futures) // 2):
        await futures.popleft()


async def timed(work: Awaitable[None], count: int) -> tuple[float, float]:
    """Records a second, and µs of processor time for a record."""
    began, used = time.perf_counter(), time.process_time()
    await work
    return count / (time.perf_counter() - began), (time.process_time() - used) * 1e6 / count


async def our_publish(bus: LogBus, topics: list[str], count: int) -> None:
    futures = deque[asyncio.Future[Any]]()
    for index in range(count):
        futures.append(bus.publish_nowait(topics[index % len(topics)], PAYLOAD))
        if len(futures) == WINDOW:
            await take_half(futures)
    for future in futures:
        await future


async def our_read(bus: LogBus, pattern: str, count: int) -> None:
    async with bus.subscribe(pattern, since="0") as feed:
        for _ in range(count):
            await anext(feed)


async def compare(name: str, system: Any, count: int, rounds: int) -> None:
    await system.open()
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    alone: dict[str, list[tuple[float, float]]] = {}
    key = "" if "kafka" in name else "/x"
    for number in range(rounds):
        logs = [f"{kind}{number}" for kind in ("plain", "ours", "other")]
        for log in logs:
            await system.make(log)
        plain, ours, other = logs
        switches = max(200, count // 20)
        async with system.bus(ours, other) as bus:
            steps: list[tuple[str, str, Awaitable[None], int]] = [
                ("publish", "plain", system.publish([plain], count), count),
                ("publish", "ours", our_publish(bus, [ours + key], count), count),
                ("read", "plain", system.read(plain, count), count),
                ("read", "ours", our_read(bus, f"{ours}/#", count), count),
                ("switching", "plain", system.publish([plain, other], switches), switches),
                ("switching", "ours", our_publish(bus, [ours + key, other + key], switches), switches),
            ]
            for what, who, work, records in steps:
                found.setdefault((what, who), []).append(await timed(work, records))
            alone.setdefault("plain", []).append(await latency(partial(system.publish_one, plain)))
            alone.setdefault("ours", []).append(await latency(partial(bus.publish, ours + key, PAYLOAD)))
    for what in ("publish", "read", "switching"):
        plain_rate, plain_cpu = (pick(one[at] for one in found[what, "plain"]) for at, pick in ((0, max), (1, min)))
        our_rate, our_cpu = (pick(one[at] for one in found[what, "ours"]) for at, pick in ((0, max), (1, min)))
        print(
            f"| {name} | {what} | {plain_rate:,.0f} | {our_rate:,.0f} | {our_rate / plain_rate:.2f} "
            f"| {plain_cpu:.0f} | {our_cpu:.0f} |"
        )
    for at, what in enumerate(("latency, ms", "latency, 99 %, ms")):
        plain_ms, our_ms = (min(one[at] for one in alone[who]) for who in ("plain", "ours"))
        print(f"| {name} | {what} | {plain_ms:.2f} | {our_ms:.2f} | {our_ms / plain_ms:.2f} | | |")


async def latency(publish: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """The median and the 99th percentile, in ms."""
    taken = []
    for _ in range(ALONE):
        began = time.perf_counter()
        await publish()
        taken.append((time.perf_counter() - began) * 1000)
    taken.sort()
    return taken[ALONE // 2], taken[ALONE * 99 // 100]


def header_bytes(logs: int, *, named: bool) -> int:
    numbers = [log_number(f"stream{index}") if named else index + 1 for index in range(logs)]
    past = tuple(sorted((number, 1_000_000 * (index + 1) // logs) for index, number in enumerate(numbers)))
    return len(encode_header(Header((1 << 64) - 1, 10_000, past)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="nats,redis,kafka")
    options = parser.parse_args()
    logging.getLogger("nats").setLevel(logging.CRITICAL)
    for logs in (4, 64):
        print(f"header, {logs} logs: {header_bytes(logs, named=True)} bytes named by hash, ", end="")
        print(f"{header_bytes(logs, named=False)} bytes with numbers in the url")
    print("\n| system | | plain records/s | ours | ratio | plain CPU µs/record | ours |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        if "nats" in options.only:
            port = free_port()
            path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/usr/sbin"
            program = str(shutil.which("nats-server", path=path))
            with server([program, "-js", "-sd", directory, "-a", "127.0.0.1", "-p", str(port)], port):
                asyncio.run(compare("nats", Nats(port), options.records, options.rounds))
        if "redis" in options.only:
            port = free_port()
            with server(["redis-server", "--port", str(port), "--save", "", "--dir", directory], port):
                asyncio.run(compare("redis", Redis(port), options.records, options.rounds))
        if "kafka" in options.only:
            asyncio.run(compare("kafka", Kafka(), options.records, options.rounds))
            asyncio.run(compare("kafka aio", KafkaAio(), options.records, options.rounds))


if __name__ == "__main__":
    main()
