"""Normative statements of both versions that other files do not test: one test for each, or for a few of a kind."""

import pytest

from antecede.wire.mqtt.encoding import encode
from antecede.wire.mqtt.packets import (
    V5,
    V311,
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
    Will,
)
from antecede.wire.mqtt.properties import Properties
from antecede.wire.mqtt.reasons import Reason
from tests.client.running import awaited, until
from tests.node.mqtt.devices import Device, mqtt_node

BOTH = pytest.mark.parametrize("version", [V311, V5])
KEPT = Properties(session_expiry_s=600)


# -- CONNECT and DISCONNECT --------------------------------------------------------------------------------------------


@BOTH
@awaited
async def test_packets_behind_connect_are_answered_in_order(version: int) -> None:
    """3.1.4: a client need not wait for CONNACK, which goes first ([MQTT-3.2.0-1])."""
    async with mqtt_node() as node:
        device = await Device.dial(node, version)
        device.write(Connect(version=version, client_id="a"))
        device.write(Subscribe(packet_id=3, wanted=(Wanted(pattern="t", qos=1),)))
        device.write(Publish(topic="t", payload=b"x", qos=1, packet_id=3))
        await device.expect(Connack)
        await device.expect(Suback)
        await device.find(Puback)
        assert (await device.message()).payload == b"x"


@awaited
async def test_connack_goes_before_disconnect(tmp_path_factory: pytest.TempPathFactory) -> None:
    """[MQTT-3.14.0-1]: also where the session is being written to disk."""
    async with mqtt_node(tmp_path_factory.mktemp("n")) as node:
        device = await Device.dial(node)
        connect = Connect(client_id="a", properties=KEPT)
        device.write_bytes(encode(connect, V5) + b"\xc1\0")
        await device.expect(Connack)
        assert (await device.expect(Disconnect)).reason is Reason.MALFORMED_PACKET
        await device.ended()
        async with Device.open(node, "a", clean_start=False, properties=KEPT) as device:
            assert device.connack.session_present


@awaited
async def test_what_follows_a_refused_connect_is_not_handled() -> None:
    """[MQTT-3.1.4-6]."""
    async with mqtt_node() as node, Device.open(node, "r") as reader:
        await reader.subscribe("t")
        device = await Device.dial(node, V311)
        device.write(Connect(version=V311, clean_start=False))
        device.write(Publish(topic="t", payload=b"x"))
        assert (await device.expect(Connack)).reason is Reason.CLIENT_ID_NOT_VALID
        await device.ended()
        await reader.silent()


@awaited
async def test_only_a_normal_disconnection_drops_the_will() -> None:
    """[MQTT-3.1.2-8], [MQTT-3.1.2-10], [MQTT-3.14.4-3]."""
    async with mqtt_node() as node, Device.open(node, "r") as reader:
        await reader.subscribe("w")
        for reason in (Reason.DISCONNECT_WITH_WILL, Reason.UNSPECIFIED, Reason.MALFORMED_PACKET):
            async with Device.open(node, "a", will=Will(topic="w", payload=reason.name.encode())) as device:
                device.write(Disconnect(reason=reason))
                await device.ended()
            assert (await reader.message()).payload == reason.name.encode()


@awaited
async def test_a_takeover_publishes_the_will_of_the_old_connection() -> None:
    """3.1.4, 3.1.2.5; not with a delay, for the session goes on ([MQTT-3.1.3-9])."""
    async with mqtt_node() as node, Device.open(node, "r") as reader:
        await reader.subscribe("w")
        for delay_s, expected in ((0, True), (100, False)):
            will = Will(topic="w", payload=b"old", properties=Properties(will_delay_s=delay_s))
            async with (
                Device.open(node, "a", will=will, properties=KEPT),
                Device.open(node, "a", clean_start=False, properties=KEPT) as new,
            ):
                assert new.connack.session_present
                if expected:
                    await reader.message()
                await reader.silent()


