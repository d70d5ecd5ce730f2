"""CONNECT, CONNACK, DISCONNECT, wills and sessions, by their normative statements (3.1, 3.2, 3.14, 4.1, 4.12).

Statements are numbered as in version 5, those of 3.1.1 say so.
"""

import asyncio
import string
import time
from typing import Any

import pytest

from antecede import Node
from antecede.wire.mqtt.packets import (
    V5,
    V311,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Unsuback,
    Unsubscribe,
    Will,
)
from antecede.wire.mqtt.properties import NO_PROPERTIES, Properties
from antecede.wire.mqtt.reasons import Reason
from tests.client.running import awaited
from tests.node.mqtt.devices import Device, fresh, mqtt_node, on_shared_node

BOTH = pytest.mark.parametrize("version", [V311, V5])
KEPT = Properties(session_expiry_s=600)


def kept(version: int, **more: Any) -> dict[str, Any]:
    """Settings of a CONNECT whose session outlives the connection."""
    return {"clean_start": False, "properties": KEPT if version == V5 else NO_PROPERTIES} | more


# -- client identifiers ------------------------------------------------------------------------------------------------


@BOTH
@on_shared_node
async def test_client_identifiers_of_all_forms(node: Node, version: int) -> None:
    """[MQTT-3.1.3-5]: 1 to 23 letters and digits. All other text up to 65,535 bytes is taken, too."""
    letters = string.digits + string.ascii_letters
    every = "".join(map(chr, range(1, 128)))
    for client_id in (*letters, letters[:23], letters[-23:], every, "\u00e4" * 30, "n" * 65_535):
        async with Device.open(node, client_id, version) as device:
            await device.silent()


@on_shared_node
async def test_an_assigned_client_identifier_is_like_one_of_the_client(node: Node) -> None:
    """[MQTT-3.1.3-6], [MQTT-3.1.3-7], [MQTT-3.2.2-16]: it is new, and names the session from then on."""
    names = set()
    for clean_start in (True, False, True):
        async with Device.open(node, "", clean_start=clean_start, properties=KEPT) as device:
            assert not device.connack.session_present
            names.add(device.connack.properties.assigned_client_id)
    assert len(names) == 3
    for name in names:
        assert name
        async with Device.open(node, name, clean_start=False) as device:
            assert device.connack.session_present
            assert device.connack.properties.assigned_client_id is None


@on_shared_node
async def test_an_empty_client_identifier_with_3_1_1(node: Node) -> None:
    """3.1.1 [MQTT-3.1.3-6] to [MQTT-3.1.3-8], [MQTT-3.2.2-4], [MQTT-3.2.2-5]: only for a clean session."""
    async with Device.open(node, "", V311) as one, Device.open(node, "", V311) as two:
        await one.silent()
        await two.silent()
    device = await Device.dial(node, V311)
    device.write(Connect(version=V311, clean_start=False))
    answer = await device.expect(Connack)
    assert (answer.reason, answer.session_present) == (Reason.CLIENT_ID_NOT_VALID, False)
    await device.ended()


# -- CONNACK -----------------------------------------------------------------------------------------------------------


@BOTH
@on_shared_node
async def test_session_present(node: Node, version: int) -> None:
    """[MQTT-3.2.2-1] to [MQTT-3.2.2-3], [MQTT-3.1.4-4], [MQTT-3.1.4-5]; 3.1.1 [MQTT-3.2.2-1] to [MQTT-3.2.2-3].

    [MQTT-3.1.2-4] to [MQTT-3.1.2-6]; 3.1.1 [MQTT-3.1.2-4], [MQTT-3.1.2-6]: Clean Start ends what there was.
    """
    name, topic = fresh(), fresh("t")
    for clean_start, present in ((False, False), (False, True), (True, False), (False, version == V5)):
        async with Device.open(node, name, version, **kept(version, clean_start=clean_start)) as device:
            assert (device.connack.session_present, device.connack.reason) == (present, Reason.SUCCESS)
            if present:
                continue
            await device.publish(topic, b"", 1)
            await device.silent()  # it has no subscription yet, or no longer
            await device.subscribe(topic, qos=1)
    async with Device.open(node, name, version, **kept(version)) as device:
        await device.publish(topic, b"mine")
        assert (await device.message()).payload == b"mine"


