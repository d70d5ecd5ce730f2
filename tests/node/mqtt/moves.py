"""Two MQTT clients over two nodes that share the homes of eight partitions, for a search (`test_moves.py`).

The clients come and go, at either node. The nodes take and leave partitions for them, and are killed. Every message is
published with QoS 1 by a writer that stays at its node, one after the other, so that what a client is owed is known.
"""

import asyncio
import contextlib
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from antecede import Node
from antecede.core.partitions import split_stream
from antecede.node.mqtt.keeping import CARDS
from antecede.wire.mqtt.packets import (
    V5,
    Connack,
    Connect,
    Disconnect,
    Puback,
    Publish,
    Subscribe,
    Wanted,
)
from antecede.wire.mqtt.properties import Properties
from antecede.wire.topics import TopicFilter
from tests.client.running import until
from tests.node.clusters import make, restart
from tests.node.mqtt.devices import Device
from tests.node.mqtt.test_moving import card_at

#: Partitions, each with one home; and how soon a node leaves one that it does not need.
SETTINGS: Final = {"mqtt_port": 0, "partitions": 8, "replicas": 1, "linger_s": 0.15}


class Published(NamedTuple):
    """A message. Its payload is its place in the list of all."""

    topic: str
    node: int


class Mover:
    """One client: what it is owed, what it may be given, and what it was given."""

    def __init__(self, name: str) -> None:
        self.name = name
        #: By filter: messages that may be given to it begin here, and those that must be.
        self.since: dict[str, int] = {}
        self.owes: dict[str, int] = {}
        self.given: list[int] = []
        #: Acknowledged, and known to be at every node: never to be given again.
        self.settled: set[int] = set()
        self.open: set[int] = set()
        #: Given in this connection.
        self.lately: set[int] = set()
        #: The node that has its session; None: no session.
        self.at: int | None = None
        self.device: Device | None = None
        self.acknowledges = True
        #: What was given for the first time in this connection, by node of its publisher: the last message.
        self.reached: dict[int, int] | None = None
        self.wrong: list[str] = []
        self._task: asyncio.Task[None] | None = None

    async def connect(self, node: Node, at: int, published: list[Published], *, clean: bool, window: int) -> bool:
        """Connect; was there a session?"""
        device = await Device.dial(node, V5)
        properties = Properties(session_expiry_s=600, receive_maximum=window)
        device.write(Connect(client_id=self.name, clean_start=clean, properties=properties))
        present = (await device.expect(Connack)).session_present
        if not present:
            self.since, self.owes, self.open = {}, {}, set()
        self.device, self.at, self.lately = device, at, set()
        # What was under way to the client may come in another order (docs/mqtt.md).
        self.reached = None if self.open else {}
        self._task = asyncio.create_task(self._read(device, published))
        return present

    async def _read(self, device: Device, published: list[Published]) -> None:
        while (packet := await device.next()) is not None:
            if not isinstance(packet, Publish):
                self._suback.set_result(None)
                continue
            number = int(packet.payload)
            topic, node = published[number]
            if not any(number >= since and TopicFilter(one).matches(topic) for one, since in self.since.items()):
                self.wrong.append(f"{number} on {topic} was published before the subscription")
            if number in self.settled:
                self.wrong.append(f"{number} came again")
            if self.reached is not None and number not in self.given:
                if number < self.reached.get(node, -1):
                    self.wrong.append(f"{number} came behind {self.reached[node]}")
                self.reached[node] = max(number, self.reached.get(node, -1))
            self.given.append(number)
            self.lately.add(number)
            self.open.add(number)
            if self.acknowledges:
                device.write(Puback(packet_id=packet.packet_id))
                self.open.discard(number)

    async def subscribe(self, pattern: str, published: list[Published], arrived: int) -> None:
        """`arrived`: so many of the messages were delivered by all nodes that take their partitions."""
        assert self.device is not None
        self._suback: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.since.setdefault(pattern, arrived)
        self.owes.setdefault(pattern, len(published))
        self.device.write(Subscribe(packet_id=1, wanted=(Wanted(pattern=pattern, qos=1),)))
        async with asyncio.timeout(20):
            await self._suback

    async def leave(self, *, politely: bool) -> None:
        if self.device is not None and self._task is not None:
            if politely:
                self.device.write(Disconnect())
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(10):
                        await self._task
            self.device.cut()
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.device = self._task = None

    def owed(self, published: list[Published]) -> set[int]:
        found: set[int] = set()
        for pattern, since in self.owes.items():
            takes = TopicFilter(pattern).matches
            found |= {at for at in range(since, len(published)) if takes(published[at].topic)}
        return found - set(self.given)


