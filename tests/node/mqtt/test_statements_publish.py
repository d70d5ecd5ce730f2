"""PUBLISH and its acknowledgements, by their normative statements (2.2.1, 3.3 to 3.7, 4.3 to 4.6, 4.9).

Statements are numbered as in version 5, those of 3.1.1 say so.
"""

import asyncio
from typing import Any

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
from antecede.wire.mqtt.properties import NO_PROPERTIES, Properties
from antecede.wire.mqtt.reasons import Reason
from tests.node.mqtt.devices import Device, fresh, on_shared_node

BOTH = pytest.mark.parametrize("version", [V311, V5])
KEPT = Properties(session_expiry_s=600)


def kept(version: int, **more: Any) -> dict[str, Any]:
    """Settings of a CONNECT whose session outlives the connection."""
    return {"clean_start": False, "properties": KEPT if version == V5 else NO_PROPERTIES} | more


# -- identifiers and bytes ---------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("number", [1, 256, 65_535])
@on_shared_node
async def test_answers_have_the_identifier_of_what_they_answer(node: Node, version: int, number: int) -> None:
    """[MQTT-2.2.1-5], [MQTT-2.2.1-6], [MQTT-3.3.4-1], [MQTT-4.3.2-4], [MQTT-4.3.3-8], [MQTT-4.3.3-11].

    [MQTT-3.8.4-1], [MQTT-3.8.4-2], [MQTT-3.10.4-4], [MQTT-3.10.4-5]; 3.1.1 [MQTT-2.3.1-6], [MQTT-2.3.1-7],
    [MQTT-3.3.4-1], [MQTT-4.3.2-2], [MQTT-4.3.3-2], [MQTT-3.10.4-4], [MQTT-3.10.4-5].
    """
    topic = fresh("t")
    async with Device.open(node, fresh(), version) as device:
        for packet, kind in (
            (Publish(topic=topic, qos=1, packet_id=number), Puback),
            (Publish(topic=topic, qos=2, packet_id=number), Pubrec),
            (Pubrel(packet_id=number), Pubcomp),
            (Subscribe(packet_id=number, wanted=(Wanted(pattern=f"{topic}/x", qos=0),)), Suback),
            (Unsubscribe(packet_id=number, patterns=("never",)), Unsuback),
        ):
            device.write(packet)
            assert (await device.expect(kind)).packet_id == number
        device.write(Publish(topic=topic))  # QoS 0 has no answer
        await device.silent()


@on_shared_node
async def test_the_bytes_of_publish(node: Node) -> None:
    """[MQTT-2.2.1-2], [MQTT-2.2.2-1], [MQTT-3.3.2-1], [MQTT-4.3.1-1]; 3.1.1 [MQTT-2.3.1-5], [MQTT-4.3.1-1]."""
    for version, middle in ((V311, b""), (V5, b"\0")):
        topic = fresh("abcd")
        async with Device.open(node, fresh(), version) as device:
            await device.subscribe(topic)
            device.write(Publish(topic=topic, payload=b"xy"))
            body = len(topic).to_bytes(2) + topic.encode() + middle + b"xy"
            assert await device.bytes(2 + len(body)) == bytes((0x30, len(body))) + body


@BOTH
@on_shared_node
async def test_identifiers_are_not_in_use(node: Node, version: int) -> None:
    """[MQTT-2.2.1-4], [MQTT-4.3.2-1], [MQTT-4.3.3-1]; 3.1.1 [MQTT-2.3.1-4], [MQTT-4.3.2-1], [MQTT-4.3.3-1]."""
    topic = fresh("t")
    async with Device.open(node, fresh(), version) as reader, Device.open(node, fresh(), version) as writer:
        await reader.subscribe(topic, qos=2)
        in_use: set[int] = set()
        for number in range(60):
            await writer.publish(topic, b"%d" % number, 2)
            packet = await reader.expect(Publish)
            assert packet.packet_id not in in_use
            assert (packet.packet_id > 0, packet.qos, packet.dup) == (True, 2, False)
            in_use.add(packet.packet_id)
            if number % 3 == 0:
                reader.write(Pubrec(packet_id=packet.packet_id))
                await reader.expect(Pubrel)
                reader.write(Pubcomp(packet_id=packet.packet_id))
                in_use.remove(packet.packet_id)


