"""The cases that interoperability suites of MQTT run on a broker, on a node with its default settings.

They follow the outline of the suite of Eclipse Paho (`paho.mqtt.testing`): the same clients, topics and steps as far as
they are widely known, written anew. One of its cases needs a broker that refuses a filter: a node does that by grants
(`test_sessions.test_tokens_and_grants`), and not without them.
"""

import asyncio

import pytest

from antecede.wire.mqtt.encoding import encode
from antecede.wire.mqtt.packets import (
    V5,
    V311,
    Connack,
    Connect,
    Disconnect,
    Puback,
    Publish,
    Pubrec,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Wanted,
    Will,
)
from antecede.wire.mqtt.properties import Properties
from antecede.wire.mqtt.reasons import Reason
from tests.client.running import awaited
from tests.node.mqtt.devices import Device, mqtt_node

BOTH = pytest.mark.parametrize("version", [V311, V5])
TOPICS = ("TopicA", "TopicA/B", "Topic/C", "TopicA/C", "/TopicA")
WILD = ("TopicA/+", "+/C", "#", "/#", "/+", "+/+", "TopicA/#")


def kept(version: int) -> dict[str, object]:
    """Settings of a CONNECT whose session outlives the connection."""
    return {"clean_start": False, "properties": Properties(session_expiry_s=600) if version == V5 else Properties()}


async def leave(device: Device, properties: Properties | None = None) -> None:
    device.write(Disconnect(properties=properties or Properties()))
    await device.ended()


@BOTH
@awaited
async def test_basic(version: int) -> None:
    async with mqtt_node() as node:
        async with Device.open(node, "a", version) as a:
            assert not a.connack.session_present
            await a.subscribe(TOPICS[0], qos=2)
            for qos in (0, 1, 2):
                number = {} if not qos else {"packet_id": 10 + qos}
                a.write(Publish(topic=TOPICS[0], payload=b"qos %d" % qos, qos=qos, **number))
            found = [await a.find(Publish) for _ in range(3)]
            assert [(one.payload, one.qos) for one in found] == [(b"qos 0", 0), (b"qos 1", 1), (b"qos 2", 2)]
        async with Device.open(node, "a", version) as a:
            a.write(Connect(version=version, client_id="a"))
            assert isinstance(await a.next(), Disconnect) == (version == V5)
            await a.ended()
        a = await Device.dial(node, version)
        a.write_bytes(encode(Connect(version=version, client_id="a"), version).replace(b"\0\4MQTT", b"\0\4hjMQ"))
        assert not isinstance(packet := await a.next(), Connack) or packet.reason.failed
        await a.ended()


@BOTH
@awaited
async def test_retained_messages(version: int) -> None:
    more = {"properties": Properties(user=(("a", "2"), ("c", "3")))} if version == V5 else {}
    async with mqtt_node() as node:
        async with Device.open(node, "a", version) as a:
            for qos in (0, 1, 2):
                await a.publish(TOPICS[1 + qos], b"qos %d" % qos, qos, retain=True, **more)
            await leave(a)
        async with Device.open(node, "a", version) as a:
            await a.subscribe(WILD[5], qos=2)
            found = [await a.message() for _ in range(3)]
            assert [(one.qos, one.retain) for one in found] == [(0, True), (1, True), (2, True)]
            assert {one.properties for one in found} == {more.get("properties", Properties())}
            for qos in (0, 1, 2):
                a.write(Publish(topic=TOPICS[1 + qos], retain=True))
                assert (await a.message()).payload == b""
            await leave(a)
        async with Device.open(node, "a", version) as a:
            await a.subscribe(WILD[5], qos=2)
            await a.silent()


@BOTH
@awaited
async def test_messages_for_a_client_that_is_away(version: int) -> None:
    async with mqtt_node() as node:
        async with Device.open(node, "a", version, **kept(version)) as a:
            await a.subscribe(WILD[5], qos=2)
            await leave(a)
        async with Device.open(node, "b", version) as b:
            for qos in (0, 1, 2):
                await b.publish(TOPICS[1 + qos], b"qos %d" % qos, qos)
            await leave(b)
        async with Device.open(node, "a", version, **kept(version)) as a:
            assert a.connack.session_present
            assert [(await a.message()).qos for _ in range(2)] == [1, 2]


@BOTH
@awaited
async def test_will_message(version: int) -> None:
    will = Will(topic=TOPICS[2], payload=b"client not disconnected", retain=True, properties=Properties())
    async with mqtt_node() as node, Device.open(node, "b", version) as b:
        await b.subscribe(TOPICS[2], qos=2)
        async with Device.open(node, "a", version, will=will, keep_alive_s=2):
            pass
        assert (await b.message()).payload == b"client not disconnected"


