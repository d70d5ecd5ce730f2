"""Sessions that move between the nodes of a cluster: QoS 1 and 2 messages are not lost on the way."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antecede import Node
from antecede.node.mqtt import keeping, session
from antecede.node.mqtt.keeping import CARDS
from antecede.node.mqtt.moving import card_topic, read_card
from antecede.node.mqtt.store import Card
from antecede.wire.mqtt.envelopes import publisher_tag
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
from antecede.wire.mqtt.reasons import Reason
from tests.client.running import awaited, until
from tests.node.clusters import cluster, restart
from tests.node.mqtt.devices import Device, mqtt_node

KEPT = Properties(session_expiry_s=600)


def card_at(node: Node, client_id: str) -> Card | None:
    assert node.mqtt is not None
    row = node.mqtt.keeper.retained.get(card_topic(publisher_tag(client_id)))
    return None if row is None else read_card(row.message.payload)


async def until_card(node: Node, fits: Callable[[Card], bool]) -> None:
    """The node knows a card of the session of `a` that fits."""
    await until(lambda: (card := card_at(node, "a")) is not None and fits(card))


async def away(device: Device, *, at: Node, known_by: Node) -> None:
    """Disconnect in order, and wait until the other node knows."""
    device.write(Disconnect())
    await device.ended()
    await until_card(known_by, lambda card: card.slot == at.slot and card.left_s is not None)


PARTITIONED: dict[str, Any] = {"mqtt_port": 0, "partitions": 8, "replicas": 1, "linger_s": 0.3}


@asynccontextmanager
async def home_and_node(base: Path) -> AsyncIterator[tuple[Node, Node, str]]:
    """Two nodes with partitions, and a topic that the second takes only while a client of it wants it."""
    async with cluster(2, base, **PARTITIONED) as (home, node):
        await until(lambda: len(home.taking.homes) + len(node.taking.homes) == 8)
        of, cards = home.partitions.of, home.partitions.of_filter(f"{CARDS}#")
        yield home, node, next(f"t/{number}" for number in range(99) if of(f"t/{number}") in home.taking.homes - cards)


@awaited
async def test_a_session_goes_on_at_another_node(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Subscriptions, messages that wait, exchanges that are not complete, with their identifiers: there and back."""
    async with (
        cluster(2, tmp_path_factory.mktemp("c"), mqtt_port=0) as (here, there),
        Device.open(there, "w") as writer,
    ):
        async with Device.open(here, "a", properties=KEPT) as device:
            await device.subscribe("t/#", qos=2, properties=Properties(subscription_ids=(7,)))
            for number in range(4):
                await writer.publish(f"t/{number}", b"%d" % number, 2 if number else 1)
            first = [await device.expect(Publish) for _ in range(4)]
            device.write(Puback(packet_id=first[0].packet_id))
            device.write(Pubrec(packet_id=first[1].packet_id))
            await device.expect(Pubrel)
            device.write(Publish(topic="own", payload=b"once", qos=2, packet_id=50))
            await device.find(Pubrec)
            await away(device, at=here, known_by=there)
        await writer.publish("t/4", b"4", 1)
        await writer.publish("t/5", b"5", 0)
        async with Device.open(there, "a", clean_start=False, properties=KEPT) as device:
            assert device.connack.session_present
            assert (await device.expect(Pubrel)).packet_id == first[1].packet_id
            again = [await device.expect(Publish) for _ in range(2)]
            assert [(one.payload, one.dup) for one in again] == [(b"2", True), (b"3", True)]
            assert [one.packet_id for one in again] == [one.packet_id for one in first[2:]]
            assert {one.properties.subscription_ids for one in again} == {(7,)}
            device.write(Publish(topic="own", payload=b"once", qos=2, packet_id=50, dup=True))
            device.write(Pubrel(packet_id=50))
            await device.find(Pubrec)
            assert not (await device.find(Pubcomp)).reason
            device.write(Pubcomp(packet_id=first[1].packet_id))
            for one in again:
                device.write(Pubrec(packet_id=one.packet_id))
                await device.expect(Pubrel)
                device.write(Pubcomp(packet_id=one.packet_id))
            four = await device.message()
            assert (four.payload, four.dup) == (b"4", False)
            await writer.publish("t/6", b"6", 1)
            assert (await device.message()).payload == b"6"
            assert here.mqtt is not None
            await until(lambda: here.mqtt is not None and "a" not in here.mqtt.sessions)
            await away(device, at=there, known_by=here)
        await writer.publish("t/7", b"7", 2)
        async with Device.open(here, "a", clean_start=False, properties=KEPT) as device:
            assert device.connack.session_present
            assert (await device.message()).payload == b"7"
            await device.silent()


