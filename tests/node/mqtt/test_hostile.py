"""Hostile MQTT clients: they get reason codes and closed connections, and an honest pair is served meanwhile."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from antecede import Node
from antecede.node.mqtt import connection
from antecede.wire.mqtt.encoding import encode
from antecede.wire.mqtt.packets import V5, V311, Connack, Connect, Disconnect
from tests.client.running import awaited, until
from tests.node.mqtt.devices import Device, mqtt_node

#: More than a node lets in without CONNECT at a time (`AdmissionLimits.handshakes_max`).
STRANGERS = 300


@asynccontextmanager
async def honest_pair(node: Node) -> AsyncIterator[None]:
    """A writer and a reader, whose messages all arrive. At the end only they are connected, and nothing failed."""
    assert node.mqtt is not None
    loop = asyncio.get_running_loop()
    failures: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _, context: failures.append(context))
    sessions, count, over = node.mqtt.sessions, 0, False
    async with Device.open(node, "reader") as reader, Device.open(node, "writer", V311) as writer:
        await reader.subscribe("honest", qos=1)
        used = node.pool.used

        async def exchange() -> None:
            nonlocal count
            while not over:
                await writer.publish("honest", b"%d" % count, 1)
                assert (await reader.message()).payload == b"%d" % count
                count += 1
                await asyncio.sleep(0.01)

        honest = asyncio.ensure_future(exchange())
        yield
        before = count
        await until(lambda: count > before + 3 or honest.done())
        over = True
        await honest
        await until(lambda: sessions.connected == 2 and len(sessions) == 2)
        await until(lambda: node.mqtt is not None and len(node.mqtt.door.all()) == 2)
        assert node.pool.used <= used
    assert not failures, failures


@awaited
async def test_any_packet_is_answered_or_refused() -> None:
    """Every first byte, with bodies by chance: before and after CONNECT, in both versions."""
    chance = random.Random(20)
    answers = set()
    async with mqtt_node() as node, honest_pair(node):
        for first in range(256):
            for version in (V311, V5):
                greeting = encode(Connect(version=version, client_id="x"), version) if first % 3 else b""
                device = await Device.dial(node, version)
                body = chance.randbytes(chance.choice((0, 1, 2, 5, 60)))
                device.write_bytes(greeting + bytes((first, len(body))) + body + b"\xc0\0" + b"\xff" * 8)
                while (packet := await device.next()) is not None:
                    answers.add(type(packet))
                device.cut()
    assert {Connack, Disconnect} <= answers


@awaited
async def test_silent_and_slow_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A half-open flood and a slow loris: more sockets than may be in their handshake, some of which send a byte."""
    monkeypatch.setattr(connection, "HANDSHAKE_S", 1.0)
    connect = encode(Connect(client_id="x" * 60), V5)
    async with mqtt_node() as node, honest_pair(node):
        strangers = [await Device.dial(node) for _ in range(STRANGERS)]
        for byte in connect[:20]:
            for stranger in strangers[::2]:
                stranger.write_bytes(bytes((byte,)))
            await asyncio.sleep(0.02)
        async with Device.open(node, "newcomer") as newcomer:
            await newcomer.silent()
        for stranger in strangers:
            await stranger.ended()


@awaited
async def test_packets_that_never_end() -> None:
    """Clients that announce the largest packet and send a part of it hold no more than that part; then they go."""
    async with mqtt_node() as node, honest_pair(node):
        devices = []
        for number in range(8):
            device = await Device.dial(node)
            device.write(Connect(client_id=f"h{number}", keep_alive_s=1))
            await device.expect(Connack)
            device.write_bytes(b"\x30\xf0\xff\x1f\0\1t\0" + bytes(200_000))
            devices.append(device)
        for device in devices:
            await device.expect(Disconnect)
            await device.ended()
            device.cut()
