"""Real log systems for the tests, behind one face: make logs, append as a producer that knows nothing of us, remove."""

import asyncio
import contextlib
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import confluent_kafka
import nats
import pytest
import redis.asyncio

from tests.gateway.nats_server import free_port, nats_program


class System(Protocol):
    """A log system that runs. Names of logs are also the first level of their topics."""

    name: str
    #: What an acknowledged append is at least, and what it is not.
    safe: str
    unsafe: str

    def url(self, *logs: str) -> str: ...

    async def create(self, *logs: str) -> None: ...

    async def append_plain(self, topic: str, payload: bytes, headers: dict[str, str] | None = None) -> None: ...

    async def remove_until(self, log: str, keep: int) -> None:
        """Retention: leave the last `keep` records of a log."""

    async def remove(self, log: str, offset: int) -> None:
        """Delete one record."""

    def stop(self) -> None: ...

    def start(self) -> None: ...


class Nats:
    name = "nats"
    safe, unsafe = "disk", "replicated(1)"

    def __init__(self, store: Path) -> None:
        self._store = store
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = [nats_program(), "-js", "-sd", str(self._store), "-a", "127.0.0.1", "-p", str(self.port)]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for_port(self.port)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    def url(self, *logs: str) -> str:
        return f"nats://127.0.0.1:{self.port}?streams={','.join(logs)}"

    @contextlib.asynccontextmanager
    async def _jetstream(self) -> Any:
        client = await nats.connect(f"nats://127.0.0.1:{self.port}")
        try:
            yield client.jetstream()
        finally:
            await client.close()

    async def create(self, *logs: str) -> None:
        async with self._jetstream() as js:
            for log in logs:
                await js.add_stream(name=log, subjects=[log, f"{log}.>"])

    async def append_plain(self, topic: str, payload: bytes, headers: dict[str, str] | None = None) -> None:
        async with self._jetstream() as js:
            await js.publish(topic.replace("/", "."), payload, headers=headers)

    async def remove_until(self, log: str, keep: int) -> None:
        async with self._jetstream() as js:
            await js.purge_stream(log, keep=keep)

    async def remove(self, log: str, offset: int) -> None:
        async with self._jetstream() as js:
            await js.delete_msg(log, offset)


class RedisServer:
    """A Redis that writes every append to its disk before it acknowledges."""

    name = "redis"
    safe, unsafe = "disk", "replicated(1)"

    def __init__(self, store: Path) -> None:
        self._store = store
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = shutil.which("redis-server")
        if program is None:
            pytest.skip("LEFT OUT: no redis-server here; to stand on one too: tests/system_packages.sh redis-server")
        words = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._store), "--save", ""]
        words += ["--appendonly", "yes", "--appendfsync", "always"]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for_port(self.port)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    def url(self, *logs: str) -> str:
        return f"redis://127.0.0.1:{self.port}?streams={','.join(logs)}"

    @contextlib.asynccontextmanager
    async def _client(self) -> Any:
        client = redis.asyncio.Redis(port=self.port)
        try:
            yield client
        finally:
            await client.aclose()

    async def create(self, *logs: str) -> None:
        """Redis makes a stream with its first entry."""

    async def append_plain(self, topic: str, payload: bytes, headers: dict[str, str] | None = None) -> None:
        log, _, key = topic.partition("/")
        async with self._client() as client:
            await client.xadd(log, {"payload": payload, "topic": key, **(headers or {})})

    async def remove_until(self, log: str, keep: int) -> None:
        async with self._client() as client:
            await client.xtrim(log, maxlen=keep, approximate=False)

    async def remove(self, log: str, offset: int) -> None:
        async with self._client() as client:
            await client.xdel(log, f"{offset >> 16}-{offset & 0xFFFF}")


class KafkaMock:
    """The mock cluster that librdkafka brings: three brokers inside this process, over TCP. It removes no records."""

    name = "kafka"
    safe, unsafe = "memory", "disk"

    def __init__(self, store: Path) -> None:
        self._cluster: Any = None
        self._brokers = ""

    def start(self) -> None:
        self._cluster = confluent_kafka.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 3})
        brokers = self._cluster.list_topics(timeout=30).brokers.values()
        self._brokers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def stop(self) -> None:
        self._cluster = None

    def url(self, *logs: str) -> str:
        return f"kafka://{self._brokers}?topics={','.join(logs)}"

    async def create(self, *logs: str) -> None:
        for log in logs:
            await asyncio.to_thread(self._cluster.list_topics, log, 30)

    async def append_plain(self, topic: str, payload: bytes, headers: dict[str, str] | None = None) -> None:
        log, _, key = topic.partition("/")
        self._cluster.produce(log, payload, key, headers=headers or {})
        await asyncio.to_thread(self._cluster.flush, 30)

    async def remove_until(self, log: str, keep: int) -> None:
        raise NotImplementedError

    async def remove(self, log: str, offset: int) -> None:
        raise NotImplementedError


SYSTEMS: dict[str, Callable[[Path], System]] = {"kafka": KafkaMock, "nats": Nats, "redis": RedisServer}
#: Systems whose records tests can remove, and whose server keeps its records when it is killed.
LASTING = ("nats", "redis")


@contextmanager
def running(name: str, store: Path) -> Iterator[System]:
    system = SYSTEMS[name](store)
    system.start()
    try:
        yield system
    finally:
        system.stop()


def wait_for_port(port: int, seconds: float = 30) -> None:
    async def answers() -> None:
        async with asyncio.timeout(seconds):
            while True:
                with socket.socket() as dialled:
                    dialled.settimeout(0.5)
                    if dialled.connect_ex(("127.0.0.1", port)) == 0:
                        return
                await asyncio.sleep(0.05)

    asyncio.run(answers())
