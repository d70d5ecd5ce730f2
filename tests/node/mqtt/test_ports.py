"""The ports of a node for MQTT: TLS, WebSocket, and strangers on them."""

import asyncio
import ssl
from pathlib import Path

import aiomqtt
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from antecede import Node, UsageError
from antecede.node.mqtt import connection
from antecede.wire.mqtt.encoding import encode
from antecede.wire.mqtt.packets import V5, V311, Connect, Pingreq, Publish, Subscribe, Wanted, Will
from antecede.wire.mqtt.properties import Kind
from antecede.wire.mqtt.stream import PacketStream
from antecede.wire.security import init_certificates, new_token
from tests.client.running import awaited, until
from tests.node.mqtt.devices import Device, mqtt_node


def port_of(node: Node, name: str) -> int:
    assert node.mqtt is not None
    return node.mqtt.ports[name]


@awaited
async def test_tls(tmp_path_factory: pytest.TempPathFactory) -> None:
    certs = tmp_path_factory.mktemp("certs") / "certs"
    init_certificates(certs, cluster="antecede", hosts=("127.0.0.1", "localhost"))
    context = ssl.create_default_context(cafile=certs / "authority.pem")
    async with (
        Node(port=0, mqtts_port=0, tls=certs) as node,
        aiomqtt.Client("127.0.0.1", port_of(node, "mqtts_port"), tls_context=context) as client,
    ):
        await client.subscribe("t", qos=1)
        await client.publish("t", b"secret", qos=1)
        async with asyncio.timeout(30):
            assert (await anext(client.messages)).payload == b"secret"
        # What is no TLS is closed, and the node goes on.
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(node, "mqtts_port"))
        writer.write(encode(Connect(version=V311, client_id="x"), V311))
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(64)


@awaited
async def test_a_certificate_has_the_grants_of_its_name(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A client with a certificate of the cluster's authority needs no token. That of a node is not a client's."""
    base = tmp_path_factory.mktemp("certs")
    certs, tokens = base / "certs", base / "tokens.json"
    init_certificates(certs, cluster="antecede", hosts=("127.0.0.1",), clients=("carol", "dave"))
    token = new_token(tokens, "carol", publish=("mine/#",), subscribe=("mine/#",))

    def context(name: str | None) -> ssl.SSLContext:
        found = ssl.create_default_context(cafile=certs / "authority.pem")
        if name is not None:
            found.load_cert_chain(certs / f"{name}.pem", certs / f"{name}.key")
        return found

    async with Node(port=0, mqtts_port=0, tls=certs, tokens=tokens) as node:
        port = port_of(node, "mqtts_port")
        async with aiomqtt.Client("127.0.0.1", port, tls_context=context("carol")) as client:
            await client.subscribe("mine/#", qos=1)
            await client.publish("mine/1", b"by certificate", qos=1)
            async with asyncio.timeout(30):
                assert (await anext(client.messages)).payload == b"by certificate"
            (refused,) = await client.subscribe("yours/#", qos=1)
            assert getattr(refused, "value", refused) == 0x80
        async with aiomqtt.Client("127.0.0.1", port, tls_context=context("dave"), username="x", password=token):
            pass
        for name in ("dave", "node", None):
            with pytest.raises(aiomqtt.MqttError):
                async with aiomqtt.Client("127.0.0.1", port, tls_context=context(name)):
                    pass


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"mqtts_port": 0}, "mqtts_port"),
        ({"mqtt_port": 0, "host": "0.0.0.0", "tokens": Path("t.json")}, "mqtt_port"),
        ({"ws_port": 0, "host": "0.0.0.0", "tokens": Path("t.json")}, "ws_port"),
        ({"mqtt_port": 65_536}, "mqtt_port"),
    ],
)
def test_a_port_that_would_not_be_safe_is_refused(settings: dict[str, object], field: str) -> None:
    with pytest.raises(UsageError, match=field):
        Node(**settings)  # type: ignore[arg-type]


@awaited
async def test_a_port_in_use_is_named() -> None:
    async with mqtt_node() as node:
        with pytest.raises(UsageError, match="mqtt_port"):
            async with Node(port=0, mqtt_port=port_of(node, "mqtt_port")):
                pass


async def upgrade(node: Node, *lines: str) -> bytes:
    """The answer to a WebSocket handshake with these headers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(node, "ws_port"))
    head = [
        "GET /mqtt HTTP/1.1",
        "Host: localhost",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
    ]
    head += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", *lines]
    writer.write("\r\n".join([*head, "", ""]).encode())
    try:
        async with asyncio.timeout(30):
            return await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.close()


