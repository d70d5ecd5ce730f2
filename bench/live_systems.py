"""The systems `live.py` compares: how to start each one's server, connect, publish and read."""

import asyncio
import contextlib
import importlib.util
import shutil
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import antecede
from antecede.node.local_cluster import LocalCluster

#: Of publications that are not acknowledged, for each client: half of what a client may have.
_UNDER_WAY_BYTES = 4 << 20


class Reader:
    """What a subscriber does with messages: note how long each took, until as many have come as it expects."""

    def __init__(self) -> None:
        self.expect(0)

    def expect(self, count: int) -> None:
        """Begin anew, for `count` messages."""
        self.taken: list[int] = []
        self.end = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count = count

    def note(self, body: bytes) -> bool:
        """A message. True: the last one."""
        now = time.time_ns()
        self.taken.append(now - int.from_bytes(body[:8], "big"))
        if len(self.taken) < self._count:
            return False
        self.end = now
        return True

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class Client(ABC):
    """One connection."""

    async def prepare(self, topic: str) -> None:  # noqa: B027 - most have nothing to do
        """Will publish: what is done once is done before the clock starts."""

    @abstractmethod
    async def publish(self, topic: str, body: bytes) -> None: ...
    @abstractmethod
    async def publish_many(self, topic: str, body: Callable[[], bytes], count: int) -> None: ...
    @abstractmethod
    async def subscribe(self, topic: str, reader: Reader) -> None: ...
    @abstractmethod
    async def read(self, reader: Reader) -> None:
        """Until the reader has all it wants."""

    @abstractmethod
    async def close(self) -> None: ...


class System:
    """A server and its clients. `package` and `program` say what must be installed."""

    package = ""
    program = ""

    def server(self, directory: Path) -> "contextlib.AbstractAsyncContextManager[str]":
        raise NotImplementedError

    async def connect(self, address: str) -> Client:
        raise NotImplementedError


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@asynccontextmanager
async def process(port: int, *command: str) -> AsyncIterator[str]:
    """A server process, until it answers its port."""
    null = asyncio.subprocess.DEVNULL
    running = await asyncio.create_subprocess_exec(*command, stdout=null, stderr=null)
    try:
        async with asyncio.timeout(20):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                except OSError:
                    await asyncio.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        running.terminate()
        await running.wait()


# -- antecede ----------------------------------------------------------------------------------------------------------


class Antecede(System):
    def __init__(self, *, journal: bool, order: str = "causal", nodes: int = 1) -> None:
        self.journal = journal
        self.order = order
        self.nodes = nodes

    @asynccontextmanager
    async def server(self, directory: Path) -> AsyncIterator[str]:
        if self.journal:
            async with LocalCluster(directory, nodes=self.nodes) as cluster:
                yield cluster.url(0) + " " + cluster.url(self.nodes - 1)
        else:
            async with LocalCluster(directory, nodes=self.nodes, memory=True) as cluster:
                yield cluster.url(0) + " " + cluster.url(self.nodes - 1)

    async def connect(self, address: str) -> "AntecedeClient":
        return AntecedeClient(address, self.order)


