"""Connections and sessions, by the normative statements of the standard: what a client sees from outside."""

import asyncio

import pytest

from antecede.wire.mqtt.packets import (
    V5,
    V311,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Unsuback,
    Unsubscribe,
    Will,
)
from antecede.wire.mqtt.properties import Properties
from antecede.wire.mqtt.reasons import Reason
from antecede.wire.security.tokens import new_token
from tests.client.running import awaited
from tests.node.mqtt.devices import Device, mqtt_node

BOTH = pytest.mark.parametrize("version", [V311, V5])
KEPT = Properties(session_expiry_s=600)


def kept(version: int) -> dict[str, object]:
    """Settings of a CONNECT whose session outlives the connection."""
    return {"clean_start": False, "properties": KEPT if version == V5 else Properties()}


# -- CONNECT -----------------------------------------------------------------------------------------------------------


@BOTH
@awaited
async def test_the_first_packet_is_connect_and_there_is_one(version: int) -> None:
    """[MQTT-3.1.0-1], [MQTT-3.1.0-2]."""
    async with mqtt_node() as node:
        device = await Device.dial(node, version)
        device.write(Pingreq())
        await device.ended()
        async with Device.open(node, "a", version) as device:
            device.write(Connect(version=version, client_id="a"))
            if version == V5:
                assert (await device.expect(Disconnect)).reason is Reason.PROTOCOL_ERROR
            await device.ended()


@awaited
async def test_other_protocols_are_refused() -> None:
    """[MQTT-3.1.2-1], [MQTT-3.1.2-2]."""
    async with mqtt_node() as node:
        device = await Device.dial(node, V311)
        device.write_bytes(b"\x10\x0e\0\6MQIsdp\3\2\0\0\0\0")
        assert (await device.expect(Connack)).reason is Reason.UNSUPPORTED_VERSION  # MQTT 3.1 has the same code
        await device.ended()
        device = await Device.dial(node, V311)
        device.write_bytes(b"\x10\x0c\0\4MQTT\x06\2\0\0\0\0")
        assert (await device.expect(Connack)).reason is Reason.UNSUPPORTED_VERSION
        await device.ended()


@awaited
async def test_an_empty_client_identifier() -> None:
    """[MQTT-3.1.3-6], [MQTT-3.1.3-7]; 3.1.1: [MQTT-3.1.3-7], [MQTT-3.1.3-8]."""
    async with mqtt_node() as node:
        device = await Device.dial(node, V311)
        device.write(Connect(version=V311, clean_start=False))
        assert (await device.expect(Connack)).reason is Reason.CLIENT_ID_NOT_VALID
        await device.ended()
        async with Device.open(node, "", V311):
            pass
        async with Device.open(node, "", V5) as one, Device.open(node, "", V5) as two:
            names = {one.connack.properties.assigned_client_id, two.connack.properties.assigned_client_id}
            assert len(names) == 2
            assert None not in names


@awaited
async def test_a_client_is_told_what_there_is() -> None:
    """3.2.2.3."""
    async with mqtt_node() as node, Device.open(node, "a") as device:
        told = device.connack.properties
        assert told.receive_maximum == 1024
        assert told.maximum_packet_size == 512 * 1024
        assert told.topic_alias_maximum == 64
        assert told.wildcard_available is None  # there are
        assert told.maximum_qos is None  # 2


@awaited
async def test_enhanced_authentication_is_refused() -> None:
    """[MQTT-4.12.0-1], [MQTT-4.12.0-6]."""
    async with mqtt_node() as node:
        device = await Device.dial(node)
        device.write(Connect(client_id="a", properties=Properties(authentication_method="SCRAM")))
        assert (await device.expect(Connack)).reason is Reason.BAD_AUTHENTICATION_METHOD
        await device.ended()
        async with Device.open(node, "a") as device:
            device.write(Auth(reason=Reason.RE_AUTHENTICATE))
            assert (await device.expect(Disconnect)).reason is Reason.PROTOCOL_ERROR