@awaited
async def test_zero_length_client_identifier() -> None:
    async with mqtt_node() as node:
        a = await Device.dial(node, V311)
        a.write(Connect(version=V311, clean_start=False))
        assert (await a.expect(Connack)).reason is Reason.CLIENT_ID_NOT_VALID
        async with Device.open(node, "", V311):
            pass
        for clean_start in (False, True):
            async with Device.open(node, "", V5, clean_start=clean_start) as a:
                assert a.connack.properties.assigned_client_id


@BOTH
@awaited
async def test_dollar_topics(version: int) -> None:
    async with mqtt_node() as node, Device.open(node, "a", version) as a:
        await a.subscribe(WILD[5], qos=2)
        a.write(Publish(topic="$" + TOPICS[1], qos=1, packet_id=9))
        await a.expect(Puback)
        await a.silent()


@BOTH
@awaited
async def test_overlapping_subscriptions(version: int) -> None:
    async with mqtt_node() as node, Device.open(node, "a", version) as a, Device.open(node, "b", version) as b:
        wanted = (Wanted(pattern=WILD[6], qos=2), Wanted(pattern=WILD[0], qos=1))
        a.write(Subscribe(packet_id=1, wanted=wanted))
        assert (await a.expect(Suback)).reasons == (Reason.GRANTED_QOS_2, Reason.GRANTED_QOS_1)
        await b.publish(TOPICS[3], b"overlapping topic filters", 2)
        assert (await a.message()).qos == 2
        await a.silent()


@BOTH
@awaited
async def test_keep_alive(version: int) -> None:
    will = Will(topic=TOPICS[4], payload=b"keepalive expiry")
    async with mqtt_node() as node, Device.open(node, "b", version) as b:
        await b.subscribe(TOPICS[4], qos=2)
        async with Device.open(node, "a", version, will=will, keep_alive_s=1):
            assert (await b.message()).payload == b"keepalive expiry"


@BOTH
@awaited
async def test_redelivery_on_reconnect(version: int) -> None:
    async with mqtt_node() as node:
        async with Device.open(node, "b", version, **kept(version)) as b:
            await b.subscribe(WILD[6], qos=2)
            async with Device.open(node, "a", version) as a:
                await a.publish(TOPICS[1], b"", 1)
                await a.publish(TOPICS[3], b"", 2)
        async with Device.open(node, "b", version, **kept(version)) as b:
            assert [(await b.message()).topic for _ in range(2)] == [TOPICS[1], TOPICS[3]]


@BOTH
@awaited
async def test_unsubscribe(version: int) -> None:
    async with mqtt_node() as node, Device.open(node, "a", version) as a, Device.open(node, "b", version) as b:
        await a.subscribe(*TOPICS[:3], qos=2)
        a.write(Unsubscribe(packet_id=9, patterns=(TOPICS[0],)))
        await a.expect(Unsuback)
        for topic in TOPICS[:3]:
            await b.publish(topic, b"", 1)
        assert [(await a.message()).topic for _ in range(2)] == [TOPICS[1], TOPICS[2]]
        await a.silent()
        if version == V5:
            a.write(Unsubscribe(packet_id=9, patterns=(TOPICS[0], TOPICS[2], TOPICS[4])))
            reasons = (Reason.NO_SUBSCRIPTION_EXISTED, Reason.SUCCESS, Reason.NO_SUBSCRIPTION_EXISTED)
            assert (await a.expect(Unsuback)).reasons == reasons


# -- version 5 only ----------------------------------------------------------------------------------------------------


@awaited
async def test_session_expiry() -> None:
    brief = Properties(session_expiry_s=1)
    async with mqtt_node() as node:
        for expiry_s, present in ((0, False), (600, True)):
            async with Device.open(node, "a", properties=Properties(session_expiry_s=expiry_s)) as a:
                await a.subscribe(TOPICS[0], qos=2)
                await leave(a)
            async with Device.open(node, "a", clean_start=False, properties=brief) as a:
                assert a.connack.session_present is present
                await leave(a, Properties(session_expiry_s=int(present)))
        async with Device.open(node, "b", properties=brief) as b:
            await leave(b, Properties(session_expiry_s=600))
        await asyncio.sleep(1.1)
        for name, present in (("a", False), ("b", True)):
            async with Device.open(node, name, clean_start=False) as device:
                assert device.connack.session_present is present