@BOTH
@on_shared_node
async def test_dup_is_not_passed_on(node: Node, version: int) -> None:
    """[MQTT-3.3.1-3], [MQTT-4.3.2-2], [MQTT-4.3.3-2]; 3.1.1 [MQTT-3.3.1-3]."""
    topic = fresh("t")
    async with Device.open(node, fresh(), version) as reader, Device.open(node, fresh(), version) as writer:
        await reader.subscribe(topic, qos=2)
        for qos in (1, 2):
            writer.write(Publish(topic=topic, qos=qos, packet_id=qos, dup=True))
            assert not (await reader.message()).dup


# -- retained messages -------------------------------------------------------------------------------------------------


@BOTH
@on_shared_node
async def test_what_replaces_a_retained_message(node: Node, version: int) -> None:
    """[MQTT-3.3.1-5] to [MQTT-3.3.1-8]; 3.1.1 [MQTT-3.3.1-5], [MQTT-3.3.1-7], [MQTT-3.3.1-10] to [MQTT-3.3.1-12]."""
    topic = fresh("r")
    async with Device.open(node, fresh(), version) as writer, Device.open(node, fresh(), version) as live:
        await live.subscribe(topic, qos=2)

        async def retained() -> tuple[bytes, int] | None:
            async with Device.open(node, fresh(), version) as reader:
                await reader.subscribe(topic, qos=2)
                reader.write_bytes(b"\xc0\0")
                packet = await reader.next()
                return (packet.payload, packet.qos) if isinstance(packet, Publish) and packet.retain else None

        for payload, qos, retain, expected in (
            (b"one", 2, True, (b"one", 2)),
            (b"passes", 1, False, (b"one", 2)),
            (b"", 1, False, (b"one", 2)),  # empty, and not to be retained
            (b"two", 0, True, (b"two", 0)),
            (b"three", 1, True, (b"three", 1)),
            (b"", 0, True, None),
            (b"", 2, True, None),
        ):
            await writer.publish(topic, payload, qos, retain=retain)
            given = await live.message()
            assert (given.payload, given.qos, given.retain) == (payload, qos, False)
            assert await retained() == expected


# -- the two exchanges -------------------------------------------------------------------------------------------------


@BOTH
@on_shared_node
async def test_an_identifier_is_free_after_the_exchange(node: Node, version: int) -> None:
    """[MQTT-4.3.2-5], [MQTT-4.3.3-12]; 3.1.1 [MQTT-4.3.2-2], [MQTT-4.3.3-2]: it names a new one, with DUP or not."""
    topic = fresh("t")
    async with Device.open(node, fresh(), version) as reader, Device.open(node, fresh(), version) as writer:
        await reader.subscribe(topic)
        for number, dup in enumerate((False, True, True)):
            writer.write(Publish(topic=topic, payload=b"1 %d" % number, qos=1, packet_id=9, dup=dup))
            await writer.expect(Puback)
            writer.write(Publish(topic=topic, payload=b"2 %d" % number, qos=2, packet_id=9, dup=dup))
            await writer.expect(Pubrec)
            for _ in range(2):  # [MQTT-4.3.3-10]: the same message until PUBREL
                writer.write(Publish(topic=topic, payload=b"again", qos=2, packet_id=9, dup=True))
                assert (await writer.expect(Pubrec)).packet_id == 9
            writer.write(Pubrel(packet_id=9))
            await writer.expect(Pubcomp)
            assert [(await reader.message()).payload for _ in range(2)] == [b"1 %d" % number, b"2 %d" % number]
        await reader.silent()


@on_shared_node
async def test_a_refused_identifier_is_free(node: Node) -> None:
    """[MQTT-4.3.3-9]: after a PUBREC of 0x80 or more it names a new message. [MQTT-3.5.2-1]: its reason."""
    topic = fresh("t")
    async with Device.open(node, fresh()) as reader, Device.open(node, fresh()) as writer:
        await reader.subscribe(topic)
        writer.write(Publish(topic="$no", qos=2, packet_id=9))
        assert (await writer.expect(Pubrec)).reason is Reason.NOT_AUTHORIZED
        writer.write(Publish(topic=topic, payload=b"new", qos=2, packet_id=9))
        assert (await writer.expect(Pubrec)).reason is Reason.SUCCESS
        assert (await reader.message()).payload == b"new"