@awaited
async def test_a_connection_at_another_node_takes_over() -> None:
    """[MQTT-3.1.4-3]; and Clean Start there ends the session here ([MQTT-3.1.2-4])."""
    async with cluster(2, mqtt_port=0) as (here, there):
        for clean, expiry_s in ((False, 600), (True, 600), (True, 0)):
            async with Device.open(here, "a", clean_start=True, properties=KEPT) as old:
                await old.subscribe("t", qos=1)
                await until_card(there, lambda card: card.slot == here.slot and bool(card.subscriptions))
                properties = Properties(session_expiry_s=expiry_s)
                async with Device.open(there, "a", clean_start=clean, properties=properties) as new:
                    assert new.connack.session_present is not clean
                    assert (await old.expect(Disconnect)).reason is Reason.SESSION_TAKEN_OVER
                    await old.ended()
                    await new.silent()
                    new.write(Disconnect(properties=Properties(session_expiry_s=0)))
                    await new.ended()
            await until(lambda: card_at(here, "a") is None and card_at(there, "a") is None)


@awaited
async def test_a_subscription_at_once_does_not_pass_over_messages(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A client that comes back and subscribes before the node has read what is under way loses nothing."""
    async with mqtt_node(tmp_path_factory.mktemp("n")) as node, Device.open(node, "w") as writer:
        async with Device.open(node, "a", properties=KEPT) as device:
            await device.subscribe("t", qos=1)
            await writer.publish("t", b"0", 1)
            await device.expect(Publish)
        await until(lambda: node.mqtt is not None and node.mqtt.sessions.connected == 1)
        await writer.publish("t", b"1", 1)
        device = await Device.dial(node, V5)
        device.write(Connect(client_id="a", clean_start=False, properties=KEPT))
        device.write(Subscribe(packet_id=9, wanted=(Wanted(pattern="u", qos=1),)))
        assert (await device.expect(Connack)).session_present
        await device.find(Suback)
        assert [(await device.message()).payload for _ in range(2)] == [b"0", b"1"]


@awaited
async def test_nothing_is_lost_when_the_node_is_killed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The other nodes have the last card: what the client was given since then comes again."""
    async with cluster(3, tmp_path_factory.mktemp("c"), mqtt_port=0) as nodes:
        killed, there = nodes[2], nodes[1]
        async with Device.open(there, "w") as writer, Device.open(killed, "a", properties=KEPT) as device:
            await writer.publish("t", b"before", 1)
            await device.subscribe("t", qos=1)
            await until_card(there, lambda card: bool(card.subscriptions))
            for number in range(3):
                await writer.publish("t", b"%d" % number, 1)
            assert (await device.message()).payload == b"0"
            killed.abort()
            while await device.next() is not None:
                pass
            await writer.publish("t", b"3", 1)
            async with Device.open(there, "a", clean_start=False, properties=KEPT) as moved:
                assert moved.connack.session_present
                assert [(await moved.message()).payload for _ in range(4)] == [b"0", b"1", b"2", b"3"]
                await moved.silent()


@awaited
async def test_a_node_that_lacks_the_partitions_has_them_given_by_others(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Messages that this node did not deliver at any position reach the client, too."""
    base = tmp_path_factory.mktemp("c")
    async with (
        cluster(4, base, mqtt_port=0, partitions=8, replicas=2) as (here, _, there, other),
        Device.open(other, "w") as writer,
    ):
        async with Device.open(here, "a", properties=KEPT) as device:
            await device.subscribe("t/#", "u/+", qos=2)
            for number in range(8):
                if number == 4:
                    for one in [await device.expect(Publish) for _ in range(4)][:1]:
                        device.write(Puback(packet_id=one.packet_id))
                    await away(device, at=here, known_by=there)
                await writer.publish(f"{'tu'[number % 2]}/{number}", b"%d" % number, 1)
        async with Device.open(there, "a", clean_start=False, properties=KEPT) as device:
            assert device.connack.session_present
            found = {(await device.message()).payload for _ in range(7)}
            assert found == {b"%d" % number for number in range(1, 8)}


@awaited
async def test_a_client_moves_from_a_node_whose_clock_is_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the former node would take the session back, and end every connection at the new one."""
    async with cluster(2, mqtt_port=0) as (here, there):
        for clean in (False, True):
            wall_s = time.time
            with monkeypatch.context() as ahead:
                ahead.setattr(session.time, "time", lambda wall_s=wall_s: wall_s() + 3600)
                device = await Device.dial(here, V5)
                device.write(Connect(client_id="a", clean_start=True, properties=KEPT))
                await device.expect(Connack)
                await device.subscribe("t", qos=1)
                await until_card(there, lambda card: card.slot == here.slot and bool(card.subscriptions))
            async with Device.open(there, "a", clean_start=clean, properties=KEPT) as moved:
                assert (await device.expect(Disconnect)).reason is Reason.SESSION_TAKEN_OVER
                await until_card(here, lambda card: card.slot == there.slot)
                await moved.silent()
            device.cut()


@pytest.mark.parametrize(("moved", "killed"), [(True, False), (True, True), (False, False), (False, True)])
@awaited
async def test_a_client_that_leaves_amid_a_past_from_another_node_goes_on_behind_what_it_has(
    moved: bool, killed: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its node took the partition later, or again. Nothing that was acknowledged comes again, and nothing before."""
    base, few = tmp_path_factory.mktemp("c"), Properties(session_expiry_s=600, receive_maximum=3)
    more = {"mqtt_port": 0, "partitions": 8, "replicas": 1, "linger_s": 0.5}
    async with cluster(2, base, **more) as (here, second):
        there = second
        await until(lambda: len(here.taking.homes) + len(there.taking.homes) == 8)
        cards = here.partitions.of_filter(f"{CARDS}#")
        mine = [f"t/{number}" for number in range(99) if here.partitions.of(f"t/{number}") in here.taking.homes - cards]
        async with Device.open(here, "w") as writer:
            await writer.publish(mine[0], b"before", 1)
            async with Device.open(here if moved else there, "a", properties=KEPT) as device:
                await device.subscribe(mine[0], qos=1)
                await writer.publish(mine[0], b"0", 1)
                assert (await device.message()).payload == b"0"
                await away(device, at=here if moved else there, known_by=there if moved else here)
            await until(lambda: not second.process.wants(second.partitions.names[second.partitions.of(mine[0])]))
            for number in range(1, 12):
                await writer.publish(mine[0], b"%d" % number, 1)
            acknowledged = 1
            for life in range(3):
                async with Device.open(there, "a", clean_start=False, properties=few) as device:
                    assert device.connack.session_present
                    for _ in range(3):
                        packet = await device.expect(Publish)
                        assert int(packet.payload) == acknowledged
                        if life != 1:
                            device.write(Puback(packet_id=packet.packet_id))
                        acknowledged += 1
                    if life == 1:
                        acknowledged -= 3
                    await until_under_way(there, [acknowledged, acknowledged + 1, acknowledged + 2])
                if killed:
                    assert there.mqtt is not None
                    kept = asyncio.Event()
                    there.mqtt.keeper.when_kept(kept.set)
                    await kept.wait()
                    there.abort()
                    there = await restart(there, base, here, **more)
            await writer.publish(mine[0], b"12", 1)
            async with Device.open(there, "a", clean_start=False, properties=KEPT) as device:
                found = []
                while b"12" not in found:
                    found.append((await device.message()).payload)
            assert found == [b"%d" % number for number in range(acknowledged, 13)]
        if killed:
            await there.stop()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("other", [False, True])
@awaited
async def test_a_subscription_at_a_node_that_does_not_keep_its_topic(
    shared: bool, other: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nothing from before the subscription is given, and each later message once, though the node comes and goes.

    `other`: the node has delivered a message of another topic, so its position says something.
    """
    async with home_and_node(tmp_path_factory.mktemp("c")) as (home, node, topic):
        of = home.partitions.of
        never = home.taking.homes - home.partitions.of_filter(f"{CARDS}#") - {of(topic)}
        second = next(f"t/{number}" for number in range(99) if of(f"t/{number}") in never)
        mine = next(f"t/{number}" for number in range(99) if of(f"t/{number}") in node.taking.homes)

        async def until_left() -> None:
            await until(lambda: not node.process.wants(node.partitions.names[of(topic)]))

        async with Device.open(home, "w") as writer, Device.open(node, "v") as local:
            for _ in range(3):
                await writer.publish(topic, b"before", 1)
                await writer.publish(second, b"before", 1)
            if other:
                await local.publish(mine, b"x", 1)
                await until(lambda: node.hub.position > 0)
            async with Device.open(node, "a", properties=KEPT) as device:
                await device.subscribe(f"$share/g/{topic}" if shared else topic, qos=1)
                await writer.publish(topic, b"new", 1)
                assert (await device.message()).payload == b"new"
                await device.silent()
            # A second subscription: the node takes the partition for it, behind no delivery since.
            async with Device.open(node, "b", properties=KEPT) as device:
                await device.subscribe(mine, qos=1)
                await device.subscribe(second, qos=1)
            async with Device.open(node, "b", clean_start=False, properties=KEPT) as device:
                await device.silent()
                await writer.publish(second, b"new", 1)
                assert (await device.message()).payload == b"new"
                await device.silent()
            for number in range(2):
                await until_left()
                await writer.publish(topic, b"%d" % number, 1)
                async with Device.open(node, "a", clean_start=False, properties=KEPT) as device:
                    assert (await device.message()).payload == b"%d" % number
                    await device.silent()
                async with Device.open(node, "a", clean_start=False, properties=KEPT) as device:
                    await device.silent()


@awaited
async def test_a_session_that_has_just_come_is_kept_before_its_former_node_forgets_it(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new node is killed as soon as the former one knows."""
    base = tmp_path_factory.mktemp("c")
    async with cluster(2, base, mqtt_port=0) as (here, there):
        monkeypatch.setattr(keeping, "_GATHER_S", 3600.0)
        async with Device.open(here, "a", properties=KEPT) as device:
            await device.subscribe("t", qos=1)
            await away(device, at=here, known_by=there)
        async with Device.open(there, "a", clean_start=False, properties=KEPT) as device:
            assert device.connack.session_present
            await until(lambda: here.mqtt is not None and "a" not in here.mqtt.sessions)
            assert there.mqtt is not None
            moved = there.mqtt.sessions.get("a")
            there.abort()
        again = await restart(there, base, here, mqtt_port=0)
        assert again.mqtt is not None
        restored = again.mqtt.sessions.get("a")
        assert moved is not None
        assert restored is not None
        assert restored.connected_s == moved.connected_s  # an older card would end it
        async with Device.open(again, "a", clean_start=False, properties=KEPT) as device:
            assert device.connack.session_present
        await again.stop()


@awaited
async def test_what_a_node_published_without_taking_the_partition_is_given_after_a_restart(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The node took the partition for a client, left it, published there, and was killed before it took it again."""
    base = tmp_path_factory.mktemp("c")
    async with home_and_node(base) as (home, node, topic):
        of = home.partitions.of
        mine = next(f"t/{number}" for number in range(99) if of(f"t/{number}") in node.taking.homes)
        async with Device.open(node, "w") as writer:
            await writer.publish(mine, b"x", 1)  # so the session has a position
            async with Device.open(node, "a", properties=KEPT) as device:
                await device.subscribe(mine, topic, qos=1)
                await writer.publish(mine, b"0", 1)
                assert (await device.message()).payload == b"0"
                await away(device, at=node, known_by=home)
            await until(lambda: not node.process.wants(node.partitions.names[of(topic)]))
            for number in range(1, 4):
                await writer.publish(topic, b"%d" % number, 1)
            written = asyncio.Event()
            assert node.mqtt is not None
            node.mqtt.keeper.when_kept(written.set)
            await written.wait()
        node.abort()
        again = await restart(node, base, home, **PARTITIONED)
        async with Device.open(again, "a", clean_start=False, properties=KEPT) as device:
            assert {(await device.message()).payload for _ in range(3)} == {b"1", b"2", b"3"}
            await device.silent()
        await again.stop()


@awaited
async def test_messages_that_wait_at_no_position_leave_the_place_of_their_group(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The node took the partition again, and got them from the home. Its member leaves before it is given them."""
    few = Properties(session_expiry_s=600, receive_maximum=1)
    async with home_and_node(tmp_path_factory.mktemp("c")) as (home, node, topic):
        of = home.partitions.of
        async with Device.open(home, "w") as writer:
            async with Device.open(node, "a", properties=few) as device:
                await device.subscribe(f"$share/g/{topic}", qos=1)
                await writer.publish(topic, b"before", 1)
                assert (await device.message()).payload == b"before"
                await device.silent()
            await until(lambda: not node.process.wants(node.partitions.names[of(topic)]))
            for number in range(4):
                await writer.publish(topic, b"%d" % number, 1)
            found = []
            for _ in range(2):
                async with Device.open(node, "a", clean_start=False, properties=few) as device:
                    found.append((await device.expect(Publish)).payload)
                    await device.silent()
                assert node.mqtt is not None
                session = node.mqtt.sessions.get("a")
                assert session is not None
                await until(lambda session=session: session.connection is None)
                assert session.groups[f"$share/g/{topic}"].position >= 0
            assert found == [b"0", b"0"]
            async with Device.open(node, "a", clean_start=False, properties=few) as device:
                assert [(await device.message()).payload for _ in range(4)] == [b"0", b"1", b"2", b"3"]
                await device.silent()


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("behind", [False, True])
@awaited
async def test_a_second_subscription_gives_nothing_from_before_it(
    behind: bool, moved: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its node takes the partition for it. `behind`: the client has not acknowledged what it was given before."""
    few = Properties(session_expiry_s=600, receive_maximum=1)
    async with home_and_node(tmp_path_factory.mktemp("c")) as (home, node, topic):
        of = home.partitions.of
        mine = next(f"t/{number}" for number in range(99) if of(f"t/{number}") in node.taking.homes)
        async with Device.open(home, "w") as writer, Device.open(node, "v") as local:
            for _ in range(3):
                await writer.publish(topic, b"before", 1)
            async with Device.open(node, "a", properties=few) as device:
                await device.subscribe(mine, qos=1)
                for number in range(3 if behind else 0):
                    await local.publish(mine, b"%d" % number, 1)
                if behind:
                    assert (await device.expect(Publish)).payload == b"0"
                await device.subscribe(topic, qos=1)
                # The client is quicker than the news that it left.
                await until_card(home, lambda card: {one.pattern for one in card.subscriptions} == {mine, topic})
                async with Device.open(home if moved else node, "a", clean_start=False, properties=KEPT) as again:
                    assert again.connack.session_present
                    found = [(await again.message()).payload for _ in range(3 if behind else 0)]
                    assert sorted(found) == [b"0", b"1", b"2"][: len(found)]
                    await again.silent()
                    await writer.publish(topic, b"new", 1)
                    assert (await again.message()).payload == b"new"
                    await again.silent()


async def until_under_way(node: Node, payloads: list[int]) -> None:
    """The client `a` is to acknowledge these."""
    found = None if node.mqtt is None else node.mqtt.sessions.get("a")
    assert found is not None
    flights = found.outgoing
    await until(lambda: [int(one.message.message.payload) for one in flights if one.message.message] == payloads)