@BOTH
@awaited
async def test_a_second_connection_takes_over(version: int) -> None:
    """[MQTT-3.1.4-3]; 3.1.1: [MQTT-3.1.4-2]."""
    async with (
        mqtt_node() as node,
        Device.open(node, "a", version, **kept(version)) as one,
        Device.open(node, "a", version, **kept(version)) as two,
    ):
        if version == V5:
            assert (await one.expect(Disconnect)).reason is Reason.SESSION_TAKEN_OVER
        await one.ended()
        assert two.connack.session_present
        await two.silent()


@BOTH
@awaited
async def test_silence_ends_a_connection(version: int) -> None:
    """[MQTT-3.1.2-22]."""
    async with mqtt_node() as node, Device.open(node, "a", version, keep_alive_s=1) as device:
        if version == V5:
            assert (await device.expect(Disconnect)).reason is Reason.KEEP_ALIVE_TIMEOUT
        await device.ended()


# -- sessions ----------------------------------------------------------------------------------------------------------


@BOTH
@awaited
async def test_a_session_goes_on(version: int) -> None:
    """[MQTT-3.1.2-5], [MQTT-3.1.2-23], [MQTT-4.4.0-1]: subscriptions and QoS 1 and 2 messages stay; QoS 0 go."""
    async with mqtt_node() as node, Device.open(node, "b", version) as other:
        async with Device.open(node, "a", version, **kept(version)) as device:
            assert not device.connack.session_present
            await device.subscribe("t/#", qos=2)
            device.write(Disconnect())
            await device.ended()
        for qos in (0, 1, 2):
            await other.publish("t/1", b"%d" % qos, qos)
        async with Device.open(node, "a", version, **kept(version)) as device:
            assert device.connack.session_present
            assert [(await device.message()).payload for _ in range(2)] == [b"1", b"2"]
            await device.silent()
        async with Device.open(node, "a", version, clean_start=True) as device:  # [MQTT-3.1.2-4]
            assert not device.connack.session_present
            await other.publish("t/1", b"again", 1)
            await device.silent()


@awaited
async def test_a_session_ends_with_its_time() -> None:
    """3.1.2.11.2, 3.14.2.2.2."""
    async with mqtt_node() as node:
        async with Device.open(node, "a", properties=Properties(session_expiry_s=600)) as device:
            device.write(Disconnect(properties=Properties(session_expiry_s=0)))
            await device.ended()
        async with Device.open(node, "a", clean_start=False, properties=KEPT) as device:
            assert not device.connack.session_present
        async with Device.open(node, "b") as device:
            device.write(Disconnect(properties=Properties(session_expiry_s=5)))
            assert (await device.expect(Disconnect)).reason is Reason.PROTOCOL_ERROR


# -- QoS 1 and 2 -------------------------------------------------------------------------------------------------------


@BOTH
@awaited
async def test_messages_without_an_acknowledgement_come_again(version: int) -> None:
    """[MQTT-4.4.0-1], [MQTT-3.3.1-1], [MQTT-4.6.0-1]: with DUP, the same identifiers, in order; PUBREL without."""
    async with mqtt_node() as node, Device.open(node, "b", version) as other:
        async with Device.open(node, "a", version, **kept(version)) as device:
            await device.subscribe("t", qos=2)
            for number in range(3):
                await other.publish("t", b"%d" % number, min(number + 1, 2))
            first = [await device.expect(Publish) for _ in range(3)]
            assert [packet.dup for packet in first] == [False] * 3
            device.write(Pubrec(packet_id=first[1].packet_id))
            await device.expect(Pubrel)
        async with Device.open(node, "a", version, **kept(version)) as device:
            one = await device.expect(Publish)
            assert (one.packet_id, one.payload, one.dup) == (first[0].packet_id, b"0", True)
            assert (await device.expect(Pubrel)).packet_id == first[1].packet_id
            two = await device.expect(Publish)
            assert (two.packet_id, two.payload, two.dup) == (first[2].packet_id, b"2", True)
            device.write(Puback(packet_id=one.packet_id))
            device.write(Pubcomp(packet_id=first[1].packet_id))
            device.write(Pubrec(packet_id=two.packet_id))
            await device.expect(Pubrel)
            device.write(Pubcomp(packet_id=two.packet_id))
            await device.silent()


