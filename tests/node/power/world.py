"""One node, its clients and its batches over many lives, some of which end with a power failure.

The clients are MQTT clients: `w` publishes with QoS 1 and 2, `a` reads with QoS 1 or 2, `b` and `c` share a
subscription. A producer releases batches of rows. What each of them saw is kept here over all lives, and judged at the
end (`World.judge`) by what the node's journal has then.
"""

import asyncio
import contextlib
import shutil
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from antecede import Node
from antecede.core.errors import AntecedeError
from antecede.node.bulk.releasing import Releases
from antecede.node.bulk.staging import Producer
from antecede.wire.bulk import Row, encode_rows
from antecede.wire.mqtt.packets import (
    V5,
    Connack,
    Connect,
    Disconnect,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Wanted,
)
from antecede.wire.mqtt.properties import Properties
from tests.client.running import until
from tests.node.mqtt.devices import Device
from tests.node.power.disk import Disk, Watch

KEPT: Final = Properties(session_expiry_s=600)
PRODUCER: Final = Producer("", "job")
#: Rows of a batch, and of one block of it.
ROWS, BLOCK_ROWS = 30, 5


class Given(NamedTuple):
    """A message that a client was given."""

    payload: str
    #: Counts the connections of the client.
    connection: int


class Reader:
    """An MQTT client that reads one subscription, over all its connections."""

    def __init__(self, name: str, pattern: str, qos: int) -> None:
        self.name, self.pattern, self.qos = name, pattern, qos
        self.given: list[Given] = []
        #: Messages behind this position of the journal are owed to it.
        self.since = 0
        self.connections = 0
        #: Does it acknowledge what it is given?
        self.acknowledges = True
        self._device: Device | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        return self._device is not None

    async def connect(self, node: Node) -> None:
        """Connect; subscribe, if its node does not know of the subscription (any more)."""
        assert node.mqtt is not None
        session = node.mqtt.sessions.get(self.name)
        known = session is not None and session.subscriptions.get(self.pattern) is not None
        device = await Device.dial(node, V5)
        device.write(Connect(client_id=self.name, clean_start=False, properties=KEPT))
        assert not (await device.expect(Connack)).reason
        if not known:
            device.write(Subscribe(packet_id=1, wanted=(Wanted(pattern=self.pattern, qos=self.qos),)))
            await device.find(Suback)  # a group may give messages before
            self.since = node.hub.position
        self._device, self.connections = device, self.connections + 1
        self._task = asyncio.create_task(self._read(device))

    async def _read(self, device: Device) -> None:
        while (packet := await device.next()) is not None:
            if isinstance(packet, Publish):
                self.given.append(Given(packet.payload.decode(), self.connections))
                if packet.qos == 1 and self.acknowledges:
                    device.write(Puback(packet_id=packet.packet_id))
                elif packet.qos == 2 and self.acknowledges:
                    device.write(Pubrec(packet_id=packet.packet_id))
            elif isinstance(packet, Pubrel):
                device.write(Pubcomp(packet_id=packet.packet_id))

    async def leave(self, *, politely: bool) -> None:
        if self._device is not None and self._task is not None:
            if politely:
                self._device.write(Disconnect())
                with contextlib.suppress(TimeoutError):
                    await self._task
            self._device.cut()
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._device = self._task = None


