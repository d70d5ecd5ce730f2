"""SUBSCRIBE, UNSUBSCRIBE and shared subscriptions, by their normative statements (3.8 to 3.11, 4.7, 4.8).

Statements are numbered as in version 5, those of 3.1.1 say so.
"""

import asyncio

import pytest

from antecede import Node
from antecede.wire.mqtt.packets import (
    V5,
    V311,
    Disconnect,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Wanted,
)
from antecede.wire.mqtt.properties import Properties
from antecede.wire.mqtt.reasons import Reason
from tests.node.mqtt.devices import Device, fresh, on_shared_node

BOTH = pytest.mark.parametrize("version", [V311, V5])
KEPT = Properties(session_expiry_s=600)


# -- SUBSCRIBE ---------------------------------------------------------------------------------------------------------


@BOTH
@on_shared_node
async def test_the_qos_of_messages(node: Node, version: int) -> None:
    """[MQTT-3.8.4-5] to [MQTT-3.8.4-8], [MQTT-3.9.3-1], [MQTT-3.9.3-2], [MQTT-3.3.2-3].

    3.1.1 [MQTT-3.8.4-4] to [MQTT-3.8.4-6], [MQTT-3.9.3-1], [MQTT-3.9.3-2], [MQTT-3.3.2-3]: one SUBACK with the QoS of
    each filter; a message has the lower QoS of the two.
    """
    topic = fresh("t")
    async with Device.open(node, fresh(), version) as reader, Device.open(node, fresh(), version) as writer:
        wanted = tuple([Wanted(pattern=f"{topic}/{qos}/+", qos=qos) for qos in (2, 0, 1)])
        reader.write(Subscribe(packet_id=77, wanted=wanted))
        answer = await reader.expect(Suback)
        assert (answer.packet_id, answer.reasons) == (77, (Reason(2), Reason(0), Reason(1)))
        for granted in (0, 1, 2):
            for qos in (0, 1, 2):
                await writer.publish(f"{topic}/{granted}/x", b"", qos)
                found = await reader.message()
                assert (found.topic, found.qos) == (f"{topic}/{granted}/x", min(granted, qos))
        await reader.silent()


@BOTH
@on_shared_node
async def test_overlapping_subscriptions(node: Node, version: int) -> None:
    """[MQTT-3.3.4-2], 3.1.1 [MQTT-3.3.5-1]: the highest QoS among them. One copy."""
    topic = fresh("t")
    async with Device.open(node, fresh(), version) as reader:
        for pattern, qos in ((f"{topic}/#", 0), (f"{topic}/+/c", 2), (f"{topic}/b/c", 1), (f"+/b/c/{topic}", 2)):
            await reader.subscribe(pattern, qos=qos)
        async with Device.open(node, fresh(), version) as writer:
            await writer.publish(f"{topic}/b/c", b"", 2)
        assert (await reader.message()).qos == 2
        await reader.silent()


@on_shared_node
async def test_subscription_identifiers(node: Node) -> None:
    """[MQTT-3.3.4-3], [MQTT-3.3.4-4]: those of all that match; the largest is 268,435,455. Retained messages have one.

    [MQTT-3.8.4-3]: a subscription with the same filter replaces its identifier, also by none.
    """
    topic = fresh("t")

    def identifier(number: int) -> Properties:
        return Properties(subscription_ids=(number,))

    async with Device.open(node, fresh()) as device:
        await device.publish(f"{topic}/1", b"kept", 1, retain=True)
        await device.subscribe(f"{topic}/1", properties=identifier(268_435_455))
        assert (await device.message()).properties.subscription_ids == (268_435_455,)
        await device.subscribe(f"{topic}/+", retain_handling=2)
        await device.subscribe(f"{topic}/#", retain_handling=2, properties=identifier(1))
        for replaced, expected in ((None, [1, 268_435_455]), (identifier(7), [1, 7]), (Properties(), [1])):
            if replaced is not None:
                await device.subscribe(f"{topic}/1", retain_handling=2, properties=replaced)
            await device.publish(f"{topic}/1", b"")
            assert sorted((await device.message()).properties.subscription_ids) == expected
        await device.publish(f"{topic}/2", b"")
        assert (await device.message()).properties.subscription_ids == (1,)
        await device.subscribe(f"{topic}/2", properties=identifier(1))  # 3.3.4: the same identifier twice
        await device.publish(f"{topic}/2", b"")
        assert (await device.message()).properties.subscription_ids == (1, 1)


@on_shared_node
async def test_retain_handling(node: Node) -> None:
    """[MQTT-3.3.1-9] to [MQTT-3.3.1-11]: 1 is for a subscription that is not there yet, or no longer."""
    topic = fresh("r")
    async with Device.open(node, fresh()) as device:
        await device.publish(topic, b"kept", 1, retain=True)
        for handling, given in ((1, True), (1, False), (2, False), (0, True), (0, True)):
            await device.subscribe(topic, retain_handling=handling)
            if given:
                one = await device.message()
                assert (one.payload, one.retain) == (b"kept", True)
            await device.silent()
        for handling, given in ((2, False), (1, True)):
            device.write(Unsubscribe(packet_id=9, patterns=(topic,)))
            await device.expect(Unsuback)
            await device.subscribe(topic, retain_handling=handling)
            if given:
                await device.message()
            await device.silent()


