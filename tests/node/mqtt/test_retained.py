"""Retained messages, wills with delay, shared subscriptions and $SYS, as clients see them."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from antecede.wire.mqtt.encoding import encode
from antecede.wire.mqtt.packets import V5, V311, Connect, Disconnect, Publish, Subscribe, Wanted, Will
from antecede.wire.mqtt.properties import Properties
from antecede.wire.mqtt.reasons import Reason
from tests.client.running import awaited, until
from tests.node.clusters import cluster, until_all_have
from tests.node.mqtt.devices import Device, mqtt_node

BOTH = pytest.mark.parametrize("version", [V311, V5])
KEPT = Properties(session_expiry_s=600)


@BOTH
@awaited
async def test_a_new_subscription_is_given_what_is_retained(version: int) -> None:
    """[MQTT-3.3.1-5] to [MQTT-3.3.1-8], [MQTT-3.3.1-12]: the last one of each topic, in order, with the flag."""
    async with (
        mqtt_node() as node,
        Device.open(node, "a", version) as writer,
        Device.open(node, "b", version) as reader,
    ):
        for topic, payload, qos in (("r/1", b"old", 0), ("r/2", b"two", 1), ("r/1", b"new", 2), ("r/3", b"x", 1)):
            await writer.publish(topic, payload, qos, retain=True)
        await writer.publish("r/3", b"", 1, retain=True)
        await reader.subscribe("r/#", qos=2)
        found = [await reader.message() for _ in range(2)]
        assert [(one.topic, one.payload, one.qos, one.retain) for one in found] == [
            ("r/2", b"two", 1, True),
            ("r/1", b"new", 2, True),
        ]
        await writer.publish("r/1", b"live", 1, retain=True)
        one = await reader.message()
        assert (one.payload, one.retain) == (b"live", False)
        await reader.silent()


@awaited
async def test_retain_handling_and_retain_as_published() -> None:
    """[MQTT-3.3.1-9] to [MQTT-3.3.1-13]."""
    async with mqtt_node() as node, Device.open(node, "a") as writer, Device.open(node, "b") as reader:
        await writer.publish("r", b"kept", 1, retain=True)
        await reader.subscribe("r", retain_handling=2)
        await reader.silent()
        await reader.subscribe("r", retain_handling=1)  # it exists already
        await reader.silent()
        await reader.subscribe("r", retain_handling=0, retain_as_published=True)
        assert (await reader.message()).payload == b"kept"
        await writer.publish("r", b"more", 1, retain=True)
        one = await reader.message()
        assert (one.payload, one.retain) == (b"more", True)
        await reader.subscribe("+", retain_handling=1)
        assert (await reader.message()).payload == b"more"


@awaited
async def test_retained_messages_wait_for_acknowledgements_over_a_reconnection() -> None:
    """4.1: messages of QoS 1 and 2 that wait for the client belong to its session."""
    one_at_a_time = Properties(session_expiry_s=600, receive_maximum=1)
    async with mqtt_node() as node, Device.open(node, "w") as writer:
        for number in range(3):
            await writer.publish(f"r/{number}", b"%d" % number, 1, retain=True)
        async with Device.open(node, "a", properties=one_at_a_time) as reader:
            await reader.subscribe("r/#", qos=1)
            assert (await reader.expect(Publish)).payload == b"0"
        async with Device.open(node, "a", clean_start=False, properties=one_at_a_time) as reader:
            assert [(await reader.message()).payload for _ in range(3)] == [b"0", b"1", b"2"]


@awaited
async def test_retained_messages_come_behind_those_that_wait_for_the_client() -> None:
    """The client subscribes again with its CONNECT, before its node has read what waits for it."""
    async with mqtt_node() as node, Device.open(node, "w") as writer:
        async with Device.open(node, "a", properties=KEPT) as reader:
            await reader.subscribe("r/#", qos=1)
            reader.write(Disconnect())
            await reader.ended()
        for number in range(3):
            await writer.publish(f"r/{number}", b"%d" % number, 1, retain=number == 2)
        reader = await Device.dial(node)
        connect = Connect(version=V5, client_id="a", clean_start=False, properties=KEPT)
        subscribe = Subscribe(packet_id=1, wanted=(Wanted(pattern="r/#", qos=1),))
        reader.write_bytes(encode(connect, V5) + encode(subscribe, V5))
        found = [await reader.find(Publish) for _ in range(4)]
        reader.cut()
    assert [(one.payload, one.retain) for one in found] == [(b"0", False), (b"1", False), (b"2", False), (b"2", True)]


@awaited
async def test_a_retained_message_expires() -> None:
    """3.3.2.3.3."""
    async with mqtt_node() as node, Device.open(node, "a") as writer, Device.open(node, "b") as reader:
        await writer.publish("r", b"short", 1, retain=True, properties=Properties(message_expiry_s=1))
        await asyncio.sleep(1.1)
        await reader.subscribe("r")
        await reader.silent()


@awaited
async def test_all_nodes_agree_on_what_is_retained() -> None:
    """Concurrent retained messages on one topic: every node keeps the same one, whatever order they came in."""
    async with cluster(3, mqtt_port=0) as nodes, AsyncExitStack() as stack:
        devices = [
            await stack.enter_async_context(Device.open(node, f"d{number}")) for number, node in enumerate(nodes)
        ]
        for _ in range(5):
            await asyncio.gather(
                *[device.publish("r", b"%d" % number, 1, retain=True) for number, device in enumerate(devices)]
            )
        await until_all_have(nodes, 15)
        kept = []
        for node in nodes:
            assert node.mqtt is not None
            row = node.mqtt.keeper.retained.get("r")
            assert row is not None
            kept.append((row.stamp, row.message.payload))
        assert len(set(kept)) == 1


# -- wills -------------------------------------------------------------------------------------------------------------


@awaited
async def test_a_will_waits_for_its_delay() -> None:
    """[MQTT-3.1.3-9]: a client that is back in time has not died."""
    will = Will(topic="w", payload=b"gone", qos=1, retain=True, properties=Properties(will_delay_s=1))
    async with mqtt_node() as node, Device.open(node, "r") as reader:
        await reader.subscribe("w", qos=1)
        async with Device.open(node, "a", properties=KEPT, will=will):
            pass
        async with Device.open(node, "a", clean_start=False, properties=KEPT, will=will):
            await asyncio.sleep(1.7)
            await reader.silent()
        assert (await reader.message()).payload == b"gone"
        await reader.subscribe("w", qos=1)
        assert (await reader.message()).retain


@awaited
async def test_a_will_comes_when_the_session_ends() -> None:
    """3.1.3.2.2: or when the session ends, whichever is first."""
    will = Will(topic="w", payload=b"gone", properties=Properties(will_delay_s=3600))
    async with mqtt_node() as node, Device.open(node, "r") as reader:
        await reader.subscribe("w", qos=1)
        async with Device.open(node, "a", properties=Properties(session_expiry_s=1), will=will):
            pass
        assert (await reader.message()).payload == b"gone"


# -- shared subscriptions ----------------------------------------------------------------------------------------------


@awaited
async def test_a_shared_subscription_gives_each_message_once() -> None:
    """[MQTT-4.8.2-3] and 4.8.2: to one member each, and to ordinary subscribers too."""
    async with (
        mqtt_node() as node,
        Device.open(node, "a") as one,
        Device.open(node, "b") as two,
        Device.open(node, "c") as other,
        Device.open(node, "p") as writer,
    ):
        await one.subscribe("$share/g/t/#", qos=1)
        await two.subscribe("$share/g/t/#", qos=1)
        await other.subscribe("t/#", qos=1)
        for number in range(10):
            await writer.publish("t/1", b"%d" % number, 1)
        every = [(await other.message()).payload for _ in range(10)]
        assert every == [b"%d" % number for number in range(10)]
        shared = [[(await member.message()).payload for _ in range(5)] for member in (one, two)]
        assert sorted(shared[0] + shared[1]) == sorted(every)
        await one.silent()
        await two.silent()


@awaited
async def test_a_shared_message_waits_for_a_member() -> None:
    """A member without a connection is passed over; without any the messages wait."""
    async with mqtt_node() as node, Device.open(node, "p") as writer:
        async with Device.open(node, "a", properties=KEPT) as one:
            await one.subscribe("$share/g/t", qos=1)
            one.write(Disconnect())
            await one.ended()
        await writer.publish("t", b"waits", 1)
        async with Device.open(node, "b") as two:
            await two.subscribe("$share/g/t", qos=1)
            assert (await two.message()).payload == b"waits"
        async with Device.open(node, "a", clean_start=False, properties=KEPT) as one:
            await one.silent()
            await writer.publish("t", b"next", 1)
            assert (await one.message()).payload == b"next"


@awaited
async def test_a_share_name_of_an_old_client() -> None:
    """3.1.1 knows no shared subscriptions: what is no share name is refused, and the connection stays.

    `test_statements_packets` has version 5 ([MQTT-4.8.2-1], [MQTT-4.8.2-2]).
    """
    async with mqtt_node() as node, Device.open(node, "a", V311) as device:
        answer = await device.subscribe("$share/g", "$share//t")
        assert set(answer.reasons) == {Reason.UNSPECIFIED}


# -- $SYS --------------------------------------------------------------------------------------------------------------


@awaited
async def test_sys_topics() -> None:
    async with mqtt_node() as node, Device.open(node, "a") as device:
        await device.subscribe("$SYS/broker/clients/+")
        found = {one.topic: one for one in [await device.message() for _ in range(3)]}
        assert found["$SYS/broker/clients/connected"].payload == b"1"
        assert all(one.retain for one in found.values())
        device.write(Publish(topic="$SYS/broker/clients/connected", payload=b"9"))
        await device.silent()
        assert node.mqtt is not None
        await until(lambda: node.mqtt is not None and len(node.mqtt.sessions) == 1)
