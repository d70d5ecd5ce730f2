"""A client for tests that sends and receives single packets, so that a test can do what no library does."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from itertools import count
from pathlib import Path
from typing import Any, Self, TypeVar

from antecede import Node
from antecede.wire.mqtt.encoding import encode
from antecede.wire.mqtt.packets import (
    V5,
    AnyPacket,
    Connack,
    Connect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Wanted,
)
from antecede.wire.mqtt.properties import NO_PROPERTIES, Properties
from antecede.wire.mqtt.stream import PacketStream
from tests.client.running import DEADLINE_S

P = TypeVar("P", bound=Any)

WITHIN_S = 30.0


class Device:
    """One connection to a node. `async with Device.open(node, …)` connects it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: int) -> None:
        self.version = version
        self._reader = reader
        self._writer = writer
        self._stream = PacketStream(bytes_max=1 << 21, version=version)
        self.connack = Connack()
        self._next_id = 0
        self._passed_over: deque[AnyPacket] = deque()

    @classmethod
    async def dial(cls, node: Node, version: int = V5) -> "Device":
        """A connection without CONNECT."""
        assert node.mqtt is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", node.mqtt.ports["mqtt_port"])
        return cls(reader, writer, version)

    @classmethod
    @asynccontextmanager
    async def open(cls, node: Node, client_id: str = "", version: int = V5, **more: Any) -> AsyncIterator["Device"]:
        device = await cls.dial(node, version)
        try:
            device.write(Connect(version=version, client_id=client_id, **more))
            device.connack = await device.expect(Connack)
            assert not device.connack.reason, device.connack
            yield device
        finally:
            device.cut()

    def write(self, packet: AnyPacket) -> None:
        self._writer.write(encode(packet, self.version))

    def write_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    async def next(self) -> AnyPacket | None:
        """The next packet; None: the node has closed the connection."""
        if self._passed_over:
            return self._passed_over.popleft()
        return await self._read()

    async def _read(self) -> AnyPacket | None:
        async with asyncio.timeout(WITHIN_S):
            while (packet := self._stream.next()) is None:
                try:
                    data = await self._reader.read(65536)
                except ConnectionError:
                    return None
                if not data:
                    return None
                self._stream.feed(data)
        return packet

    async def bytes(self, most: int) -> bytes:
        """The next bytes, as they are: `most` of them, or fewer if the connection ends."""
        async with asyncio.timeout(WITHIN_S):
            try:
                return await self._reader.readexactly(most)
            except asyncio.IncompleteReadError as error:
                return error.partial

    async def expect(self, kind: type[P]) -> P:
        packet = await self.next()
        assert isinstance(packet, kind), packet
        return packet

    async def find(self, kind: type[P]) -> P:
        """The first packet of this kind; others stay, in their order."""
        for packet in self._passed_over:
            if isinstance(packet, kind):
                self._passed_over.remove(packet)
                return packet
        while not isinstance(packet := await self._read(), kind):
            assert packet is not None, f"the connection ended before {kind.__name__} came"
            self._passed_over.append(packet)
        return packet

    async def ended(self) -> None:
        """The node has closed the connection, without another packet."""
        assert await self.next() is None

    def cut(self) -> None:
        """End without DISCONNECT."""
        self._writer.transport.abort()

    # -- in words ------------------------------------------------------------------------------------------------------

    async def subscribe(
        self, *patterns: str, qos: int = 0, properties: Properties = NO_PROPERTIES, **more: Any
    ) -> Suback:
        self._next_id += 1
        wanted = tuple([Wanted(pattern=pattern, qos=qos, **more) for pattern in patterns])
        self.write(Subscribe(packet_id=self._next_id, wanted=wanted, properties=properties))
        return await self.expect(Suback)

    async def publish(self, topic: str, payload: bytes = b"", qos: int = 0, **more: Any) -> None:
        """Publish, and finish the exchange of its QoS. Nothing else may come meanwhile."""
        self._next_id += 1
        number = self._next_id if qos else 0
        self.write(Publish(topic=topic, payload=payload, qos=qos, packet_id=number, **more))
        if qos == 1:
            assert not (await self.expect(Puback)).reason.failed
        elif qos == 2:
            assert not (await self.expect(Pubrec)).reason.failed
            self.write(Pubrel(packet_id=number))
            await self.expect(Pubcomp)

    async def message(self) -> Publish:
        """The next message, acknowledged by its QoS."""
        packet: Publish = await self.expect(Publish)
        if packet.qos == 1:
            self.write(Puback(packet_id=packet.packet_id))
        elif packet.qos == 2:
            self.write(Pubrec(packet_id=packet.packet_id))
            await self.find(Pubrel)
            self.write(Pubcomp(packet_id=packet.packet_id))
        return packet

    async def silent(self) -> None:
        """Nothing is on its way: the next packets answer pings. Two: what came with the first may be given after it."""
        for _ in range(2):
            self.write(Pingreq())
            await self.expect(Pingresp)


@asynccontextmanager
async def mqtt_node(base: Path | None = None, **settings: Any) -> AsyncIterator[Node]:
    """A node with MQTT on any port."""
    async with Node(port=0, mqtt_port=0, directory=base, **settings) as node:
        yield node


class SharedNode:
    """A node that many tests use one after another, with an event loop that runs while a test does."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self.node = Node(port=0, mqtt_port=0)

    def __enter__(self) -> Self:
        self.run(self.node.start())
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self.node.stop())
        self._runner.close()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(DEADLINE_S):
                await work

        self._runner.run(bounded())


def on_shared_node(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine; its argument `node` is the node of its module. Its client names are its own."""

    @wraps(test)
    def run(node: SharedNode, **more: Any) -> None:
        node.run(test(node.node, **more))

    return run


_numbers = count(1)


def fresh(name: str = "t") -> str:
    """A name that no other test uses."""
    return f"{name}{next(_numbers)}"