@on_shared_node
async def test_retain_as_published(node: Node) -> None:
    """[MQTT-3.3.1-12], [MQTT-3.3.1-13]; 3.1.1 [MQTT-3.3.1-9]: the flag for a subscription that there is."""
    topic = fresh("r")
    async with (
        Device.open(node, fresh()) as writer,
        Device.open(node, fresh()) as plain,
        Device.open(node, fresh()) as published,
        Device.open(node, fresh(), V311) as old,
    ):
        await plain.subscribe(topic)
        await published.subscribe(topic, retain_as_published=True)
        await old.subscribe(topic)
        for retain in (False, True):
            await writer.publish(topic, b"x", 1, retain=retain)
            found = [(await reader.message()).retain for reader in (plain, published, old)]
            assert found == [False, retain, False]
        for reader in (plain, published, old):  # 3.1.1 [MQTT-3.3.1-6], [MQTT-3.3.1-8]: and of a retained one
            await reader.subscribe(topic)
            assert (await reader.message()).retain


@on_shared_node
async def test_no_local_is_of_one_subscription(node: Node) -> None:
    """[MQTT-3.8.3-3]: also for retained messages. Another subscription that matches gives the message."""
    topic = fresh("t")
    async with Device.open(node, fresh()) as device:
        await device.publish(topic, b"mine", 1, retain=True)
        await device.subscribe(topic, no_local=True)
        await device.publish(topic, b"mine", 1)
        await device.silent()
        await device.subscribe(f"{topic}/#", retain_handling=2, properties=Properties(subscription_ids=(5,)))
        await device.publish(topic, b"given")
        one = await device.message()
        assert (one.payload, one.properties.subscription_ids) == (b"given", (5,))
        await device.silent()


# -- UNSUBSCRIBE -------------------------------------------------------------------------------------------------------


@BOTH
@on_shared_node
async def test_filters_are_compared_character_by_character(node: Node, version: int) -> None:
    """[MQTT-3.10.4-1], [MQTT-3.10.4-2], [MQTT-3.10.4-6], [MQTT-3.11.3-1], [MQTT-3.11.3-2]; 3.1.1 [MQTT-3.10.4-1],
    [MQTT-3.10.4-2], [MQTT-3.10.4-6]: a filter that matches another is not that one. One answer, with a reason for each.
    """
    topic = fresh("t")
    async with Device.open(node, fresh(), version) as device:
        await device.subscribe(f"{topic}/+", f"{topic}/a")
        patterns = (f"{topic}/#", f"{topic}/b", f"{topic}/a", "+/+", f"{topic}/A", f"{topic}/a")
        device.write(Unsubscribe(packet_id=3, patterns=patterns))
        answer = await device.expect(Unsuback)
        if version == V5:
            none = Reason.NO_SUBSCRIPTION_EXISTED
            assert answer.reasons == (none, none, Reason.SUCCESS, none, none, none)
        await device.publish(f"{topic}/a", b"1")
        assert (await device.message()).payload == b"1"
        device.write(Unsubscribe(packet_id=4, patterns=(f"{topic}/+",)))
        await device.expect(Unsuback)
        await device.publish(f"{topic}/a", b"2", 1)
        await device.silent()


@BOTH
@on_shared_node
async def test_unsubscribe_lets_exchanges_go_on(node: Node, version: int) -> None:
    """[MQTT-3.10.4-3]; 3.1.1 [MQTT-3.10.4-3]: what was sent is completed, also on the next connection."""
    topic, name = fresh("t"), fresh()
    kept = {"clean_start": False, "properties": KEPT if version == V5 else Properties()}
    async with Device.open(node, fresh(), version) as writer:
        async with Device.open(node, name, version, **kept) as reader:
            await reader.subscribe(topic, qos=2)
            for qos in (1, 2):
                await writer.publish(topic, b"%d" % qos, qos)
            one, two = await reader.expect(Publish), await reader.expect(Publish)
            reader.write(Unsubscribe(packet_id=3, patterns=(topic,)))
            await reader.expect(Unsuback)
            reader.write(Pubrec(packet_id=two.packet_id))
            await reader.expect(Pubrel)
        async with Device.open(node, name, version, **kept) as reader:
            again = await reader.expect(Publish)
            assert (again.packet_id, again.dup) == (one.packet_id, True)
            assert (await reader.expect(Pubrel)).packet_id == two.packet_id
            reader.write(Pubcomp(packet_id=two.packet_id))
            reader.write(Puback(packet_id=one.packet_id))
            await reader.silent()


# -- shared subscriptions ----------------------------------------------------------------------------------------------