@BOTH
@awaited
async def test_qos_2_is_published_once_and_nothing_overtakes_it(version: int) -> None:
    """[MQTT-4.3.3-10]: the identifier means one message until PUBREL. It is numbered at PUBLISH."""
    async with mqtt_node() as node, node.connect() as bus, bus.subscribe("t") as feed:
        async with Device.open(node, "a", version, **kept(version)) as device:
            device.write(Publish(topic="t", payload=b"two", qos=2, packet_id=7))
            await device.expect(Pubrec)
            await device.publish("t", b"one", 1)
        async with Device.open(node, "a", version, **kept(version)) as device:
            device.write(Publish(topic="t", payload=b"two", qos=2, packet_id=7, dup=True))
            await device.expect(Pubrec)
            device.write(Pubrel(packet_id=7))
            assert not (await device.expect(Pubcomp)).reason
            device.write(Pubrel(packet_id=7))
            answer = await device.expect(Pubcomp)
            assert answer.reason is (Reason.PACKET_ID_NOT_FOUND if version == V5 else Reason.SUCCESS)
            device.write(Publish(topic="t", payload=b"three", qos=2, packet_id=7))
            await device.expect(Pubrec)
        async with asyncio.timeout(30):
            assert [(await anext(feed)).payload for _ in range(3)] == [b"two", b"one", b"three"]


@awaited
async def test_receive_maximum() -> None:
    """[MQTT-3.3.4-9], [MQTT-4.9.0-2]: no more than the client accepts are under way; then those behind them follow."""
    async with (
        mqtt_node() as node,
        Device.open(node, "b") as other,
        Device.open(node, "a", properties=Properties(receive_maximum=2)) as device,
    ):
        await device.subscribe("t", qos=1)
        for number in range(5):
            await other.publish("t", b"%d" % number, 1)
        some = [await device.expect(Publish) for _ in range(2)]
        await device.silent()  # [MQTT-4.9.0-3]: other packets are answered
        device.write(Puback(packet_id=some[0].packet_id))
        assert (await device.expect(Publish)).payload == b"2"
        await device.silent()


@awaited
async def test_more_than_our_receive_maximum_ends_the_connection() -> None:
    """3.3.4: reason 0x93."""
    async with mqtt_node() as node, Device.open(node, "a") as device:
        for number in range(1, 1026):
            device.write(Publish(topic="t", qos=2, packet_id=number))
        while not isinstance(packet := await device.next(), Disconnect):
            assert isinstance(packet, Pubrec), packet
        assert packet.reason is Reason.RECEIVE_MAXIMUM_EXCEEDED


# -- subscriptions -----------------------------------------------------------------------------------------------------


@BOTH
@awaited
async def test_every_filter_has_its_answer(version: int) -> None:
    """[MQTT-3.8.4-2], [MQTT-3.8.4-6], [MQTT-3.9.3-1], [MQTT-4.7.3-3]: also those that are refused."""
    async with mqtt_node() as node, Device.open(node, "a", version) as device:
        answer = await device.subscribe("a/+", "b" * 1025, "$MQTT/#", "+/d/#", "/" * 64, qos=1)
        long = Reason.TOPIC_FILTER_INVALID if version == V5 else Reason.UNSPECIFIED
        denied = Reason.NOT_AUTHORIZED if version == V5 else Reason.UNSPECIFIED
        assert answer.reasons == (Reason.GRANTED_QOS_1, long, denied, Reason.GRANTED_QOS_1, long)


@BOTH
@awaited
async def test_unsubscribe(version: int) -> None:
    """[MQTT-3.10.4-1], [MQTT-3.10.4-4], [MQTT-3.10.4-5]."""
    async with mqtt_node() as node, Device.open(node, "a", version) as device:
        await device.subscribe("a", "b", qos=1)
        device.write(Unsubscribe(packet_id=9, patterns=("a", "x")))
        answer = await device.expect(Unsuback)
        assert answer.packet_id == 9
        if version == V5:
            assert answer.reasons == (Reason.SUCCESS, Reason.NO_SUBSCRIPTION_EXISTED)
        await device.publish("a", b"1", 1)
        await device.publish("b", b"2")
        assert (await device.message()).payload == b"2"