class World:
    """Everything, over all lives. `rng` decides all that is drawn."""

    def __init__(self, base: Path, rng: Random, watch: Watch) -> None:
        self.base, self.rng, self.watch = base, rng, watch
        self.home = base / "0"
        self.lives = 0
        self.node: Node
        self.on = True
        qos = rng.choice((1, 2))
        self.readers = [Reader("a", "t/#", qos), Reader("b", "$share/g/s", 2), Reader("c", "$share/g/s", 2)]
        self._writer: Device | None = None
        self._numbers = 0
        self._ids = 0
        #: QoS 2 exchanges of `w` that are not complete: topic and payload by identifier.
        self.open: dict[int, tuple[str, str]] = {}
        #: Published with QoS 2, and complete in this life.
        self.complete: set[str] = set()
        #: The node has forgotten the session of `w` at least once: QoS 2 may be twice.
        self.forgotten = False
        self.batch = 0
        self.done: set[int] = set()
        self._release: asyncio.Task[object] | None = None
        #: What happened, for the report of a failure.
        self.story: list[str] = []

    # -- lives ---------------------------------------------------------------------------------------------------------

    async def start(self, *, mqtt: bool) -> None:
        self.lives += 1
        self.on = mqtt
        if self.watch.disk is None or self.watch.disk.home != self.home:
            self.watch.disk = Disk(self.home)
        more = {"mqtt_port": 0} if mqtt else {}
        self.node = Node(port=0, directory=self.home, **more)
        await self.node.start()
        assert self.node.journal is not None
        begun = self.node.journal.begun_at
        self.story.append(f"life {self.lives} from {begun}{'' if mqtt else ', without MQTT'}")
        for reader in self.readers:
            reader.since = min(reader.since, begun)

    async def end(self, how: str) -> None:
        """`how`: "power", "kill" or "stop"."""
        self.story.append(f"{how} at {self.node.hub.position}")
        failed = self.base / str(self.lives)
        assert self.watch.disk is not None
        if how == "power":
            self.watch.disk.fail(failed, self.rng)
            self.complete.clear()
            self.done.clear()
            self.watch.disk = None
        if how == "stop":
            await self.node.stop()
        else:
            self.node.abort()
        for reader in self.readers:
            await reader.leave(politely=False)
        if self._writer is not None:
            self._writer.cut()
            self._writer = None
        if self._release is not None:
            self._release.cancel()
            await asyncio.gather(self._release, return_exceptions=True)
            self._release = None
        if how == "power":
            shutil.rmtree(self.home, ignore_errors=True)  # threads of the node that was cut off may still write there
            self.home = failed
        else:  # a later failure finds nothing older than this
            self.watch.disk = Disk(self.home)

    # -- what happens in a life ----------------------------------------------------------------------------------------

    async def writer(self) -> Device:
        """The connection of `w`. What is not complete is sent again, as every client does."""
        if self._writer is None:
            assert self.node.mqtt is not None
            device = self._writer = await Device.dial(self.node, V5)
            device.write(Connect(client_id="w", clean_start=False, properties=KEPT))
            present = (await device.expect(Connack)).session_present
            self.forgotten |= not present and self.lives > 1
            for number, (topic, payload) in list(self.open.items()):
                device.write(Publish(topic=topic, payload=payload.encode(), qos=2, packet_id=number, dup=present))
                await self._finish(device, number)
        return self._writer

    async def _finish(self, device: Device, number: int) -> None:
        while (packet := await device.next()) is not None:
            if isinstance(packet, Pubrec) and packet.packet_id == number:
                break
        assert isinstance(packet, Pubrec)
        assert not packet.reason.failed, packet
        device.write(Pubrel(packet_id=number))
        assert (await device.expect(Pubcomp)).packet_id == number
        self.complete.add(self.open.pop(number)[1])

    async def publish(self, topic: str, qos: int, *, retain: bool = False, unfinished: bool = False) -> None:
        device = await self.writer()
        self._numbers += 1
        payload = f"{self._numbers}"
        if qos < 2:
            # Above the identifiers of QoS 2.
            device.write(Publish(topic=topic, payload=payload.encode(), qos=1, packet_id=60_000, retain=retain))
            assert (await self._next(device, Puback)).packet_id == 60_000
            return
        # A small set of identifiers, each of which soon means another message. One that is sent again after a power
        # failure has an identifier of its own: a node that has forgotten a PUBREL could not tell the two apart.
        self._ids += 1
        number = self._ids + 8 if unfinished else self._ids % 8 + 1
        self.open[number] = (topic, payload)
        device.write(Publish(topic=topic, payload=payload.encode(), qos=2, packet_id=number, retain=retain))
        if not unfinished:
            await self._finish(device, number)

    async def _next(self, device: Device, kind: type[Puback]) -> Puback:
        while (packet := await device.next()) is not None:
            if isinstance(packet, kind):
                return packet
        raise AssertionError("the connection of the writer ended")

    async def forget_retained(self, topic: str) -> None:
        device = await self.writer()
        device.write(Publish(topic=topic, payload=b"", qos=1, packet_id=60_001, retain=True))
        assert (await self._next(device, Puback)).packet_id == 60_001

    def rows(self, batch: int) -> list[str]:
        return [f"{batch}:{row}" for row in range(ROWS)]

    def release(self) -> None:
        """Stage and release the present batch, beside everything else."""
        if self._release is None or self._release.done():
            self._release = asyncio.create_task(self._release_one(self.batch))

    async def _release_one(self, batch: int) -> None:
        releases = self.node.bulk.releases
        assert isinstance(releases, Releases)
        part = f"p{self.lives}-{batch}"
        bodies = self.rows(batch)
        # Some wait for messages that the node publishes a little later.
        own = max([seq for stream, seq in self.node.hub.delivered.items() if stream % 8 == self.node.slot], default=0)
        waits = {self.rng.randrange(ROWS): own + self.rng.randrange(60) for _ in range(self.rng.randrange(3))}
        for index in range(ROWS // BLOCK_ROWS):
            rows = [
                Row("out", bodies[at].encode(), {}, ((self.node.slot, waits[at]),) if waits.get(at) else ())
                for at in range(index * BLOCK_ROWS, (index + 1) * BLOCK_ROWS)
            ]
            await releases.stage("", part, index, BLOCK_ROWS, encode_rows(rows))
        await releases.release(PRODUCER, batch, ((part, ROWS // BLOCK_ROWS),), 60.0)
        self.story.append(f"batch {batch} done")
        self.done.add(batch)
        self.batch = batch + 1

    async def step(self) -> None:
        """Something, drawn."""
        rng = self.rng
        what = rng.random()
        if what < 0.1:
            self.release()
        elif what < 0.2 or not self.on:
            for _ in range(rng.randrange(20)):
                await asyncio.sleep(0)
            if not self.on:
                async with self.node.connect() as bus:
                    self._numbers += 1
                    await bus.publish("x", b"%d" % self._numbers)
        elif what < 0.4:
            reader = rng.choice(self.readers)
            if reader.connected:
                await reader.leave(politely=rng.random() < 0.5)
            else:
                reader.acknowledges = rng.random() < 0.8
                await reader.connect(self.node)
        elif what < 0.5:
            topic = f"r/{rng.randrange(3)}"
            if rng.random() < 0.3:
                await self.forget_retained(topic)
            else:
                await self.publish(topic, 1, retain=True)
        else:
            topic = rng.choice(("t/1", "t/2", "s"))
            await self.publish(topic, rng.choice((1, 2)), unfinished=rng.random() < 0.3)

    # -- the verdict ---------------------------------------------------------------------------------------------------

    async def judge(self) -> None:
        """In a last life: everything is given and released, then compared with the journal."""
        await self.start(mqtt=True)
        await self.writer()
        for reader in self.readers:
            reader.acknowledges = True
            await reader.connect(self.node)
        self.release()
        assert self._release is not None
        last = self.batch
        try:
            async with asyncio.timeout(20):
                while not self._release.done():
                    await self.publish("t/1", 1)  # a row may wait for it
                    await asyncio.sleep(0.001)
        except TimeoutError:
            raise AssertionError(f"batch {last} is stuck: {self._release}") from None
        try:
            self._release.result()
        except AntecedeError as error:
            raise AssertionError(f"batch {last} failed: {error}") from error
        journal = await self._journal()
        for reader in self.readers[:1]:
            await self._all_given({one.name for one in [reader]}, "t/", reader.since, journal)
        group = self.readers[1:]
        await self._all_given({one.name for one in group}, "s", max(one.since for one in group), journal)
        self._in_order(journal)
        self._batches(journal)
        counts = Counter(payload for _, topic, payload in journal if topic[0] in "ts")
        lost = self.complete - counts.keys()
        assert not lost, f"{lost} published with QoS 2 since the last failure, and not in the journal"
        if not self.forgotten:
            twice = [payload for payload, count in counts.items() if count > 1]
            assert not twice, f"{twice} published twice"
        await self._retained(journal)
        await self.end("stop")

    async def _journal(self) -> list[tuple[int, str, str]]:
        """Position, topic and payload of all that the node has delivered."""
        assert self.node.mqtt is not None
        assert self.node.journal is not None
        found: list[tuple[int, str, str]] = []
        position = 0
        while position < self.node.hub.position:
            page = await self.node.journal.read(position)
            for item in page.items:
                opened = self.node.mqtt.opened_messages.open(item.position, item.message.payload)
                assert opened is not None
                found.append((item.position, opened.topic, opened.payload.decode()))
            position = page.position
        return found

    async def _all_given(self, names: set[str], topic: str, since: int, journal: list[tuple[int, str, str]]) -> None:
        owed = {payload: at for at, named, payload in journal if named.startswith(topic) and at > since}
        readers = [one for one in self.readers if one.name in names]

        def missing() -> dict[str, int]:
            had = {given.payload for reader in readers for given in reader.given}
            return {payload: at for payload, at in owed.items() if payload not in had}

        try:
            await until(lambda: not missing(), 10)
        except TimeoutError:
            raise AssertionError(f"{sorted(names)} were not given {missing()} behind {since}") from None

    def _in_order(self, journal: list[tuple[int, str, str]]) -> None:
        """What a client is given for the first time comes in the order of the journal, within a connection.

        A message with QoS 2 is there twice if the node forgot the session of `w` (`forgotten`): either may come first.
        """
        places: dict[str, list[int]] = {}
        for position, _, payload in journal:
            places.setdefault(payload, []).append(position)
        for reader in self.readers[:1]:
            known: set[str] = set()
            reached = (0, 0)
            for given in reader.given:
                if given.payload not in known and given.payload in places:
                    now = [(given.connection, position) for position in places[given.payload]]
                    behind = [one for one in now if one > reached]
                    assert behind, f"{reader.name} was given {given} behind {reached}, and it is at {now}"
                    reached = behind[0]
                known.add(given.payload)

    def _batches(self, journal: list[tuple[int, str, str]]) -> None:
        """Every row of every batch that was done once, in order."""
        found = [payload for _, topic, payload in journal if topic == "out"]
        twice = [row for row, count in Counter(found).items() if count > 1]
        assert not twice, f"rows {twice} were published twice"
        for batch in range(self.batch):
            rows = [row for row in found if row.startswith(f"{batch}:")]
            assert rows == self.rows(batch), f"batch {batch} is {rows}"
        assert found == [row for batch in range(self.batch) for row in self.rows(batch)]

    async def _retained(self, journal: list[tuple[int, str, str]]) -> None:
        wanted = {topic: payload for _, topic, payload in journal if topic.startswith("r/")}
        wanted = {topic: payload for topic, payload in wanted.items() if payload}
        async with Device.open(self.node, "new") as device:
            await device.subscribe("r/+")
            found = {}
            for _ in wanted:
                message = await device.message()
                found[message.topic] = message.payload.decode()
            await device.silent()
        assert found == wanted