@on_shared_node
async def test_a_member_has_the_qos_of_its_subscription(node: Node) -> None:
    """[MQTT-4.8.2-3], and its identifier."""
    topic = fresh("t")
    async with (
        Device.open(node, fresh()) as writer,
        Device.open(node, fresh()) as one,
        Device.open(node, fresh()) as two,
    ):
        await one.subscribe(f"$share/g/{topic}", qos=0, properties=Properties(subscription_ids=(1,)))
        await two.subscribe(f"$share/g/{topic}", qos=2, properties=Properties(subscription_ids=(2,)))
        for number in range(4):
            await writer.publish(topic, b"%d" % number, 1)
        found = [[await member.message() for _ in range(2)] for member in (one, two)]
        assert [[(packet.qos, packet.properties.subscription_ids) for packet in some] for some in found] == [
            [(0, (1,))] * 2,
            [(1, (2,))] * 2,
        ]


@on_shared_node
async def test_a_shared_message_stays_with_its_member(node: Node) -> None:
    """[MQTT-4.8.2-4] to [MQTT-4.8.2-6]: one that was sent with QoS 2 is completed with that member or not at all."""
    topic, name = fresh("t"), fresh()
    async with Device.open(node, fresh()) as writer:
        async with Device.open(node, name, properties=KEPT) as member:
            await member.subscribe(f"$share/g/{topic}", qos=2)
            await writer.publish(topic, b"completed", 2)
            first = await member.expect(Publish)
        async with Device.open(node, fresh()) as other:
            await other.subscribe(f"$share/g/{topic}", qos=2)
            await other.silent()  # it is the absent member's
            async with Device.open(node, name, clean_start=False, properties=KEPT) as member:
                again = await member.message()
                assert (again.packet_id, again.payload, again.dup) == (first.packet_id, b"completed", True)
                for payload in (b"refused", b"refused"):  # one for each member
                    await writer.publish(topic, payload, 2)
                for device in (member, other):
                    packet = await device.expect(Publish)
                    device.write(Pubrec(packet_id=packet.packet_id, reason=Reason.UNSPECIFIED))
                    await device.silent()
                for payload in (b"ends", b"ends"):
                    await writer.publish(topic, payload, 2)
                await member.expect(Publish)
                await other.message()
                member.write(Disconnect(properties=Properties(session_expiry_s=0)))
                await member.ended()
            await asyncio.sleep(0)
            await other.silent()


@on_shared_node
async def test_a_shared_subscription_and_another_of_one_client(node: Node) -> None:
    """4.8.2: a client may have both, and is given a copy for each. Retained messages are not for the shared one."""
    topic = fresh("t")
    async with Device.open(node, fresh()) as device:
        await device.publish(topic, b"kept", 1, retain=True)
        await device.subscribe(f"$share/g/{topic}", qos=1)
        await device.silent()
        await device.subscribe(topic, qos=0)
        assert (await device.message()).payload == b"kept"
        device.write(Publish(topic=topic, payload=b"live", qos=1, packet_id=9))
        assert sorted([(await device.find(Publish)).qos for _ in range(2)]) == [0, 1]
        await device.find(Puback)
        device.write(Unsubscribe(packet_id=3, patterns=(f"$share/g/{topic}", f"$share/h/{topic}")))
        assert (await device.expect(Unsuback)).reasons == (Reason.SUCCESS, Reason.NO_SUBSCRIPTION_EXISTED)
        await device.publish(topic, b"one")
        assert (await device.message()).payload == b"one"
        await device.silent()


# -- topics ------------------------------------------------------------------------------------------------------------


@BOTH
@on_shared_node
async def test_dollar_topics(node: Node, version: int) -> None:
    """[MQTT-4.7.2-1]: wildcards at the front do not match. 3.1.1 [MQTT-3.3.5-2]: a refusal is an acknowledgement."""
    async with Device.open(node, fresh(), version) as device:
        await device.subscribe("+/broker/version", "+/broker/#", qos=1)
        await device.subscribe("$SYS/broker/version")
        assert (await device.message()).topic == "$SYS/broker/version"
        device.write(Publish(topic="$SYS/broker/version", qos=1, packet_id=4))
        answer = await device.expect(Puback)
        assert answer.reason is (Reason.NOT_AUTHORIZED if version == V5 else Reason.SUCCESS)
        await device.silent()


@BOTH
@on_shared_node
async def test_names_of_all_forms(node: Node, version: int) -> None:
    """[MQTT-1.5.4-3], [MQTT-4.7.3-1], [MQTT-4.7.3-3], [MQTT-4.7.3-4]; 3.1.1 [MQTT-1.5.3-3]: up to our 1,024 bytes."""
    prefix = fresh("t")
    names = [
        f"{prefix}/{name}"
        for name in (
            " ",
            "/",
            "a//b",
            "A",
            "a",
            "\ufeffx",
            "\u00e9",
            "e\u0301",
            "\U0001f600",
            "\x01\x7f",
            "$a",
            "/" * 50,
        )
    ]
    names.append(prefix + "n" * (1024 - len(prefix)))
    async with Device.open(node, fresh(), version) as device:
        for name in names:
            await device.subscribe(name, qos=1)
        for name in names:
            device.write(Publish(topic=name))
        assert [(await device.message()).topic for _ in names] == names
        await device.silent()
