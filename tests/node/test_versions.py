"""Clusters of two neighbouring versions: messages both ways, and an upgrade node by node under load that loses nothing.

The later version appends an optional field to every packet and to every message, and speaks one wire version more.
"""

import asyncio
from functools import partial
from pathlib import Path

import msgspec
import pytest

import antecede
from antecede import Node
from antecede.core import Packet
from antecede.node import joining, links
from antecede.protocols.live_registry import LIVE
from antecede.wire import transports
from antecede.wire.codec import Hello, PacketCodec
from antecede.wire.handshake import VERSIONS, VersionRange
from antecede.wire.listener import Listener
from antecede.wire.tcp import TcpTransport

from .clusters import make, until_all_have

LATER = VersionRange(VERSIONS.latest + 1, VERSIONS.latest)
PROTOCOLS = sorted(LIVE)
NEWS = "of a later version"


def _is_message(value: object) -> bool:
    return isinstance(value, list) and list(map(type, value)) == [str, int, int, list, bytes, list]


def _append(value: object) -> object:
    """The same with a field appended to every message inside."""
    if not isinstance(value, list):
        return value
    inside = [_append(one) for one in value]
    return [*inside, NEWS] if _is_message(value) else inside


class LaterCodec(PacketCodec):
    """As a later version would have it: every record ends with one optional field more."""

    def __init__(self, codec: PacketCodec) -> None:
        super().__init__(codec.name.partition("/")[0], codec.types)
        #: Packets that had the new field, and that did not.
        self.seen = {True: 0, False: 0}
        for name, shape in self.shapes.items():
            if "/" not in name or name.endswith(("/message", "/messages")):
                self.shapes[name] = f"{shape}news:str" if shape.endswith("|") else f"{shape},news:str"

    def encode(self, record: Packet) -> bytes:
        body = msgspec.msgpack.encode([*_append(msgspec.msgpack.decode(super().encode(record))), NEWS])  # type: ignore[misc]
        assert type(record) in self.types
        return body

    def decode(self, body: bytes | memoryview) -> list[Packet]:
        for packet in msgspec.msgpack.decode(body):
            self.seen[packet[-1] == NEWS] += 1
        return super().decode(body)


async def start(node: Node, *, later: bool) -> LaterCodec | None:
    """Start a node of this version, or of a later one."""
    if not later:
        await node.start()
        return None
    codec = LaterCodec(node.protocol.codec)
    node.protocol.codec = codec
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(links, "Listener", partial(Listener, versions=LATER))
        patch.setattr(transports, "TcpTransport", partial(TcpTransport, versions=LATER))
        patch.setattr(joining, "Hello", partial(Hello, version=LATER.latest, oldest=LATER.oldest))
        await node.start()
    return codec


async def publish(node: Node, count: int) -> None:
    async with node.connect() as bus:
        for number in range(count):
            await bus.publish(f"from/{node.slot}", b"%d" % number)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_mixed_cluster(protocol: str, tmp_path: Path) -> None:
    async def test() -> None:
        nodes: list[Node] = []
        codecs: list[LaterCodec] = []
        try:
            for number, later in enumerate([False, True, False, True]):
                seeds = (nodes[0].address,) if nodes else ()
                nodes.append(make(number, seeds, tmp_path, slots=4, protocol=protocol))
                codec = await start(nodes[-1], later=later)
                codecs += [] if codec is None else [codec]
            await asyncio.gather(*[publish(node, 50) for node in nodes])
            await until_all_have(nodes, 200)
        finally:
            for node in reversed(nodes):
                await node.stop()
        for codec in codecs:  # from nodes of both versions
            assert codec.seen[True]
            assert codec.seen[False]

    asyncio.run(asyncio.wait_for(test(), 90))


class Load:
    """A client of each node, which moves to another node while its own restarts."""

    def __init__(self, urls: list[str]) -> None:
        self.acknowledged: set[tuple[int, int]] = set()
        self._urls = urls
        self._stopping = False

    async def run(self, number: int) -> None:
        hosts = ",".join(url.removeprefix("antecede://") for url in self._urls[number:] + self._urls[:number])
        async with antecede.connect(f"antecede://{hosts}", patience_s=60) as bus:
            while not self._stopping:
                await asyncio.sleep(0.002)
                try:
                    name = await bus.publish("load", b"x", durability="disk")
                    self.acknowledged.add((name.source, name.seq))
                except antecede.PublishError:
                    continue

    def stop(self) -> None:
        self._stopping = True


async def delivered(node: Node) -> list[tuple[int, int]]:
    assert node.journal is not None
    return [(item.message.source, item.message.seq) for item in (await node.journal.read(0, limit=1_000_000)).items]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_upgrade_node_by_node_under_load(protocol: str, tmp_path: Path) -> None:
    async def test() -> None:
        nodes: list[Node] = []
        try:
            for number in range(3):
                seeds = (nodes[0].address,) if nodes else ()
                nodes.append(make(number, seeds, tmp_path, slots=4, protocol=protocol))
                await nodes[-1].start()
            load = Load([node.url for node in nodes])
            clients = [asyncio.create_task(load.run(number)) for number in range(3)]
            for number in range(3):
                await asyncio.sleep(0.5)
                before = nodes[number]
                port = before.listener.address[1]
                await before.stop()
                seeds = tuple(node.address for node in nodes if node is not before)
                nodes[number] = make(number, seeds, tmp_path, slots=4, protocol=protocol, port=port)
                await start(nodes[number], later=True)
            async with asyncio.timeout(60):
                while len(load.acknowledged) <= 100:
                    await asyncio.sleep(0.05)
            load.stop()
            await asyncio.gather(*clients)
            # Total order comes after the acknowledgement, so nodes that have delivered the same may not be done.
            async with asyncio.timeout(60):
                for node in nodes:
                    while not load.acknowledged <= set(await delivered(node)):
                        await asyncio.sleep(0.05)
            for node in nodes:
                names = await delivered(node)
                assert len(names) == len(set(names))
        finally:
            for node in reversed(nodes):
                await node.stop()

    asyncio.run(asyncio.wait_for(test(), 120))