class AntecedeClient(Client):
    """Publishes at the first node, reads at the last."""

    def __init__(self, address: str, order: str) -> None:
        self._publish_at, self._read_at = address.split(" ")
        self._order = order
        self._bus: antecede.Bus | None = None
        self._feed: antecede.Feed | None = None

    async def _open(self, url: str) -> antecede.Bus:
        if self._bus is None:
            self._bus = await antecede.connect(url).__aenter__()
        return self._bus

    async def publish(self, topic: str, body: bytes) -> None:
        (await self._open(self._publish_at)).publish_nowait(topic, body)

    async def publish_many(self, topic: str, body: Callable[[], bytes], count: int) -> None:
        bus = await self._open(self._publish_at)
        window: list[asyncio.Future[Any]] = []
        some = min(1024, _UNDER_WAY_BYTES // (2 * len(body())))
        for number in range(count):
            window.append(bus.publish_nowait(topic, body()))
            if len(window) == 2 * some:
                await window[some - 1]
                del window[:some]
            elif number % 64 == 63:
                await asyncio.sleep(0)
        await asyncio.gather(*window)

    async def prepare(self, topic: str) -> None:
        await self._open(self._publish_at)

    async def subscribe(self, topic: str, reader: Reader) -> None:
        bus = await self._open(self._read_at)
        self._feed = await bus.subscribe(topic, order=self._order, queue=4096).__aenter__()  # type: ignore[arg-type]

    async def read(self, reader: Reader) -> None:
        assert self._feed is not None
        async for message in self._feed:
            if reader.note(message.payload):
                return

    async def close(self) -> None:
        if self._bus is not None:
            await self._bus.close()


# -- others ------------------------------------------------------------------------------------------------------------


class Nats(System):
    package, program = "nats", "nats-server"

    def server(self, directory: Path) -> "contextlib.AbstractAsyncContextManager[str]":
        port = free_port()
        config = directory / "nats.conf"
        config.write_text("max_pending: 1GB\n")  # a reader that lags is not cut off
        return process(port, self.program, "-a", "127.0.0.1", "-p", str(port), "-c", str(config))

    async def connect(self, address: str) -> "NatsClient":
        import nats  # noqa: PLC0415

        return NatsClient(await nats.connect(f"nats://{address}"))


class NatsClient(Client):
    def __init__(self, client: Any) -> None:
        self._client = client

    async def publish(self, topic: str, body: bytes) -> None:
        await self._client.publish(topic, body)

    async def publish_many(self, topic: str, body: Callable[[], bytes], count: int) -> None:
        for number in range(count):
            await self._client.publish(topic, body())
            if number % 64 == 63:
                await asyncio.sleep(0)
        await self._client.flush(timeout=60)

    async def subscribe(self, topic: str, reader: Reader) -> None:
        # With a callback: its quickest way, about three times that of its iterator.
        async def heard(message: Any) -> None:
            if reader.note(message.data):
                reader.finish()

        await self._client.subscribe(topic, cb=heard, pending_msgs_limit=-1, pending_bytes_limit=-1)
        await self._client.flush()

    async def read(self, reader: Reader) -> None:
        await reader.done

    async def close(self) -> None:
        await self._client.close()


class Redis(System):
    package, program = "redis", "redis-server"

    def server(self, directory: Path) -> "contextlib.AbstractAsyncContextManager[str]":
        port = free_port()
        limits = ("--client-output-buffer-limit", "pubsub 0 0 0")
        where = ("--dir", str(directory), "--bind", "127.0.0.1", "--port", str(port))
        return process(port, self.program, *where, "--save", "", *limits)

    async def connect(self, address: str) -> "RedisClient":
        import redis.asyncio  # noqa: PLC0415

        return RedisClient(redis.asyncio.Redis.from_url(f"redis://{address}"))


class RedisClient(Client):
    def __init__(self, client: Any) -> None:
        self._client = client
        self._subscription: Any = None

    async def publish(self, topic: str, body: bytes) -> None:
        await self._client.publish(topic, body)

    async def publish_many(self, topic: str, body: Callable[[], bytes], count: int) -> None:
        for first in range(0, count, 64):
            pipeline = self._client.pipeline(transaction=False)
            for _ in range(min(64, count - first)):
                pipeline.publish(topic, body())
            await pipeline.execute()

    async def subscribe(self, topic: str, reader: Reader) -> None:
        self._subscription = self._client.pubsub()
        await self._subscription.subscribe(topic)
        await self._subscription.get_message(timeout=5)

    async def read(self, reader: Reader) -> None:
        async for message in self._subscription.listen():
            if message["type"] == "message" and reader.note(message["data"]):
                return

    async def close(self) -> None:
        await self._client.aclose()


class Mqtt(System):
    package, program = "aiomqtt", "mosquitto"

    @asynccontextmanager
    async def server(self, directory: Path) -> AsyncIterator[str]:
        port = free_port()
        config = directory / "mosquitto.conf"
        config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n")
        async with process(port, self.program, "-c", str(config)) as address:
            yield address

    async def connect(self, address: str) -> "MqttClient":
        import aiomqtt  # noqa: PLC0415

        host, port = address.split(":")
        client = aiomqtt.Client(host, int(port), max_queued_outgoing_messages=0)
        return MqttClient(await client.__aenter__())


class MqttAtNode(Mqtt):
    """The same client, at a node of ours with a journal: causal order across topics."""

    program = ""

    @asynccontextmanager
    async def server(self, directory: Path) -> AsyncIterator[str]:
        port = free_port()
        words = ("node", "--dir", str(directory / "node"), "--port", "0", "--mqtt-port", str(port))
        async with process(port, sys.executable, "-m", "antecede", *words) as address:
            yield address


class MqttClient(Client):
    def __init__(self, client: Any) -> None:
        self._client = client

    async def publish(self, topic: str, body: bytes) -> None:
        await self._client.publish(topic, body)

    async def publish_many(self, topic: str, body: Callable[[], bytes], count: int) -> None:
        for _ in range(count):
            await self._client.publish(topic, body(), timeout=60)

    async def subscribe(self, topic: str, reader: Reader) -> None:
        await self._client.subscribe(topic)

    async def read(self, reader: Reader) -> None:
        async for message in self._client.messages:
            if reader.note(message.payload):
                return

    async def close(self) -> None:
        await self._client.__aexit__(None, None, None)


class Zenoh(System):
    """Peers without a router: the publisher's process listens. Rust inside; Python only calls it."""

    package = "zenoh"

    @asynccontextmanager
    async def server(self, directory: Path) -> AsyncIterator[str]:
        yield f"127.0.0.1:{free_port()}"

    async def connect(self, address: str) -> "ZenohClient":
        return ZenohClient(address)


class ZenohClient(Client):
    """Clients of one process share a session, as zenoh's own documentation advises."""

    session: Any = None

    def __init__(self, address: str) -> None:
        self._address = address
        self._publisher: Any = None

    def _open(self, key: str) -> Any:
        import zenoh  # noqa: PLC0415

        if ZenohClient.session is None:
            config = zenoh.Config()
            config.insert_json5("mode", '"peer"')
            config.insert_json5("scouting/multicast/enabled", "false")
            config.insert_json5(key, f'["tcp/{self._address}"]')
            ZenohClient.session = zenoh.open(config)
        return ZenohClient.session

    async def publish(self, topic: str, body: bytes) -> None:
        self._publisher.put(body)

    async def publish_many(self, topic: str, body: Callable[[], bytes], count: int) -> None:
        for number in range(count):
            self._publisher.put(body())
            if number % 64 == 63:
                await asyncio.sleep(0)

    async def prepare(self, topic: str) -> None:
        if self._publisher is None:
            import zenoh  # noqa: PLC0415

            session = self._open("connect/endpoints")
            self._publisher = session.declare_publisher(topic, congestion_control=zenoh.CongestionControl.BLOCK)
            await asyncio.sleep(1.0)  # until the subscription is known

    async def subscribe(self, topic: str, reader: Reader) -> None:
        # The callback runs in a thread of zenoh's: handing every message to the event loop would cost most of the time.
        loop = asyncio.get_running_loop()

        def heard(sample: Any) -> None:
            if reader.note(sample.payload.to_bytes()):
                loop.call_soon_threadsafe(reader.finish)

        self._open("listen/endpoints").declare_subscriber(topic, heard)

    async def read(self, reader: Reader) -> None:
        await reader.done

    async def close(self) -> None:
        session, ZenohClient.session = ZenohClient.session, None
        if session is not None:
            session.close()


SYSTEMS: dict[str, System] = {
    "nats": Nats(),
    "antecede, memory": Antecede(journal=False),
    "antecede, memory, order none": Antecede(journal=False, order="none"),
    "antecede, journal": Antecede(journal=True),
    "antecede, 2 nodes, memory": Antecede(journal=False, nodes=2),
    "antecede, 2 nodes, journal": Antecede(journal=True, nodes=2),
    "redis": Redis(),
    "mqtt (mosquitto)": Mqtt(),
    "mqtt (antecede, journal)": MqttAtNode(),
    "zenoh": Zenoh(),
}


def missing(name: str) -> str:
    """What would have to be installed; empty: nothing."""
    system = SYSTEMS[name]
    lacking = []
    if system.package and importlib.util.find_spec(system.package) is None:
        lacking.append(f"Python package {system.package}")
    if system.program and shutil.which(system.program) is None:
        lacking.append(system.program)
    return ", ".join(lacking)
