"""Log systems for `logs_order.py`: servers to start, faults to inject, and readers that know nothing of antecede."""

import asyncio
import base64
import ctypes
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Protocol

import confluent_kafka
import nats
import redis.asyncio

#: What a plain reader is shown: the offset, the causal header or None, and the payload.
Shown = tuple[int, bytes | None, bytes]

_PATH = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/usr/sbin"
_QUIET: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


async def until(check: Any, seconds: float = 120) -> Any:
    """Ask until there is an answer: a cluster that elects a leader has none."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                found = await check()
            except Exception:  # each library has its own errors
                found = None
            if found is not None:
                return found
            await asyncio.sleep(0.2)


class System(Protocol):
    def __init__(self, directory: Path) -> None: ...

    async def start(self, logs: list[str], keep: int) -> None:
        """Start the servers and make the logs; each keeps `keep` records, or all if that is 0."""

    def url(self, logs: list[str]) -> str: ...

    async def disturb(self, logs: list[str], rng: random.Random) -> None:
        """Inject one fault."""

    def read(self, log: str) -> AsyncGenerator[Shown, None]:
        """A plain reader: all records of a log, from the beginning."""

    async def append(self, log: str, payload: bytes) -> None:
        """A plain producer."""

    def stop(self) -> None: ...


class JetStream:
    """Three servers on loopback, streams with three replicas. A fault: the leader of a stream is killed -9."""

    def __init__(self, directory: Path) -> None:
        self._ports, self._routes = free_ports(3), free_ports(3)
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * 3
        self._js: Any = None
        self._readers: Any = None

    def url(self, logs: list[str]) -> str:
        hosts = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        return f"nats://{hosts}?streams={','.join(logs)}"

    async def start(self, logs: list[str], keep: int) -> None:
        for number in range(3):
            self._start(number)
        servers = [f"nats://127.0.0.1:{port}" for port in self._ports]
        self._js = (await until(lambda: nats.connect(servers, max_reconnect_attempts=-1))).jetstream()
        self._readers = (await until(lambda: nats.connect(servers, max_reconnect_attempts=-1))).jetstream()
        for log in logs:
            config = {"name": log, "subjects": [f"{log}.>"], "num_replicas": 3, "max_msgs": keep or -1}
            await until(lambda config=config: self._js.add_stream(**config))

    def _start(self, number: int) -> None:
        routes = ",".join(f"nats://127.0.0.1:{port}" for port in self._routes)
        words = f"-js -sd {self._directory / str(number)} -n s{number} -a 127.0.0.1 -p {self._ports[number]}"
        words += f" --cluster_name c --cluster nats://127.0.0.1:{self._routes[number]} --routes {routes}"
        program = str(shutil.which("nats-server", path=_PATH))
        self._processes[number] = subprocess.Popen([program, *words.split()], **_QUIET)

    def _kill(self, number: int) -> None:
        process = self._processes[number]
        if process is not None:
            process.kill()
            process.wait()

    async def disturb(self, logs: list[str], rng: random.Random) -> None:
        log = rng.choice(logs)

        async def leader() -> int | None:
            info = await self._js.stream_info(log)
            return int(info.cluster.leader[1:]) if info.cluster is not None and info.cluster.leader else None

        number = await until(leader)
        await asyncio.to_thread(self._kill, number)
        await asyncio.sleep(2)
        self._start(number)

    async def append(self, log: str, payload: bytes) -> None:
        await until(lambda: self._js.publish(f"{log}.x", payload))

    async def read(self, log: str) -> AsyncGenerator[Shown, None]:
        last = 0
        while True:
            start = {"opt_start_seq": last + 1, "deliver_policy": "by_start_sequence"}
            config = nats.js.api.ConsumerConfig(ack_policy="none", inactive_threshold=60, **start)
            try:
                consumer = await self._readers.pull_subscribe(f"{log}.>", stream=log, config=config)
                while True:
                    for message in await consumer.fetch(200, timeout=5):
                        last = message.metadata.sequence.stream
                        text = (message.headers or {}).get("Antecede")
                        yield last, base64.b64decode(text) if text else None, message.data
            except Exception:  # a leader was killed, or nothing came: read on with another consumer
                await asyncio.sleep(0.5)

    def stop(self) -> None:
        for number in range(3):
            self._kill(number)


class Redis:
    """One server that keeps nothing on disk. A fault: it closes the connections of all clients."""

    def __init__(self, directory: Path) -> None:
        (self._port,) = free_ports(1)
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Any = None

    def url(self, logs: list[str]) -> str:
        return f"redis://127.0.0.1:{self._port}?streams={','.join(logs)}"

    async def start(self, logs: list[str], keep: int) -> None:
        if keep:
            raise SystemExit("Redis trims streams when producers ask for it: --keep is for nats")
        words = ["redis-server", "--port", str(self._port), "--save", "", "--dir", str(self._directory)]
        self._directory.mkdir(exist_ok=True)
        self._process = subprocess.Popen(words, **_QUIET)
        self._client = redis.asyncio.Redis(port=self._port)
        await until(self._client.ping)

    async def disturb(self, logs: list[str], rng: random.Random) -> None:
        await until(lambda: self._client.client_kill_filter(_type="normal", skipme=True))

    async def append(self, log: str, payload: bytes) -> None:
        await until(lambda: self._client.xadd(log, {"payload": payload}))

    async def read(self, log: str) -> AsyncGenerator[Shown, None]:
        last = b"0"
        while True:
            try:
                found = await self._client.xread({log: last}, count=200, block=1000)
            except Exception:  # the connection was lost
                await asyncio.sleep(0.1)
                continue
            if not found:
                continue
            for name, fields in found[0][1] if isinstance(found, list) else next(iter(found.values()))[0]:
                last = name
                milliseconds, _, count = name.decode().partition("-")
                yield int(milliseconds) << 16 | int(count), fields.get(b"Antecede"), fields[b"payload"]

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class KafkaMock:
    """The mock cluster of librdkafka: three brokers in this process, topics of one partition. Through the library's C
    interface, because Python's shows neither topics of one partition nor faults. A fault: a broker closes its
    connections and refuses others for a second."""

    def __init__(self, directory: Path) -> None:
        (file,) = (Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka*.so*")
        self._library: Any = ctypes.CDLL(str(file))
        for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
            getattr(self._library, name).restype = ctypes.c_void_p
        self._library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        problem = ctypes.create_string_buffer(512)
        configured = ctypes.c_void_p(self._library.rd_kafka_conf_new())
        self._handle = ctypes.c_void_p(self._library.rd_kafka_new(0, configured, problem, 512))
        self._cluster = ctypes.c_void_p(self._library.rd_kafka_mock_cluster_new(self._handle, 3))
        self.hosts = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def url(self, logs: list[str]) -> str:
        return f"kafka://{self.hosts}?topics={','.join(logs)}"

    def create(self, log: str) -> None:
        failed = self._library.rd_kafka_mock_topic_create(self._cluster, log.encode(), 1, 3)
        if failed:
            raise SystemExit(f"the mock cluster made no topic {log}: error {failed}")

    async def start(self, logs: list[str], keep: int) -> None:
        if keep:
            raise SystemExit("the mock cluster removes nothing: --keep is for nats")
        for log in logs:
            self.create(log)

    async def disturb(self, logs: list[str], rng: random.Random) -> None:
        broker = rng.randint(1, 3)
        self._library.rd_kafka_mock_broker_set_down(self._cluster, broker)
        await asyncio.sleep(1)
        self._library.rd_kafka_mock_broker_set_up(self._cluster, broker)

    async def append(self, log: str, payload: bytes) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": self.hosts, "log_level": 0})
        producer.produce(log, payload, partition=0)
        await asyncio.to_thread(producer.flush, 60)

    async def read(self, log: str) -> AsyncGenerator[Shown, None]:
        options = {"bootstrap.servers": self.hosts, "group.id": "plain", "enable.auto.commit": False, "log_level": 0}
        consumer = confluent_kafka.Consumer(options)
        consumer.assign([confluent_kafka.TopicPartition(log, 0, 0)])
        while True:
            for message in await asyncio.to_thread(consumer.consume, 200, 0.2):
                if message.error() is None:
                    header = dict(message.headers() or ()).get("Antecede")
                    yield message.offset(), header, message.value() or b""

    def stop(self) -> None:
        """The mock cluster ends with this process."""


SYSTEMS: dict[str, type[System]] = {"nats": JetStream, "redis": Redis, "kafka": KafkaMock}