# -- messages ----------------------------------------------------------------------------------------------------------


@awaited
async def test_receive_maximum_holds_for_messages_that_come_again() -> None:
    """[MQTT-3.3.4-9], 4.9: a client that comes back may accept fewer at a time than before. Order stays."""
    async with mqtt_node() as node, Device.open(node, "b") as other:
        async with Device.open(node, "a", properties=KEPT) as device:
            await device.subscribe("t", qos=2)
            for number in range(5):
                await other.publish("t", b"%d" % number, 2 if number else 1)
            first = [await device.expect(Publish) for _ in range(5)]
            device.write(Pubrec(packet_id=first[1].packet_id))
            await device.expect(Pubrel)
        await until(lambda: node.mqtt is not None and node.mqtt.sessions.connected == 1)
        await other.publish("t", b"5", 0)
        await other.publish("t", b"6", 1)
        few = Properties(session_expiry_s=600, receive_maximum=2)
        async with Device.open(node, "a", clean_start=False, properties=few) as device:
            one = await device.expect(Publish)
            assert (one.payload, one.dup) == (b"0", True)
            await device.expect(Pubrel)
            await device.silent()
            device.write(Puback(packet_id=one.packet_id))
            two = await device.expect(Publish)
            assert (two.payload, two.packet_id, two.dup) == (b"2", first[2].packet_id, True)
            await device.silent()
            device.write(Pubcomp(packet_id=first[1].packet_id))
            three = await device.expect(Publish)
            assert (three.payload, three.dup) == (b"3", True)
            device.write(Pubrec(packet_id=two.packet_id))
            await device.expect(Pubrel)
            device.write(Pubcomp(packet_id=two.packet_id))
            four = await device.expect(Publish)
            assert (four.payload, four.dup) == (b"4", True)
            for flight in (three, four):
                await device.silent()  # the next one has a lower QoS
                device.write(Pubrec(packet_id=flight.packet_id))
                await device.expect(Pubrel)
                device.write(Pubcomp(packet_id=flight.packet_id))
            new = await device.expect(Publish)
            assert (new.payload, new.dup) == (b"6", False)


@awaited
async def test_unknown_identifiers_are_answered() -> None:
    """4.3.3, table of reasons: 0x92; an acknowledgement of nothing is let pass."""
    async with mqtt_node() as node, Device.open(node, "a") as device:
        device.write(Puback(packet_id=7))
        device.write(Pubcomp(packet_id=7))
        device.write(Pubrec(packet_id=7))
        assert (await device.expect(Pubrel)).reason is Reason.PACKET_ID_NOT_FOUND
        device.write(Pubrel(packet_id=7))
        assert (await device.expect(Pubcomp)).reason is Reason.PACKET_ID_NOT_FOUND
        await device.silent()


@awaited
async def test_a_refused_message_is_not_sent_again() -> None:
    """[MQTT-4.4.0-2]: PUBACK and PUBREC with a reason of 0x80 or more end the exchange."""
    async with mqtt_node() as node, Device.open(node, "b") as other:
        async with Device.open(node, "a", properties=KEPT) as device:
            await device.subscribe("t", qos=2)
            for qos, kind in ((1, Puback), (2, Pubrec)):
                await other.publish("t", b"x", qos)
                packet = await device.expect(Publish)
                device.write(kind(packet_id=packet.packet_id, reason=Reason.QUOTA_EXCEEDED))
            await device.silent()
        async with Device.open(node, "a", clean_start=False, properties=KEPT) as device:
            await device.silent()