@awaited
async def test_overlapping_subscriptions_give_one_copy() -> None:
    """[MQTT-3.3.4-2], [MQTT-3.3.4-4]."""
    async with mqtt_node() as node, Device.open(node, "a") as device:
        await device.subscribe("t/#", qos=1, properties=Properties(subscription_ids=(1,)))
        await device.subscribe("t/+", qos=2, properties=Properties(subscription_ids=(2,)))
        async with Device.open(node, "b") as other:
            await other.publish("t/1", b"x", 2)
        packet = await device.message()
        assert packet.qos == 2
        assert sorted(packet.properties.subscription_ids) == [1, 2]
        await device.silent()


@awaited
async def test_no_local() -> None:
    """[MQTT-3.8.3-3]; `test_statements_packets` has [MQTT-3.8.3-4]."""
    async with mqtt_node() as node, Device.open(node, "a") as device, Device.open(node, "b") as other:
        await device.subscribe("t", no_local=True)
        await device.publish("t", b"mine", 1)
        await other.publish("t", b"yours", 1)
        assert (await device.message()).payload == b"yours"


@awaited
async def test_dollar_topics_are_not_for_wildcards() -> None:
    """[MQTT-4.7.2-1]; nor for clients."""
    async with mqtt_node() as node, Device.open(node, "a") as device:
        await device.subscribe("#", "+/x", qos=1)
        device.write(Publish(topic="$t/x", qos=1, packet_id=5))
        assert (await device.expect(Puback)).reason is Reason.NOT_AUTHORIZED
        await device.silent()


# -- messages ----------------------------------------------------------------------------------------------------------


@awaited
async def test_properties_travel_unaltered() -> None:
    """[MQTT-3.3.2-4], [MQTT-3.3.2-15] to [MQTT-3.3.2-20]."""
    sent = Properties(
        payload_format=1,
        content_type="text/plain",
        response_topic="back/here",
        correlation_data=b"\0\1",
        user=(("a", "1"), ("b", "2"), ("a", "3")),
    )
    async with mqtt_node() as node, Device.open(node, "a") as device, Device.open(node, "b", V311) as old:
        await device.subscribe("t")
        await old.subscribe("t")
        async with Device.open(node, "c") as other:
            await other.publish("t", b"x", 1, properties=sent)
        assert (await device.message()).properties == sent
        assert (await old.message()).payload == b"x"


@awaited
async def test_message_expiry() -> None:
    """[MQTT-3.3.2-5], [MQTT-3.3.2-6]: a message that is over its time is not given; the time left is told."""
    async with mqtt_node() as node, Device.open(node, "b") as other:
        async with Device.open(node, "a", properties=KEPT) as device:
            await device.subscribe("t", qos=1)
            device.write(Disconnect())
            await device.ended()
        await other.publish("t", b"short", 1, properties=Properties(message_expiry_s=1))
        await other.publish("t", b"long", 1, properties=Properties(message_expiry_s=100))
        await asyncio.sleep(1.2)
        async with Device.open(node, "a", clean_start=False, properties=KEPT) as device:
            packet = await device.message()
            assert packet.payload == b"long"
            assert packet.properties.message_expiry_s is not None
            assert packet.properties.message_expiry_s < 100


@awaited
async def test_topic_aliases() -> None:
    """[MQTT-3.3.2-7] to [MQTT-3.3.2-12], [MQTT-3.1.2-26]."""
    async with mqtt_node() as node, Device.open(node, "a", properties=Properties(topic_alias_maximum=1)) as device:
        await device.subscribe("t/#")
        async with Device.open(node, "b") as other:
            await other.publish("t/1", b"1", 1, properties=Properties(topic_alias=5))
            await other.publish("", b"2", 1, properties=Properties(topic_alias=5))
            await other.publish("t/2", b"3", 1, properties=Properties(topic_alias=5))
            await other.publish("", b"4", 1, properties=Properties(topic_alias=5))
        found = [await device.message() for _ in range(4)]
        assert [(one.topic, one.properties.topic_alias) for one in found] == [
            ("t/1", 1),
            ("", 1),
            ("t/2", None),
            ("t/2", None),
        ]
        for alias, reason in ((65, Reason.TOPIC_ALIAS_INVALID), (7, Reason.PROTOCOL_ERROR)):
            async with Device.open(node, "c") as other:
                other.write(Publish(topic="", properties=Properties(topic_alias=alias)))
                assert (await other.expect(Disconnect)).reason is reason