class Moves:
    """The cluster, its writers and clients. `rng` decides all that is drawn."""

    def __init__(self, base: Path, rng: Random) -> None:
        self.base, self.rng = base, rng
        self.nodes: list[Node] = []
        self.writers: list[Device | None] = [None, None]
        self.published: list[Published] = []
        self.clients = [Mover("a"), Mover("b")]
        self.story: list[str] = []
        #: So many messages are known to be delivered by all nodes that take their partitions.
        self.arrived = 0

    async def run(self, steps: int) -> None:
        try:
            await self._start()
            for _ in range(steps):
                await self.step()
                self._check()
            await self.judge()
        except BaseException as error:
            error.add_note("; ".join(self.story))
            raise
        finally:
            for client in self.clients:
                await client.leave(politely=False)
            for writer in self.writers:
                if writer is not None:
                    writer.cut()
            async with AsyncExitStack() as stack:
                for node in self.nodes:
                    stack.push_async_callback(node.stop)

    async def _start(self) -> None:
        self.nodes.append(make(0, (), self.base, **SETTINGS))
        await self.nodes[0].start()
        self.nodes.append(make(1, (self.nodes[0].address,), self.base, **SETTINGS))
        await self.nodes[1].start()
        await until(lambda: sum(len(node.taking.homes) for node in self.nodes) == 8)
        of, cards = self.nodes[0].partitions.of, self.nodes[0].partitions.of_filter(f"{CARDS}#")
        self.topics: list[str] = []
        for node in self.nodes:
            homes = node.taking.homes - cards
            self.topics += [f"t/{number}" for number in range(99) if of(f"t/{number}") in homes][:2]

    # -- steps ---------------------------------------------------------------------------------------------------------

    async def step(self) -> None:
        rng, client = self.rng, self.rng.choice(self.clients)
        what = rng.random()
        if what < 0.4:
            await self.publish(rng.randrange(2), rng.choice(self.topics), rng.randrange(1, 5))
        elif what < 0.5 and client.device is not None:
            pattern = rng.choice([*self.topics, "t/#"])
            self.story.append(f"{client.name} takes {pattern}")
            if self._all_arrived():
                self.arrived = len(self.published)
            await client.subscribe(pattern, self.published, self.arrived)
        elif what < 0.55:
            self.story.append("wait")  # partitions are left meanwhile
            await asyncio.sleep(0.35)
        elif what < 0.6:
            await self.kill(rng.randrange(2))
        elif what < 0.7 and client.device is not None:
            await self.given(client)
        elif client.device is None:
            await self.connect(client, rng.randrange(2), clean=rng.random() < 0.1)
        else:
            await self.leave(client, politely=rng.random() < 0.7)

    def _all_arrived(self) -> bool:
        """Have both nodes delivered everything in the partitions that they take?"""
        levels: dict[int, int] = {}
        for node in self.nodes:
            own = {
                node.partitions.stream(name, node.slot): node.process.last_published(name)
                for name in node.partitions.names
            }
            for stream, seq in [*node.hub.delivered.items(), *own.items()]:
                levels[stream] = max(seq, levels.get(stream, 0))
        return all(
            node.hub.delivered.get(stream, 0) >= seq
            for node in self.nodes
            for stream, seq in levels.items()
            if node.taking.takes(split_stream(stream)[0])
        )

    async def publish(self, at: int, topic: str, count: int) -> None:
        writer = self.writers[at]
        if writer is None:
            writer = self.writers[at] = await Device.dial(self.nodes[at], V5)
            writer.write(Connect(client_id=f"w{at}"))
            await writer.expect(Connack)
        first = len(self.published)
        for _ in range(count):
            number = len(self.published)
            self.published.append(Published(topic, at))
            writer.write(Publish(topic=topic, payload=b"%d" % number, qos=1, packet_id=1))
            assert not (await writer.expect(Puback)).reason.failed
        self.story.append(f"{first} to {len(self.published) - 1} on {topic} at {at}")

    async def connect(self, client: Mover, at: int, *, clean: bool = False, acknowledges: bool = False) -> None:
        """`acknowledges`: it does in any case. Else that is drawn."""
        if client.at is not None and not clean:
            # Else it may be quicker than the news of its session.
            try:
                await until(lambda: self._knows(self.nodes[at], client))
            except TimeoutError:
                cards = [card_at(node, client.name) for node in self.nodes]
                sessions = [None if node.mqtt is None else node.mqtt.sessions.get(client.name) for node in self.nodes]
                known = [None if one is None else one.record() for one in sessions]
                raise AssertionError(f"{at} does not know of {client.name}: {cards}; {known}") from None
        client.acknowledges = self.rng.random() < 0.8 or acknowledges
        window = self.rng.choice((2, 3, 100))
        known = client.at is not None and not clean
        present = await client.connect(self.nodes[at], at, self.published, clean=clean, window=window)
        self.story.append(f"{client.name} at {at}, {window} {'' if client.acknowledges else 'not '}acknowledged")
        assert present or not known, "the session is gone"
        if self.rng.random() < 0.7:
            await until(lambda: self._has(self.nodes[at], client))

    def _has(self, node: Node, client: Mover) -> bool:
        """Is its session there, and not about to come there?"""
        session = None if node.mqtt is None else node.mqtt.sessions.get(client.name)
        return session is not None and not session.arriving

    def _caught_up(self, node: Node, client: Mover) -> bool:
        """Was it given everything that its node has for it, and has acknowledged it?"""
        session = None if node.mqtt is None else node.mqtt.sessions.get(client.name)
        feed = None if session is None else session.feed
        if session is None or feed is None or any(True for _ in session.outgoing):
            return False
        return feed.live and not feed.lagging and session.outbox.empty

    def _knows(self, node: Node, client: Mover) -> bool:
        """Does the node have its session, or know the node that has it, with all subscriptions?"""
        if self._has(node, client):
            return True
        card = card_at(node, client.name)
        known = set() if card is None else {one.full for one in card.subscriptions}
        return card is not None and card.slot != node.slot and known >= client.since.keys()

    async def leave(self, client: Mover, *, politely: bool) -> None:
        """`politely`: with everything acknowledged that it was given, and both nodes know."""
        at = client.at
        politely = politely and not client.open and at is not None and self._has(self.nodes[at], client)
        self.story.append(f"{client.name} {'leaves' if politely else 'is cut'}")
        if politely:
            client.acknowledges = False  # behind DISCONNECT it would not count
        # What it was given in an earlier connection may come again if that node was killed (docs/mqtt.md), also later.
        caught_up = at is not None and self._caught_up(self.nodes[at], client)
        settled = set(client.given) if caught_up else set(client.lately)
        await client.leave(politely=politely)
        if politely:
            for node in self.nodes:
                await until(
                    lambda node=node: (  # type: ignore[misc]
                        (card := card_at(node, client.name)) is not None and card.slot == at and card.left_s is not None
                    )
                )
            await _kept(self.nodes[at or 0])
            client.settled |= settled

    async def kill(self, at: int) -> None:
        self.story.append(f"kill {at}")
        for client in self.clients:
            if client.at == at:
                await client.leave(politely=False)
        writer = self.writers[at]
        if writer is not None:
            writer.cut()
            self.writers[at] = None
        self.nodes[at].abort()
        self.arrived = 0
        self.nodes[at] = await restart(self.nodes[at], self.base, self.nodes[1 - at], **SETTINGS)

    async def given(self, client: Mover) -> None:
        """Wait until the client was given all that it is owed."""
        if client.acknowledges:
            self.story.append(f"{client.name} reads")
            try:
                await until(lambda: not client.owed(self.published), 15)
            except TimeoutError:
                node = self.nodes[client.at or 0]
                session = None if node.mqtt is None else node.mqtt.sessions.get(client.name)
                seen = None if session is None else (session.came_from, session.record())
                feed = None if session is None else session.feed
                if feed is not None:
                    seen = (seen, feed.had, feed.live, feed.lagging, feed.position, node.hub.delivered)
                seen = (seen, node.hub.history.gaps)
                raise AssertionError(f"{client.name} was not given {client.owed(self.published)}: {seen}") from None

    def _check(self) -> None:
        for client in self.clients:
            assert not client.wrong, f"{client.name}: {client.wrong}"

    async def judge(self) -> None:
        """Every client is given what it is owed, and no more."""
        for client in self.clients:
            if client.at is not None:
                await client.leave(politely=False)
                # What comes while it does not acknowledge would fill its window for good.
                await self.connect(client, self.rng.randrange(2), acknowledges=True)
                await client.leave(politely=False)
                await self.connect(client, client.at, acknowledges=True)
                await self.given(client)
        await asyncio.sleep(0.05)
        self._check()


async def _kept(node: Node) -> None:
    assert node.mqtt is not None
    written = asyncio.Event()
    node.mqtt.keeper.when_kept(written.set)
    await written.wait()