@BOTH
@on_shared_node
async def test_answers_go_in_the_order_of_what_they_answer(node: Node, version: int) -> None:
    """[MQTT-4.6.0-2] to [MQTT-4.6.0-4]; 3.1.1 [MQTT-4.6.0-2] to [MQTT-4.6.0-4]: PUBACK, PUBREC, and our PUBREL."""
    topic = fresh("t")
    async with Device.open(node, fresh(), version) as writer, Device.open(node, fresh(), version) as reader:
        await reader.subscribe(topic, qos=2)
        for number in range(1, 41):
            writer.write(Publish(topic=topic, payload=b"%d" % number, qos=1 + number % 2, packet_id=number))
        found = [await writer.next() for _ in range(40)]
        assert [(type(one), getattr(one, "packet_id", 0)) for one in found] == [
            (Pubrec if number % 2 else Puback, number) for number in range(1, 41)
        ]
        two = [packet for packet in [await reader.message() for _ in range(40)] if packet.qos == 2]
        # [MQTT-4.6.0-5], [MQTT-4.6.0-6]; 3.1.1 [MQTT-4.6.0-5], [MQTT-4.6.0-6]: in the order of their topic
        assert [int(packet.payload) for packet in two] == list(range(1, 41, 2))
        for number in range(1, 6):
            writer.write(Publish(topic=topic, qos=2, packet_id=100 + number))
        ids = [(await reader.expect(Publish)).packet_id for _ in range(5)]
        for packet_id in reversed(ids):
            reader.write(Pubrec(packet_id=packet_id))
        assert [(await reader.expect(Pubrel)).packet_id for _ in range(5)] == ids[::-1]


@on_shared_node
async def test_expiry_does_not_break_an_exchange(node: Node) -> None:
    """[MQTT-4.3.3-7], [MQTT-4.3.3-13]: a message that was sent once is sent again; the exchange goes on."""
    topic, name = fresh("t"), fresh()
    soon = Properties(message_expiry_s=1)
    async with Device.open(node, fresh()) as writer:
        async with Device.open(node, name, **kept(V5)) as reader:
            await reader.subscribe(topic, qos=2)
            writer.write(Publish(topic=topic, qos=2, packet_id=5, properties=soon))
            first = await reader.expect(Publish)
        await asyncio.sleep(1.1)
        writer.write(Publish(topic=topic, qos=2, packet_id=5, dup=True, properties=soon))
        for _ in range(2):
            assert (await writer.expect(Pubrec)).packet_id == 5
        writer.write(Pubrel(packet_id=5))
        assert (await writer.expect(Pubcomp)).reason is Reason.SUCCESS
        async with Device.open(node, name, **kept(V5)) as reader:
            again = await reader.message()
            assert (again.packet_id, again.dup, again.properties.message_expiry_s) == (first.packet_id, True, 0)


@BOTH
@on_shared_node
async def test_a_message_without_an_acknowledgement_waits(node: Node, version: int) -> None:
    """[MQTT-4.3.2-3], [MQTT-4.3.3-3], [MQTT-4.3.3-5], [MQTT-4.4.0-1]; 3.1.1 [MQTT-4.4.0-1]: on the next connection.

    [MQTT-4.5.0-1], [MQTT-3.1.2-5] of 3.1.1: what is published meanwhile waits for the client, too.
    """
    topic, name = fresh("t"), fresh()
    async with Device.open(node, fresh(), version) as writer:
        async with Device.open(node, name, version, **kept(version)) as reader:
            await reader.subscribe(topic, qos=2)
            for qos in (1, 2):
                await writer.publish(topic, b"%d" % qos, qos)
                await reader.expect(Publish)
            await asyncio.sleep(0.2)
            await reader.silent()
        await writer.publish(topic, b"away", 1)
        for _ in range(2):  # as often as the connection breaks
            async with Device.open(node, name, version, **kept(version)) as reader:
                found = [await reader.expect(Publish) for _ in range(2)]
                assert [(one.payload, one.dup) for one in found] == [(b"1", True), (b"2", True)]
                await reader.silent()  # "away" has a lower QoS than "2", which is not released
        async with Device.open(node, name, version, **kept(version)) as reader:
            assert [(await reader.message()).payload for _ in range(3)] == [b"1", b"2", b"away"]
        async with Device.open(node, name, version, **kept(version)) as reader:
            await reader.silent()


# -- flow control ------------------------------------------------------------------------------------------------------


