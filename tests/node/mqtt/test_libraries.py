"""Real MQTT clients and a client of our own on one node: the same topics, both ways."""

import asyncio
import shutil
import subprocess

import aiomqtt
import gmqtt
import paho.mqtt.client as paho
import pytest
from gmqtt.mqtt.constants import MQTTv50, MQTTv311

from antecede import Node
from tests.client.running import awaited, until
from tests.node.mqtt.devices import WITHIN_S, mqtt_node


def port_of(node: Node, name: str = "mqtt_port") -> int:
    assert node.mqtt is not None
    return node.mqtt.ports[name]


@pytest.mark.parametrize(("version", "transport"), [(4, "tcp"), (5, "tcp"), (4, "websockets"), (5, "websockets")])
@awaited
async def test_paho(version: int, transport: str) -> None:
    async with mqtt_node(ws_port=0) as node, node.connect() as bus:
        loop = asyncio.get_running_loop()
        got: asyncio.Queue[tuple[str, bytes, int]] = asyncio.Queue()
        ready = asyncio.Event()
        client = paho.Client(
            paho.CallbackAPIVersion.VERSION2,
            client_id="p",
            protocol=paho.MQTTProtocolVersion(version),
            transport=transport,
        )
        client.on_connect = lambda client, *_: client.subscribe("rooms/#", 2)
        client.on_subscribe = lambda *_: loop.call_soon_threadsafe(ready.set)
        client.on_message = lambda _, __, message: loop.call_soon_threadsafe(
            got.put_nowait, (message.topic, message.payload, message.qos)
        )
        client.connect_async("127.0.0.1", port_of(node, "mqtt_port" if transport == "tcp" else "ws_port"))
        client.loop_start()
        try:
            async with asyncio.timeout(WITHIN_S), bus.subscribe("rooms/#") as feed:
                await ready.wait()
                await bus.publish("rooms/1", b"from a client of ours")
                assert await got.get() == ("rooms/1", b"from a client of ours", 2)
                for qos in (0, 1, 2):
                    client.publish("rooms/2", b"%d" % qos, qos)
                assert [await got.get() for _ in range(3)] == [("rooms/2", b"%d" % qos, qos) for qos in (0, 1, 2)]
                assert [(await anext(feed)).payload for _ in range(4)] == [b"from a client of ours", b"0", b"1", b"2"]
        finally:
            client.disconnect()
            client.loop_stop()


@pytest.mark.parametrize("version", [aiomqtt.ProtocolVersion.V311, aiomqtt.ProtocolVersion.V5])
@awaited
async def test_aiomqtt(version: aiomqtt.ProtocolVersion) -> None:
    async with (
        mqtt_node() as node,
        node.connect() as bus,
        aiomqtt.Client("127.0.0.1", port_of(node), protocol=version) as client,
        bus.subscribe("t/#") as feed,
    ):
        await client.subscribe("t/#", qos=1)
        await bus.publish("t/1", b"native")
        await client.publish("t/2", b"device", qos=2)
        async with asyncio.timeout(WITHIN_S):
            found = [await anext(client.messages) for _ in range(2)]
            assert [(str(one.topic), one.payload, one.qos) for one in found] == [
                ("t/1", b"native", 1),
                ("t/2", b"device", 1),
            ]
            assert [(await anext(feed)).payload for _ in range(2)] == [b"native", b"device"]


@pytest.mark.parametrize("version", [MQTTv311, MQTTv50])
@awaited
async def test_gmqtt(version: int) -> None:
    async with mqtt_node() as node, node.connect() as bus:
        got: asyncio.Queue[tuple[str, bytes, int, list[tuple[str, str]]]] = asyncio.Queue()
        ready = asyncio.Event()
        client = gmqtt.Client("g")
        client.on_subscribe = lambda *_: ready.set()

        def on_message(_: object, topic: str, payload: bytes, qos: int, properties: dict[str, object]) -> int:
            got.put_nowait((topic, bytes(payload), qos, properties.get("user_property", [])))  # type: ignore[arg-type]
            return 0

        client.on_message = on_message
        async with asyncio.timeout(WITHIN_S), bus.subscribe("g/#") as feed:
            await client.connect("127.0.0.1", port_of(node), version=version)
            client.subscribe("g/#", qos=1)
            await ready.wait()
            await bus.publish("g/1", b"native", headers={"lang": "en"})
            topic, payload, qos, user = await got.get()
            assert (topic, payload, qos) == ("g/1", b"native", 1)
            assert user == ([("lang", "en")] if version == MQTTv50 else [])
            client.publish("g/2", b"device", qos=1, user_property=[("a", "1"), ("b", "2"), ("a", "3")])
            topic, payload, qos, user = await got.get()
            assert (topic, payload) == ("g/2", b"device")
            assert user == ([("a", "1"), ("b", "2"), ("a", "3")] if version == MQTTv50 else [])
            assert (await anext(feed)).payload == b"native"
            assert (await anext(feed)).headers == ({"a": "3", "b": "2"} if version == MQTTv50 else {})
        await client.disconnect()


@pytest.fixture
def mosquitto() -> str:
    found = shutil.which("mosquitto_sub")
    if found is None:
        pytest.skip("LEFT OUT: no mosquitto_sub here; tests/system_packages.sh mosquitto-clients")
    return found


@pytest.mark.parametrize("version", ["311", "5"])
@awaited
async def test_mosquitto_pub_and_sub(mosquitto: str, version: str) -> None:
    async with mqtt_node() as node, node.connect() as bus, bus.subscribe("m/#") as feed:
        words = ["-h", "127.0.0.1", "-p", str(port_of(node)), "-V", version, "-q", "2"]
        reader = await asyncio.create_subprocess_exec(
            mosquitto, *words, "-t", "m/#", "-v", "-C", "2", stdout=subprocess.PIPE
        )
        assert node.mqtt is not None
        sessions = node.mqtt.sessions
        await until(lambda: any(len(session.subscriptions) for session in sessions.all()))
        async with asyncio.timeout(WITHIN_S):
            await bus.publish("m/1", b"native")
            writer = await asyncio.create_subprocess_exec("mosquitto_pub", *words, "-t", "m/2", "-m", "device")
            assert await writer.wait() == 0
            said, _ = await reader.communicate()
        assert said.splitlines() == [b"m/1 native", b"m/2 device"]
        assert [(await anext(feed)).payload for _ in range(2)] == [b"native", b"device"]