@on_shared_node
async def test_the_bytes_of_connack(node: Node) -> None:
    """[MQTT-3.2.2-1]: reserved bits are 0. [MQTT-3.2.0-2]: it comes once. 3.1.1 [MQTT-3.2.0-1]: it comes first."""
    for version, answer in ((4, b"\x20\2\0\0\xd0\0"), (5, b"\x20\x0e\0\0\x0b\x21\4\0\x22\0\x40\x27\0\x08\0\0\xd0\0")):
        name = fresh("abc").encode()
        device = await Device.dial(node)
        middle = b"\2\0\0\0" if version == 5 else b"\2\0\0"
        body = b"\0\4MQTT" + bytes((version,)) + middle + len(name).to_bytes(2) + name
        device.write_bytes(b"\x10" + bytes((len(body),)) + body + b"\xc0\0")
        assert await device.bytes(len(answer)) == answer
        device.cut()


@on_shared_node
async def test_nothing_is_larger_than_the_client_accepts(node: Node) -> None:
    """[MQTT-3.1.2-24], [MQTT-3.2.2-19], [MQTT-3.2.2-20]: also no CONNACK or SUBACK. The connection ends instead."""
    device = await Device.dial(node)
    device.write(Connect(properties=Properties(maximum_packet_size=20)))  # the identifier that it gets does not fit
    assert (await device.expect(Connack)).reason is Reason.PACKET_TOO_LARGE
    await device.ended()
    async with Device.open(node, fresh(), properties=Properties(maximum_packet_size=20)) as device:
        answer = await device.subscribe("a", "b")
        assert len(answer.reasons) == 2
        device.write(Unsubscribe(packet_id=7, patterns=tuple(map(str, range(20)))))
        assert (await device.expect(Disconnect)).reason is Reason.PACKET_TOO_LARGE
        await device.ended()
    device = await Device.dial(node)
    device.write(Connect(client_id="a", properties=Properties(maximum_packet_size=2)))
    await device.ended()


@on_shared_node
async def test_refusals_have_a_reason_of_their_packet(node: Node) -> None:
    """[MQTT-3.2.2-6] to [MQTT-3.2.2-8], [MQTT-3.1.4-2], [MQTT-3.1.4-6], [MQTT-4.12.0-1], [MQTT-4.12.0-4]."""
    cases: list[tuple[dict[str, Any], Reason]] = [
        ({"properties": Properties(authentication_method="SCRAM")}, Reason.BAD_AUTHENTICATION_METHOD),
        ({"will": Will(topic="$x", payload=b"")}, Reason.NOT_AUTHORIZED),
    ]
    for more, reason in cases:
        device = await Device.dial(node)
        device.write(Connect(client_id=fresh(), **more))
        device.write(Pingreq())
        answer = await device.expect(Connack)
        assert (answer.reason, answer.session_present) == (reason, False)
        await device.ended()


@on_shared_node
async def test_no_more_is_told_than_the_client_asks_for(node: Node) -> None:
    """[MQTT-3.1.2-28], [MQTT-3.1.2-29], [MQTT-4.12.0-6]: neither response information nor reason strings come.

    [MQTT-3.4.2-2] and its like, to [MQTT-3.14.2-4]: so they make no packet larger.
    """
    asked = Properties(request_problem_info=0, request_response_info=0)
    async with Device.open(node, fresh(), properties=asked) as device:
        told = device.connack.properties
        assert (told.response_info, told.reason_string, told.user) == (None, None, ())
        assert (told.authentication_method, told.authentication_data) == (None, None)
        answers: list[Any] = [await device.subscribe("$x", "t" * 2000)]
        for packet, kind in (
            (Unsubscribe(packet_id=1, patterns=("x",)), Unsuback),
            (Publish(topic="$x", qos=1, packet_id=2), Puback),
            (Publish(topic="$x", qos=2, packet_id=3), Pubrec),
            (Pubrel(packet_id=4), Pubcomp),
            (Pubrec(packet_id=5), Pubrel),
        ):
            device.write(packet)
            answers.append(await device.expect(kind))
        assert {answer.properties for answer in answers} == {NO_PROPERTIES}
        assert answers[2].reason is answers[3].reason is Reason.NOT_AUTHORIZED