@on_shared_node
async def test_what_gives_quota_back(node: Node) -> None:
    """[MQTT-3.3.4-9], [MQTT-4.9.0-1] to [MQTT-4.9.0-3], [MQTT-3.3.4-10]: PUBACK, PUBCOMP, PUBREC of 0x80 or more."""
    topic = fresh("t")
    async with (
        Device.open(node, fresh()) as writer,
        Device.open(node, fresh(), properties=Properties(receive_maximum=1)) as reader,
    ):
        await reader.subscribe(topic, qos=2)
        for number, qos in enumerate((2, 1, 2, 2, 1)):
            await writer.publish(topic, b"%d" % number, qos)
        one = await reader.expect(Publish)
        reader.write(Pubrec(packet_id=one.packet_id))
        await reader.expect(Pubrel)
        await reader.silent()  # PUBREC alone does not
        reader.write(Pubcomp(packet_id=one.packet_id))
        two = await reader.expect(Publish)
        assert two.payload == b"1"
        await reader.silent()
        reader.write(Puback(packet_id=two.packet_id))
        three = await reader.expect(Publish)
        reader.write(Pubrec(packet_id=three.packet_id, reason=Reason.UNSPECIFIED))
        four = await reader.message()
        five = await reader.message()
        assert (three.payload, four.payload, five.payload) == (b"2", b"3", b"4")
        answer = await reader.subscribe("x")
        assert not answer.reasons[0].failed


@BOTH
@on_shared_node
async def test_a_message_that_is_too_large_counts_as_sent(node: Node, version: int) -> None:
    """[MQTT-3.1.2-25]: others follow it, it does not come later, and it takes no quota. 3.1.1 has no such bound."""
    topic, name = fresh("t"), fresh()
    small = Properties(maximum_packet_size=40, receive_maximum=1, session_expiry_s=600)
    async with Device.open(node, fresh(), version) as writer:
        async with Device.open(node, name, properties=small) as reader:
            await reader.subscribe(topic, qos=2)
            for qos in (0, 1, 2):
                await writer.publish(topic, b"." * 100, qos)
            await writer.publish(topic, b"small", 1)
            assert (await reader.message()).payload == b"small"
            await reader.silent()
        async with Device.open(node, name, **kept(V5)) as reader:
            assert reader.connack.session_present
            await reader.silent()


# -- topic aliases -----------------------------------------------------------------------------------------------------


@on_shared_node
async def test_all_topic_aliases_up_to_the_maximum(node: Node) -> None:
    """[MQTT-3.3.2-12], [MQTT-3.3.2-7]: an alias of the client is not that of a reader ([MQTT-3.1.2-27])."""
    topic = fresh("t")
    async with Device.open(node, fresh()) as writer, Device.open(node, fresh()) as reader:
        most = writer.connack.properties.topic_alias_maximum
        assert most
        await reader.subscribe(f"{topic}/#")
        for name in (True, False):
            for alias in range(1, most + 1):
                writer.write(
                    Publish(topic=f"{topic}/{alias}" if name else "", properties=Properties(topic_alias=alias))
                )
        found = [await reader.message() for _ in range(2 * most)]
        assert [one.topic for one in found] == [f"{topic}/{alias}" for alias in range(1, most + 1)] * 2
        assert {one.properties for one in found} == {NO_PROPERTIES}


@on_shared_node
async def test_topic_aliases_of_the_server_are_within_the_bound_of_the_client(node: Node) -> None:
    """[MQTT-3.1.2-26], [MQTT-3.1.2-27], [MQTT-3.3.2-11]; and they end with the connection ([MQTT-3.3.2-7])."""
    topic, name = fresh("t"), fresh()
    two = Properties(topic_alias_maximum=2, session_expiry_s=600)
    async with Device.open(node, fresh()) as writer:
        async with Device.open(node, name, properties=two) as reader:
            await reader.subscribe(f"{topic}/#", qos=1)
            for number in (0, 1, 2, 0, 1, 2):
                await writer.publish(f"{topic}/{number}", b"", 1)
            names: dict[int, str] = {}
            for number in (0, 1, 2, 0, 1, 2):
                one = await reader.message()
                alias = one.properties.topic_alias
                assert alias in (1, 2, None)
                if alias is not None and one.topic:
                    names[alias] = one.topic
                assert (one.topic or names[alias or 0]) == f"{topic}/{number}"
            await writer.publish(f"{topic}/0", b"", 1)
            assert (await reader.expect(Publish)).topic == ""
        async with Device.open(node, name, clean_start=False, properties=two) as reader:
            assert (await reader.message()).topic == f"{topic}/0"
            reader.write(Disconnect())
            await reader.ended()


@on_shared_node
async def test_an_alias_takes_another_topic(node: Node) -> None:
    """3.3.2.3.4: the last topic counts."""
    topic = fresh("t")
    alias = Properties(topic_alias=3)
    async with Device.open(node, fresh()) as writer, Device.open(node, fresh()) as reader:
        await reader.subscribe(f"{topic}/+")
        for name in ("a", "", "b", ""):
            writer.write(Publish(topic=f"{topic}/{name}" if name else "", properties=alias))
        assert [(await reader.message()).topic[-1] for _ in range(4)] == ["a", "a", "b", "b"]