@awaited
async def test_maximum_packet_size() -> None:
    """[MQTT-3.1.2-24], [MQTT-3.1.2-25]; and ours, 3.2.2.3.6."""
    async with mqtt_node() as node, Device.open(node, "a", properties=Properties(maximum_packet_size=64)) as device:
        await device.subscribe("t", qos=1)
        async with Device.open(node, "b") as other:
            await other.publish("t", b"." * 64, 1)
            await other.publish("t", b"small", 1)
            assert (await device.message()).payload == b"small"
            other.write(Publish(topic="t", payload=b"." * 512 * 1024))
            assert (await other.expect(Disconnect)).reason is Reason.PACKET_TOO_LARGE


# -- the will ----------------------------------------------------------------------------------------------------------


@BOTH
@awaited
async def test_the_will(version: int) -> None:
    """[MQTT-3.1.2-8], [MQTT-3.1.2-10], [MQTT-3.14.4-3]."""
    async with mqtt_node() as node, Device.open(node, "a", version) as device:
        await device.subscribe("w", qos=1)
        async with Device.open(node, "b", version, will=Will(topic="w", payload=b"cut", qos=1)):
            pass
        assert (await device.message()).payload == b"cut"
        async with Device.open(node, "b", version, will=Will(topic="w", payload=b"no", qos=1)) as other:
            other.write(Disconnect())
            await other.ended()
        await device.silent()
        if version == V5:
            async with Device.open(node, "b", version, will=Will(topic="w", payload=b"asked for", qos=1)) as other:
                other.write(Disconnect(reason=Reason.DISCONNECT_WITH_WILL))
                await other.ended()
            assert (await device.message()).payload == b"asked for"


# -- grants ------------------------------------------------------------------------------------------------------------


@BOTH
@awaited
async def test_tokens_and_grants(version: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The password is the token, or the user name without one. What it does not grant is refused."""
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.json"
    token = new_token(tokens, "carol", publish=("mine/#",), subscribe=("mine/#",))
    async with mqtt_node(tokens=tokens) as node:
        for more in ({}, {"user_name": "carol", "password": b"wrong"}, {"user_name": "carol"}):
            device = await Device.dial(node, version)
            device.write(Connect(version=version, client_id="a", **more))
            assert (await device.expect(Connack)).reason is Reason.BAD_USER_NAME_OR_PASSWORD
            await device.ended()
        for more in ({"user_name": "carol", "password": token.encode()}, {"user_name": token}):
            async with Device.open(node, "a", version, **more) as device:
                denied = Reason.NOT_AUTHORIZED if version == V5 else Reason.UNSPECIFIED
                assert (await device.subscribe("mine/1", "yours/1", qos=1)).reasons == (Reason.GRANTED_QOS_1, denied)
                device.write(Publish(topic="yours/1", qos=1, packet_id=3))
                answer = await device.expect(Puback)
                assert answer.reason is (Reason.NOT_AUTHORIZED if version == V5 else Reason.SUCCESS)
                await device.publish("mine/1", b"x")
                assert (await device.message()).payload == b"x"
        will = Will(topic="yours/1", payload=b"")
        device = await Device.dial(node, version)
        device.write(Connect(version=version, client_id="a", user_name=token, will=will))
        assert (await device.expect(Connack)).reason is Reason.NOT_AUTHORIZED


@awaited
async def test_a_session_belongs_to_its_token(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Another client cannot read what was meant for it, by its client identifier."""
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.json"
    carol = new_token(tokens, "carol", subscribe=("#",))
    mallory = new_token(tokens, "mallory", subscribe=("m/#",))
    async with mqtt_node(tokens=tokens) as node:
        async with Device.open(node, "a", user_name=carol, properties=KEPT) as device:
            await device.subscribe("t", qos=1)
        device = await Device.dial(node)
        device.write(Connect(client_id="a", user_name=mallory, clean_start=False, properties=KEPT))
        assert (await device.expect(Connack)).reason is Reason.NOT_AUTHORIZED
        async with Device.open(node, "a", user_name=carol, clean_start=False, properties=KEPT) as device:
            assert device.connack.session_present