@awaited
async def test_shared_subscriptions() -> None:
    async with mqtt_node() as node, Device.open(node, "a") as a, Device.open(node, "b") as b:
        for device in (a, b):
            await device.subscribe("$share/sharename/x", TOPICS[0], qos=2)
        await b.publish(TOPICS[0], b"", 0)
        assert (await a.message()).topic == (await b.message()).topic == TOPICS[0]
        async with Device.open(node, "c") as c:
            for number in range(10):
                await c.publish("x", b"%d" % number, 1)
        found = []
        for device in (a, b):
            device.write_bytes(b"\xc0\0")
            while isinstance(packet := await device.next(), Publish):
                device.write(Puback(packet_id=packet.packet_id))
                found.append(packet.payload)
        assert sorted(found) == [b"%d" % number for number in range(10)]


@awaited
async def test_publication_expiry() -> None:
    async with mqtt_node() as node, Device.open(node, "a") as a:
        async with Device.open(node, "b", **kept(V5)) as b:
            await b.subscribe(TOPICS[0], qos=2)
            await leave(b)
        for payload, expiry_s in ((b"qos 1 - expire", 1), (b"qos 1 - don't", 6), (b"qos 2 - expire", 1)):
            await a.publish(TOPICS[0], payload, 1, properties=Properties(message_expiry_s=expiry_s))
        await asyncio.sleep(1.5)
        async with Device.open(node, "b", **kept(V5)) as b:
            one = await b.message()
            assert (one.payload, one.properties.message_expiry_s in range(1, 6)) == (b"qos 1 - don't", True)
            await b.silent()


@awaited
async def test_subscribe_options() -> None:
    async with mqtt_node() as node, Device.open(node, "a") as a, Device.open(node, "b") as b:
        await a.subscribe(TOPICS[0], qos=2, no_local=True)
        await b.subscribe(TOPICS[0], qos=2, no_local=True)
        await a.publish(TOPICS[0], b"noLocal test", 1)
        assert (await b.message()).payload == b"noLocal test"
        await a.silent()
        for as_published in (True, False):
            await a.subscribe(TOPICS[1], qos=2, retain_as_published=as_published)
            await b.publish(TOPICS[1], b"1", 1)
            await b.publish(TOPICS[1], b"2", 1, retain=True)
            assert [(await a.message()).retain for _ in range(2)] == [False, as_published]
            await b.publish(TOPICS[1], b"", 1, retain=True)
            await a.message()


@awaited
async def test_subscription_identifiers() -> None:
    async with mqtt_node() as node, Device.open(node, "a") as a, Device.open(node, "b") as b:
        await a.subscribe(TOPICS[0], qos=2, properties=Properties(subscription_ids=(456789,)))
        await b.subscribe(TOPICS[0], qos=2, properties=Properties(subscription_ids=(2,)))
        await b.subscribe(TOPICS[0] + "/#", qos=2, properties=Properties(subscription_ids=(3,)))
        async with Device.open(node, "c") as c:
            await c.publish(TOPICS[0], b"sub identifier test", 1)
        assert (await a.message()).properties.subscription_ids == (456789,)
        assert sorted((await b.message()).properties.subscription_ids) == [2, 3]
        await b.silent()


@awaited
async def test_request_and_response() -> None:
    async with mqtt_node() as node, Device.open(node, "a") as a, Device.open(node, "b") as b:
        for device in (a, b):
            await device.subscribe(TOPICS[0], qos=2, no_local=True)
        asked = Properties(response_topic=TOPICS[0], correlation_data=b"334")
        await a.publish(TOPICS[0], b"request", 1, properties=asked)
        request = await b.message()
        assert request.properties == asked
        told = Properties(correlation_data=request.properties.correlation_data)
        await b.publish(str(request.properties.response_topic), b"response", 1, properties=told)
        response = await a.message()
        assert (response.payload, response.properties) == (b"response", told)


@awaited
async def test_topic_aliases_of_clients_end_with_the_connection() -> None:
    alias = Properties(topic_alias=1)
    async with mqtt_node() as node:
        async with Device.open(node, "a", **kept(V5)) as a, Device.open(node, "b") as b:
            await b.subscribe(TOPICS[0], qos=1)
            await a.publish(TOPICS[0], b"topic alias 1", 1, properties=alias)
            await a.publish("", b"topic alias 2", 1, properties=alias)
            found = [await b.message() for _ in range(2)]
            assert [(one.topic, one.properties.topic_alias) for one in found] == [(TOPICS[0], None)] * 2
            await leave(a)
        async with Device.open(node, "a", **kept(V5)) as a:
            a.write(Publish(topic="", payload=b"topic alias 3", properties=alias))
            assert (await a.expect(Disconnect)).reason is Reason.PROTOCOL_ERROR
            await a.ended()