# -- keep alive --------------------------------------------------------------------------------------------------------


@awaited
async def test_keep_alive() -> None:
    """[MQTT-3.1.2-22], [MQTT-3.2.2-21], [MQTT-3.2.2-22]; 3.1.1 [MQTT-3.1.2-24]: silence ends a connection, packets keep
    it. The node's keep alive counts where it told one; a keep alive of 0 has no end."""
    async with mqtt_node(mqtt_keep_alive_s=1) as node:

        async def silent(version: int, asked_s: int) -> None:
            async with Device.open(node, fresh(), version, keep_alive_s=asked_s) as device:
                if version == V5:
                    assert device.connack.properties.server_keep_alive_s == (None if asked_s == 1 else 1)
                    assert (await device.expect(Disconnect)).reason is Reason.KEEP_ALIVE_TIMEOUT
                await device.ended()

        async def busy(version: int) -> None:
            async with Device.open(node, fresh(), version, keep_alive_s=1) as device:
                for _ in range(6):
                    await asyncio.sleep(0.4)
                    await device.silent()  # PINGREQ and PINGRESP ([MQTT-3.12.4-1])

        async def patient(version: int, asked_s: int) -> None:
            async with Device.open(node, fresh(), version, keep_alive_s=asked_s) as device:
                await asyncio.sleep(2.2)
                await device.silent()

        work = [silent(V311, 1), silent(V5, 1), silent(V5, 100), busy(V311), busy(V5)]
        await asyncio.gather(*work, patient(V311, 0), patient(V5, 0), patient(V311, 100))


@on_shared_node
async def test_a_busy_node_reads_before_it_judges_silence(node: Node) -> None:
    """[MQTT-3.1.2-22]: a packet that came in time counts, though the node did not run until the time was over."""
    async with Device.open(node, fresh(), keep_alive_s=1) as device:
        await device.silent()
        asyncio.get_running_loop().call_later(0.5, device.write, Pingreq())
        time.sleep(1.6)  # the node does not run meanwhile, as on a machine without time for it
        await device.expect(Pingresp)


# -- wills -------------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("retain", [False, True])
@on_shared_node
async def test_qos_and_retain_of_a_will(node: Node, version: int, retain: bool) -> None:
    """[MQTT-3.1.2-7], [MQTT-3.1.2-14], [MQTT-3.1.2-15]; 3.1.1 [MQTT-3.1.2-8], [MQTT-3.1.2-16], [MQTT-3.1.2-17]."""
    topic = fresh("w")
    async with Device.open(node, fresh(), version) as reader:
        await reader.subscribe(topic, qos=2)
        for qos in (0, 1, 2):
            will = Will(topic=topic, payload=b"%d" % qos, qos=qos, retain=retain)
            async with Device.open(node, fresh(), version, will=will):
                pass
            one = await reader.message()
            assert (one.payload, one.qos, one.retain) == (b"%d" % qos, qos, False)
            await reader.subscribe(topic, qos=2)
            if retain:
                one = await reader.message()
                assert (one.payload, one.qos, one.retain) == (b"%d" % qos, qos, True)
            await reader.silent()


@on_shared_node
async def test_properties_of_a_will(node: Node) -> None:
    """[MQTT-3.1.3-10] and 3.1.3.2: they come with the message, user properties in their order."""
    topic = fresh("w")
    given = Properties(
        payload_format=1,
        message_expiry_s=50,
        content_type="text",
        response_topic="back",
        correlation_data=b"\0\1",
        user=(("b", "1"), ("a", "2"), ("b", "3")),
    )
    async with Device.open(node, fresh()) as reader:
        await reader.subscribe(topic)
        async with Device.open(node, fresh(), will=Will(topic=topic, payload=b"", properties=given)):
            pass
        assert (await reader.message()).properties == given