@awaited
async def test_the_subprotocol_is_mqtt() -> None:
    """[MQTT-6.0.0-3], [MQTT-6.0.0-4]."""
    async with mqtt_node(ws_port=0) as node:
        answer = await upgrade(node, "Sec-WebSocket-Protocol: mqtt")
        assert b" 101 " in answer
        assert b"sec-websocket-protocol: mqtt" in answer.lower()
        assert b" 400 " in await upgrade(node)
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(node, "ws_port"))
        writer.write(b"\x10\x0c\0\4MQTT\4\2\0\0\0\0" + b"\r\n" * 9000)
        async with asyncio.timeout(30):
            assert b"MQTT" not in await reader.read()
        writer.close()


@pytest.mark.parametrize("version", [V311, V5])
@awaited
async def test_packets_and_frames_need_not_align(version: int) -> None:
    """[MQTT-6.0.0-2], 3.1.1 [MQTT-6.0.0-2]: several packets in a frame, a packet in several, also in fragments."""
    packets = [
        Connect(version=version, client_id="a"),
        Subscribe(packet_id=1, wanted=(Wanted(pattern="t", qos=0),)),
        Publish(topic="t", payload=b"." * 300),
        Pingreq(),
    ]
    data = b"".join([encode(packet, version) for packet in packets])
    async with mqtt_node(ws_port=0) as node:
        url = f"ws://127.0.0.1:{port_of(node, 'ws_port')}/mqtt"
        for pieces in ([data], [data[:3], data[3:40], data[40:]], [data[at : at + 1] for at in range(len(data))]):
            for fragments in (False, True):
                async with asyncio.timeout(30), connect(url, subprotocols=[Subprotocol("mqtt")]) as socket:
                    if fragments:
                        await socket.send(iter(pieces))
                    else:
                        for piece in pieces:
                            await socket.send(piece)
                    stream, found = PacketStream(bytes_max=1 << 20, version=version), []
                    while len(found) < len(packets):
                        answer = await socket.recv()
                        assert isinstance(answer, bytes)  # [MQTT-6.0.0-1]
                        stream.feed(answer)
                        found += [packet.kind for packet in stream.packets()]
                    assert sorted(found) == [Kind.CONNACK, Kind.PUBLISH, Kind.SUBACK, Kind.PINGRESP]


@awaited
async def test_a_websocket_that_says_goodbye_is_closed() -> None:
    """The server closes the socket after the closing handshake (RFC 6455, 7.1.1); the client's will is published."""
    async with mqtt_node(ws_port=0) as node, Device.open(node, "r") as reader:
        await reader.subscribe("w")
        url = f"ws://127.0.0.1:{port_of(node, 'ws_port')}/mqtt"
        async with connect(url, subprotocols=[Subprotocol("mqtt")]) as socket:
            await socket.send(encode(Connect(client_id="b", will=Will(topic="w", payload=b"left")), V5))
            assert await socket.recv()
        assert (await reader.message()).payload == b"left"


@awaited
async def test_a_text_frame_is_refused() -> None:
    """[MQTT-6.0.0-1]."""
    async with mqtt_node(ws_port=0) as node:
        url = f"ws://127.0.0.1:{port_of(node, 'ws_port')}/mqtt"
        async with connect(url, subprotocols=[Subprotocol("mqtt")]) as socket:
            await socket.send("text")
            with pytest.raises(ConnectionClosed):
                await socket.recv()


@awaited
async def test_strangers_do_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silent, slow and half-open connections end; a client is served meanwhile."""
    monkeypatch.setattr(connection, "HANDSHAKE_S", 0.5)
    async with mqtt_node() as node, Device.open(node, "client") as client:
        strangers = [await Device.dial(node) for _ in range(20)]
        for number, stranger in enumerate(strangers):
            stranger.write_bytes(b"\x10\x0c\0\4MQ"[: number % 6])
        await client.silent()
        for stranger in strangers:
            await stranger.ended()
        await client.silent()
        assert node.mqtt is not None
        await until(lambda: node.mqtt is not None and node.mqtt.sessions.connected == 1)