@awaited
async def test_topic_aliases_of_the_server() -> None:
    async with mqtt_node() as node, Device.open(node, "a", properties=Properties(topic_alias_maximum=1)) as a:
        await a.subscribe(TOPICS[0], qos=2)
        async with Device.open(node, "b") as b:
            for qos in (0, 1, 2):
                await b.publish(TOPICS[0], b"qos %d" % qos, qos)
        found = [await a.message() for _ in range(3)]
        assert [(one.topic, one.properties.topic_alias) for one in found] == [(TOPICS[0], 1), ("", 1), ("", 1)]


@awaited
async def test_maximum_packet_size() -> None:
    async with mqtt_node() as node:
        async with Device.open(node, "a") as a:
            most = a.connack.properties.maximum_packet_size
            assert most is not None
            a.write(Publish(topic=TOPICS[0], payload=b"." * (most + 1)))
            assert (await a.expect(Disconnect)).reason is Reason.PACKET_TOO_LARGE
            await a.ended()
        async with Device.open(node, "a", properties=Properties(maximum_packet_size=64)) as a:
            await a.subscribe(TOPICS[0], qos=2)
            await a.publish(TOPICS[0], b"small")
            assert (await a.message()).payload == b"small"
            await a.publish(TOPICS[0], b"." * 63)
            await a.silent()


@awaited
async def test_server_keep_alive() -> None:
    """3.2.2.3.14: a client that asks for a longer keep alive than the node's is told the node's."""
    async with mqtt_node() as node:
        async with Device.open(node, "a", keep_alive_s=120) as a:
            assert a.connack.properties.server_keep_alive_s == 60
        for asked in (0, 60):
            async with Device.open(node, "a", keep_alive_s=asked) as a:
                assert a.connack.properties.server_keep_alive_s is None


@awaited
async def test_flow_control_of_messages_to_the_client() -> None:
    async with mqtt_node() as node, Device.open(node, "a", properties=Properties(receive_maximum=2)) as a:
        await a.subscribe(TOPICS[0], qos=2)
        for number in (1, 2, 3):
            a.write(Publish(topic=TOPICS[0], payload=b"message %d" % number, qos=1, packet_id=number))
            await a.find(Puback)
        found = [await a.find(Publish) for _ in range(2)]
        await a.silent()
        a.write(Puback(packet_id=found[0].packet_id))
        assert (await a.find(Publish)).payload == b"message 3"
        await a.silent()


@awaited
async def test_flow_control_of_messages_from_the_client() -> None:
    async with mqtt_node() as node, Device.open(node, "a") as a:
        most = a.connack.properties.receive_maximum
        assert most is not None
        for number in range(most + 1):
            a.write(Publish(topic=TOPICS[0], payload=b"%d" % number, qos=2, packet_id=number + 1))
        while isinstance(packet := await a.next(), Pubrec):
            pass
        assert isinstance(packet, Disconnect)
        assert packet.reason is Reason.RECEIVE_MAXIMUM_EXCEEDED


@awaited
async def test_will_delay() -> None:
    """The will comes with the end of the session at the latest (`test_retained` has the delay)."""
    async with mqtt_node() as node, Device.open(node, "b") as b:
        await b.subscribe(TOPICS[0], qos=2)
        will = Will(topic=TOPICS[0], payload=b"will", properties=Properties(will_delay_s=600))
        async with Device.open(node, "a", will=will, properties=Properties(session_expiry_s=1)):
            pass
        assert (await b.message()).payload == b"will"


@awaited
async def test_payload_format_and_user_properties() -> None:
    sent = Properties(
        payload_format=1, content_type="My name", message_expiry_s=600, user=(("a", "2"), ("c", "3"), ("a", "4"))
    )
    async with mqtt_node() as node, Device.open(node, "a") as a:
        await a.subscribe(TOPICS[0], qos=2)
        async with Device.open(node, "b") as b:
            for qos in (0, 1, 2):
                await b.publish(TOPICS[0], b"\xe2\x82\xac", qos, properties=sent)
        for _ in range(3):
            found = (await a.message()).properties
            assert (found.payload_format, found.content_type, found.user) == (1, "My name", sent.user)