@BOTH
@on_shared_node
async def test_a_will_is_published_once(node: Node, version: int) -> None:
    """[MQTT-3.1.2-10]; 3.1.1 [MQTT-3.1.2-10], [MQTT-3.1.2-12]: a connection without a will has none."""
    topic, name = fresh("w"), fresh()
    async with Device.open(node, fresh(), version) as reader:
        await reader.subscribe(topic)
        async with Device.open(node, name, version, **kept(version, will=Will(topic=topic, payload=b"once"))):
            pass
        assert (await reader.message()).payload == b"once"
        async with Device.open(node, name, version, **kept(version)) as device:
            assert device.connack.session_present
        await reader.silent()
        for _ in range(2):
            async with Device.open(
                node, name, version, **kept(version, will=Will(topic=topic, payload=b"no"))
            ) as device:
                device.write(Disconnect())  # [MQTT-3.14.4-3]
                await device.ended()
            await reader.silent()


@on_shared_node
async def test_a_delayed_will_and_a_new_session(node: Node) -> None:
    """3.1.4: Clean Start ends the old session, and publishes its will. DISCONNECT 0x04 with expiry 0 ends it, too."""
    topic, name = fresh("w"), fresh()
    will = Will(topic=topic, payload=b"old", properties=Properties(will_delay_s=600))
    async with Device.open(node, fresh()) as reader:
        await reader.subscribe(topic)
        async with Device.open(node, name, will=will, properties=KEPT):
            pass
        async with Device.open(node, name, will=will, properties=KEPT) as device:
            assert (await reader.message()).payload == b"old"
            ending = Properties(session_expiry_s=0)
            device.write(Disconnect(reason=Reason.DISCONNECT_WITH_WILL, properties=ending))
            await device.ended()
        assert (await reader.message()).payload == b"old"
        await reader.silent()


# -- sessions ----------------------------------------------------------------------------------------------------------


@BOTH
@on_shared_node
async def test_retained_messages_are_not_of_the_session(node: Node, version: int) -> None:
    """3.1.1 [MQTT-3.1.2-7]; version 5, 4.1: they stay when the session of their publisher ends."""
    topic = fresh("r")
    async with Device.open(node, fresh(), version) as writer:
        await writer.publish(topic, b"stays", 1, retain=True)
        writer.write(Disconnect())
        await writer.ended()
    async with Device.open(node, fresh(), version) as reader:
        await reader.subscribe(topic)
        assert (await reader.message()).payload == b"stays"


@on_shared_node
async def test_a_session_lives_as_long_as_its_connection(node: Node) -> None:
    """[MQTT-4.1.0-1], 3.1.1 [MQTT-4.1.0-1], [MQTT-4.1.0-2]: also one that expires with it; it is not found later."""
    name, topic = fresh(), fresh("t")
    for version in (V5, V311):
        async with Device.open(node, name, version) as device:
            assert not device.connack.session_present
            await device.subscribe(topic, qos=2)
            await asyncio.sleep(0.6)  # longer than the node's look at sessions that are over
            await device.publish(topic, b"x")
            assert (await device.message()).payload == b"x"


@pytest.mark.parametrize(("old", "new"), [(V311, V5), (V5, V311), (V5, V5)])
@on_shared_node
async def test_a_takeover(node: Node, old: int, new: int) -> None:
    """[MQTT-3.1.4-3], [MQTT-3.1.3-2], [MQTT-3.14.2-2]; 3.1.1 [MQTT-3.1.4-2]: from a client of any version."""
    name, topic = fresh(), fresh("t")
    async with Device.open(node, name, old, **kept(old)) as one:
        await one.subscribe(topic, qos=1)
        async with Device.open(node, name, new, **kept(new)) as two:
            assert two.connack.session_present
            if old == V5:
                assert await one.bytes(4) == b"\xe0\1\x8e"
            await one.ended()
            await two.publish(topic, b"x")
            assert (await two.message()).payload == b"x"


@on_shared_node
async def test_what_follows_disconnect_is_not_handled(node: Node) -> None:
    """3.14.4: the node closes, and answers nothing more."""
    for version in (V311, V5):
        async with Device.open(node, fresh(), version) as device:
            device.write_bytes(b"\xe0\0\xc0\0")
            await device.ended()
    async with Device.open(node, fresh()) as device:
        device.write(Pingreq())
        await device.expect(Pingresp)
