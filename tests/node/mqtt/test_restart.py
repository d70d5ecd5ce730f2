"""Sessions and retained messages over `kill -9` of the node: QoS 1 and 2 are not lost, QoS 2 not twice."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from antecede import Node
from antecede.journal.segments import segment_path
from antecede.node.directory import JOURNAL
from antecede.node.local_cluster import free_ports
from antecede.wire.mqtt.packets import V5, V311, Connack, Connect, Pubcomp, Publish, Pubrec, Pubrel, Will
from antecede.wire.mqtt.properties import Properties
from tests.client.running import awaited
from tests.node.mqtt.devices import Device, mqtt_node

KEPT = Properties(session_expiry_s=600)


class Process:
    """A node in a process of its own, on ports that stay."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.port, self.mqtt_port = free_ports([0, 0])
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        words = ["--dir", str(self._directory), "--port", str(self.port), "--mqtt-port", str(self.mqtt_port)]
        self._process = subprocess.Popen([sys.executable, "-m", "antecede", "node", *words], stdout=subprocess.DEVNULL)
        async with asyncio.timeout(120):
            while True:
                with contextlib.suppress(OSError):
                    device = await self.dial(V311)
                    device.write(Connect(version=V311))
                    if isinstance(await device.next(), Connack):
                        device.cut()
                        return
                await asyncio.sleep(0.2)

    def kill(self) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(30)

    async def dial(self, version: int) -> Device:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.mqtt_port)
        return Device(reader, writer, version)

    @asynccontextmanager
    async def device(self, client_id: str, version: int = V5, **more: object) -> AsyncIterator[Device]:
        device = await self.dial(version)
        try:
            device.write(Connect(version=version, client_id=client_id, **more))  # type: ignore[arg-type]
            device.connack = await device.expect(Connack)
            assert not device.connack.reason
            yield device
        finally:
            device.cut()


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path / "n0")


@awaited
async def test_sessions_survive_kill_9(process: Process) -> None:
    """One node killed twice. At each kill, messages are at every stage of QoS 1 and 2, both ways."""
    await process.start()
    try:
        will = Will(topic="w", payload=b"killed", qos=1)
        async with (
            process.device("reader", clean_start=False, properties=KEPT) as reader,
            process.device("writer", clean_start=False, properties=KEPT, will=will) as writer,
        ):
            await reader.subscribe("t/#", "w", qos=2)
            await writer.publish("r", b"retained", 1, retain=True)
            for number in range(4):
                await writer.publish("t/1", b"%d" % number, 2)
            first = [await reader.expect(Publish) for _ in range(4)]
            reader.write(Pubrec(packet_id=first[0].packet_id))
            assert (await reader.expect(Pubrel)).packet_id == first[0].packet_id
            reader.write(Pubcomp(packet_id=first[0].packet_id))
            reader.write(Pubrec(packet_id=first[1].packet_id))
            assert (await reader.expect(Pubrel)).packet_id == first[1].packet_id
            await reader.silent()
            # Published, and its PUBREC lost: the client will send it again.
            writer.write(Publish(topic="t/2", payload=b"once", qos=2, packet_id=77))
            await writer.expect(Pubrec)
            process.kill()
        await process.start()
        async with process.device("reader", clean_start=False, properties=KEPT) as reader:
            assert reader.connack.session_present
            again = [await reader.next() for _ in range(3)]
            # 0 is done. Of 1 only PUBREL comes. 2 and 3 come again, by their identifiers.
            assert again[0] == Pubrel(packet_id=first[1].packet_id)
            for packet, before in zip(again[1:], first[2:], strict=True):
                assert isinstance(packet, Publish)
                assert (packet.packet_id, packet.payload, packet.dup) == (before.packet_id, before.payload, True)
            reader.write(Pubcomp(packet_id=first[1].packet_id))
            for packet in first[2:]:
                reader.write(Pubrec(packet_id=packet.packet_id))
            for _ in range(2):
                reader.write(Pubcomp(packet_id=(await reader.find(Pubrel)).packet_id))
            async with process.device("writer", clean_start=False, properties=KEPT) as writer:
                assert writer.connack.session_present
                writer.write(Publish(topic="t/2", payload=b"once", qos=2, packet_id=77, dup=True))
                await writer.expect(Pubrec)
                writer.write(Pubrel(packet_id=77))
                assert not (await writer.expect(Pubcomp)).reason
                await writer.publish("t/2", b"last", 2)
                found = []
                while b"last" not in found:
                    found.append((await reader.message()).payload)
                assert sorted(found) == [b"killed", b"last", b"once"]
                await writer.subscribe("r")
                kept = await writer.expect(Publish)
                assert (kept.payload, kept.retain) == (b"retained", True)
    finally:
        process.kill()


def cut_log(directory: Path, size: int) -> None:
    """What a power failure may do: the end of the log is gone, and SQLite's files are as they were."""
    os.truncate(segment_path(directory / JOURNAL, 0), size)