@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        ("sport/tennis/#", ["sport/tennis", "sport/tennis/p1", "sport/tennis/p1/x"], ["sport", "sport/tennisx"]),
        ("sport/+", ["sport/", "sport/x"], ["sport", "sport/x/y"]),
        ("+/+", ["/finance", "a/b"], ["a", "a/b/c", "$a/b"]),
        ("/+", ["/finance"], ["finance", "/a/b"]),
        ("+", ["finance"], ["/finance", "$finance"]),
        ("#", ["/", "a", "a/b", "ACCOUNTS"], ["$a"]),
        ("a b/ü", ["a b/ü"], ["A b/ü", "a b/u\u0308", "/a b/ü", "a b/ü/"]),  # [MQTT-4.7.3-4]
        ("+/tennis/#", ["x/tennis", "/tennis/y"], ["tennis", "x/y/tennis"]),
        ("\ufeffa", ["\ufeffa"], ["a"]),  # [MQTT-1.5.4-3]
    ],
)
@awaited
async def test_filters(pattern: str, names: list[str], others: list[str]) -> None:
    """[MQTT-4.7.1-1] to [MQTT-4.7.3-4], with the examples of the standard."""
    async with mqtt_node() as node, Device.open(node, "a") as reader, Device.open(node, "b") as writer:
        await reader.subscribe(pattern)
        for number, name in enumerate([*others, *names]):
            writer.write(Publish(topic=name, qos=1, packet_id=number + 1))
            await writer.expect(Puback)
        assert [(await reader.message()).topic for _ in names] == names
        await reader.silent()


@BOTH
@awaited
async def test_a_subscription_is_replaced_by_another_with_its_filter(version: int) -> None:
    """[MQTT-3.8.4-3], [MQTT-3.8.4-4], [MQTT-3.8.4-8]: its QoS and its retained messages; no copy is lost or doubled."""
    async with mqtt_node() as node, Device.open(node, "a", version) as device:
        await device.publish("t", b"kept", 1, retain=True)
        for qos in (2, 0, 1):
            assert (await device.subscribe("t", qos=qos)).reasons == (Reason(qos),)
            one = await device.message()
            assert (one.payload, one.qos, one.retain) == (b"kept", min(qos, 1), True)
        device.write(Publish(topic="t", payload=b"live", qos=2, packet_id=9))
        assert (await device.find(Publish)).qos == 1
        await device.find(Pubrec)
        await device.silent()


@awaited
async def test_sys_follows_retain_handling() -> None:
    """[MQTT-3.3.1-11]."""
    async with mqtt_node() as node, Device.open(node, "a") as device:
        await device.subscribe("$SYS/broker/version", retain_handling=2)
        await device.silent()
        await device.subscribe("$SYS/broker/version")
        assert (await device.message()).retain


@awaited
async def test_last_words_reach_a_client_that_is_still_sending() -> None:
    """[MQTT-4.13.1-1]: the node reads on for a moment, or the reset of the connection would overtake DISCONNECT."""
    async with mqtt_node() as node, Device.open(node, "a") as device:
        device.write_bytes(b"\x36\xff\xff\x7f" + bytes(1_500_000))
        packet = await device.expect(Disconnect)
        assert packet.reason is Reason.PACKET_TOO_LARGE
        await device.ended()


# -- order of QoS 2 and others -----------------------------------------------------------------------------------------


@BOTH
@awaited
async def test_a_message_of_lower_qos_waits_for_the_release_of_one_of_qos_2(version: int) -> None:
    """4.3.3: a client may hand a QoS 2 message on when it is released (method A). What depends on it comes behind."""
    async with mqtt_node() as node, Device.open(node, "w") as writer, Device.open(node, "r", version) as reader:
        await reader.subscribe("a/#", qos=2)
        await writer.publish("a/question", b"2", 2)
        await writer.publish("a/answer", b"1", 1)
        await writer.publish("a/comment", b"0", 0)
        question = await reader.expect(Publish)
        await reader.silent()
        reader.write(Pubrec(packet_id=question.packet_id))
        assert (await reader.expect(Pubrel)).packet_id == question.packet_id
        assert [(await reader.expect(Publish)).payload for _ in range(2)] == [b"1", b"0"]
