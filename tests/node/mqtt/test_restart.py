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
                assert node.mqtt is not None
                kept = asyncio.Event()
                node.mqtt.keeper.when_kept(kept.set)
                await kept.wait()
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