@awaited
async def test_positions_that_a_power_failure_took_are_not_skipped_when_they_are_given_again(tmp_path: Path) -> None:
    """Other messages come to stand there: for sessions, shared subscriptions and retained messages."""
    directory = tmp_path / "n0"
    for life in range(2):
        async with mqtt_node(directory) as node:
            async with Device.open(node, "w") as writer, Device.open(node, "a", properties=KEPT) as device:
                await device.subscribe("t", "$share/g/s", qos=1)
                await writer.publish("r", b"first", 1, retain=True)
                await writer.publish("t", b"known", 1)
                await device.message()
                size = segment_path(directory / JOURNAL, 0).stat().st_size
                await device.subscribe("u", qos=1)
                await writer.publish("r", b"lost", 1, retain=True)
                for number in range(8):
                    await writer.publish("ts"[number % 2], b"lost", 1)
                    if number < 6:
                        await device.message()
                await kept(node)
            node.abort()
        cut_log(directory, size)
        for _ in range(life):  # the first time the file says so, then it does not any more
            async with mqtt_node(directory) as node:
                pass
        async with mqtt_node(directory) as node, Device.open(node, "w") as writer:
            assert node.hub.position == 2
            for number in range(4):
                await writer.publish("tsut"[number], b"%d" % number, 1)
            async with Device.open(node, "a", clean_start=False, properties=KEPT) as device:
                assert device.connack.session_present
                assert sorted([(await device.message()).payload for _ in range(4)]) == [b"0", b"1", b"2", b"3"]
                await device.silent()
                await device.subscribe("r")
                assert (await device.message()).payload == b"first"
                await writer.publish("r", b"second", 1, retain=True)
                assert (await device.message()).payload == b"second"
        shutil.rmtree(directory)


async def kept(node: Node) -> None:
    """Return when what MQTT keeps is written."""
    assert node.mqtt is not None
    written = asyncio.Event()
    node.mqtt.keeper.when_kept(written.set)
    await written.wait()


@awaited
async def test_a_life_without_mqtt_behind_a_power_failure_skips_nothing(tmp_path: Path) -> None:
    """Other messages have come to stand where the sessions were, and more, when MQTT is served again."""
    async with mqtt_node(tmp_path) as node:
        async with Device.open(node, "w") as writer, Device.open(node, "a", properties=KEPT) as device:
            await device.subscribe("t", qos=1)
            size = segment_path(tmp_path / JOURNAL, 0).stat().st_size
            for _ in range(4):
                await writer.publish("t", b"lost", 1)
                await device.message()
            await kept(node)
        node.abort()
    cut_log(tmp_path, size)
    async with Node(port=0, directory=tmp_path) as node, node.connect() as bus:
        for number in range(9):
            await bus.publish("t", b"%d" % number)
    async with (
        mqtt_node(tmp_path) as node,
        Device.open(node, "a", clean_start=False, properties=KEPT) as device,
    ):
        assert [(await device.message()).payload for _ in range(9)] == [b"%d" % number for number in range(9)]


@awaited
async def test_what_a_power_failure_took_is_published_when_it_is_sent_again(tmp_path: Path) -> None:
    """A QoS 2 message whose PUBREC was lost, too; and what it had done to retained messages is undone."""
    async with mqtt_node(tmp_path) as node:
        async with Device.open(node, "w", properties=KEPT) as writer:
            await writer.publish("r", b"first", 1, retain=True)
            size = segment_path(tmp_path / JOURNAL, 0).stat().st_size
            await writer.publish("r", b"", 1, retain=True)
            writer.write(Publish(topic="t", payload=b"again", qos=2, packet_id=7))
            await writer.expect(Pubrec)
            await kept(node)
        node.abort()
    cut_log(tmp_path, size)
    async with mqtt_node(tmp_path) as node, Device.open(node, "a") as device:
        await device.subscribe("t", "r")
        assert (await device.message()).payload == b"first"
        async with Device.open(node, "w", clean_start=False, properties=KEPT) as writer:
            assert writer.connack.session_present
            for number, life in enumerate((7, 7, 7)):  # sent again, as often as the client likes
                writer.write(Publish(topic="t", payload=b"again", qos=2, packet_id=life, dup=True))
                await writer.expect(Pubrec)
                if not number:
                    assert (await device.message()).payload == b"again"
        await device.silent()


@awaited
async def test_an_identifier_that_was_used_since_the_node_told_of_it_means_another_message(tmp_path: Path) -> None:
    """The node is back with an older `mqtt.db`, which has not seen the PUBREL of the message before."""
    async with mqtt_node(tmp_path) as node:
        async with Device.open(node, "w", properties=KEPT) as writer:
            writer.write(Publish(topic="t", payload=b"0", qos=2, packet_id=7))
            await writer.expect(Pubrec)
            await kept(node)
        node.abort()
    async with mqtt_node(tmp_path) as node, Device.open(node, "a") as device:
        await device.subscribe("t")
        async with Device.open(node, "w", clean_start=False, properties=KEPT) as writer:
            assert writer.connack.session_present
            await writer.publish("t", b"-1", 1)
            for payload in (b"1", b"2"):
                writer.write(Publish(topic="t", payload=payload, qos=2, packet_id=7))
                await writer.expect(Pubrec)
                writer.write(Pubrel(packet_id=7))
                await writer.expect(Pubcomp)
        assert [(await device.message()).payload for _ in range(3)] == [b"-1", b"1", b"2"]


@pytest.mark.parametrize("ends", ["stop", "kill"])
@awaited
async def test_a_message_of_a_group_that_its_member_is_not_given_yet_stays_with_the_group(
    ends: str, tmp_path: Path
) -> None:
    """A message of QoS 1 waits until that of QoS 2 before it is released. No other member is there."""
    async with mqtt_node(tmp_path) as node:
        async with Device.open(node, "w") as writer, Device.open(node, "a", properties=KEPT) as device:
            await device.subscribe("$share/g/s", qos=2)
            await writer.publish("s", b"0", 2)
            await writer.publish("s", b"1", 1)
            assert (await device.expect(Publish)).payload == b"0"
            await device.silent()
            await kept(node)
            if ends == "stop":
                await node.stop()
        if ends == "kill":
            node.abort()
    async with (
        mqtt_node(tmp_path) as node,
        Device.open(node, "a", clean_start=False, properties=KEPT) as device,
    ):
        assert [(await device.message()).payload for _ in range(2)] == [b"0", b"1"]
        await device.silent()
