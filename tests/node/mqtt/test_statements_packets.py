"""Packets that are not valid, by the normative statements of both versions (chapters 1 to 3, 4.7, 4.13).

Every row names its statements, as version 5 numbers them unless it says 3.1.1. The node must close the connection, and
with version 5 say why.
"""

from typing import NamedTuple

import pytest

from antecede import Node
from antecede.wire.mqtt.packets import V5, V311, Connack, Disconnect, Will
from antecede.wire.mqtt.reasons import Reason
from tests.node.mqtt.devices import Device, fresh, on_shared_node

MALFORMED, ERROR = Reason.MALFORMED_PACKET, Reason.PROTOCOL_ERROR
BAD_NAME, BAD_FILTER, BAD_ALIAS = Reason.TOPIC_NAME_INVALID, Reason.TOPIC_FILTER_INVALID, Reason.TOPIC_ALIAS_INVALID
BOTH = (V311, V5)


def text(data: bytes) -> bytes:
    return len(data).to_bytes(2) + data


def props(data: bytes = b"") -> bytes:
    assert len(data) < 0x80
    return bytes((len(data),)) + data


def framed(first: int, body: bytes) -> bytes:
    return bytes((first, len(body))) + body


# -- CONNECT -----------------------------------------------------------------------------------------------------------


class BadConnect(NamedTuple):
    """`flags`, then the properties (version 5), the client identifier and the `rest`."""

    statements: str
    flags: int = 0x02
    rest: bytes = b""
    properties: bytes = b""
    will: bytes = b""
    client_id: bytes = b"\0\1a"
    reason: Reason = MALFORMED
    versions: tuple[int, ...] = BOTH


ONLY_5 = (V5,)

BAD_CONNECTS = [
    BadConnect("[MQTT-3.1.2-3] the reserved bit", 0x03),
    BadConnect("[MQTT-3.1.2-11], 3.1.1 [MQTT-3.1.2-13] QoS of no will", 0x0A),
    BadConnect("[MQTT-3.1.2-13], 3.1.1 [MQTT-3.1.2-11] and [MQTT-3.1.2-15] retain of no will", 0x22),
    BadConnect("[MQTT-3.1.2-12], 3.1.1 [MQTT-3.1.2-14] will QoS 3", 0x1E, text(b"w") + text(b"")),
    BadConnect("[MQTT-3.1.2-9] a will without its fields", 0x06),
    BadConnect("[MQTT-3.1.2-16], 3.1.1 [MQTT-3.1.2-18] a user name without its flag", 0x02, text(b"u")),
    BadConnect("[MQTT-3.1.2-17], 3.1.1 [MQTT-3.1.2-19] the flag without a user name", 0x82),
    BadConnect("[MQTT-3.1.2-18], 3.1.1 [MQTT-3.1.2-20] a password without its flag", 0x82, text(b"u") + text(b"p")),
    BadConnect("[MQTT-3.1.2-19], 3.1.1 [MQTT-3.1.2-21] the flag without a password", 0xC2, text(b"u")),
    BadConnect("3.1.1 [MQTT-3.1.2-22] a password and no user name", 0x42, text(b"p"), versions=(V311,)),
    BadConnect("[MQTT-3.1.3-3] no client identifier", client_id=b""),
    BadConnect("[MQTT-3.1.3-4] a client identifier that is not UTF-8", client_id=text(b"\xff")),
    BadConnect("[MQTT-1.5.4-2], 3.1.1 [MQTT-1.5.3-2] NUL in a client identifier", client_id=text(b"a\0")),
    BadConnect("[MQTT-3.1.3-11], 3.1.1 [MQTT-3.1.3-10] a will topic, not UTF-8", 0x06, text(b"\xff") + text(b"")),
    BadConnect("[MQTT-4.7.0-1] a wildcard in a will topic", 0x06, text(b"#") + text(b""), reason=BAD_NAME),
    BadConnect("[MQTT-4.7.3-1] an empty will topic", 0x06, text(b"") + text(b""), reason=BAD_NAME),
    BadConnect("[MQTT-3.1.3-12], 3.1.1 [MQTT-3.1.3-11] a user name that is not UTF-8", 0x82, text(b"\xc3\x28")),
    BadConnect("[MQTT-1.5.4-1], 3.1.1 [MQTT-1.5.3-1] a surrogate", 0x82, text(b"\xed\xa0\x80")),
    BadConnect("[MQTT-1.5.4-2], 3.1.1 [MQTT-1.5.3-2] NUL in a user name", 0x82, text(b"\0")),
    BadConnect("[MQTT-3.1.3-1] fields in another order", 0x86, text(b"user") + text(b"w"), reason=MALFORMED),
    BadConnect("2.2.2 an unknown property", properties=b"\x7f\0", versions=ONLY_5),
    BadConnect("2.2.2 a property of another packet", properties=b"\x23\0\1", versions=ONLY_5),
    BadConnect("[MQTT-1.5.5-1] an identifier in more bytes than needed", properties=b"\xa1\0\0\5", versions=ONLY_5),
    BadConnect("[MQTT-1.5.7-1] NUL in a user property", properties=b"\x26\0\1\0\0\1b", versions=ONLY_5),
    BadConnect("3.1.2.11.2 twice", properties=b"\x11\0\0\0\1" * 2, reason=ERROR, versions=ONLY_5),
    BadConnect("3.1.2.11.3 receive maximum 0", properties=b"\x21\0\0", reason=ERROR, versions=ONLY_5),
    BadConnect("3.1.2.11.4 packet size 0", properties=b"\x27\0\0\0\0", reason=ERROR, versions=ONLY_5),
    BadConnect("3.1.2.11.6 response information 2", properties=b"\x19\2", reason=ERROR, versions=ONLY_5),
    BadConnect("3.1.2.11.7 problem information 2", properties=b"\x17\2", reason=ERROR, versions=ONLY_5),
    BadConnect("3.1.2.11.10 data without method", properties=b"\x16\0\1x", reason=ERROR, versions=ONLY_5),
    BadConnect("3.1.3.2.3 payload format 2", 0x06, text(b"w") + text(b""), will=b"\1\2", reason=ERROR, versions=ONLY_5),
    BadConnect(
        "[MQTT-3.3.2-14] a wildcard in the response topic of a will",
        *(0x06, text(b"w") + text(b"")),
        will=b"\x08\0\1#",
        reason=ERROR,
        versions=ONLY_5,
    ),
    BadConnect(
        "2.2.2 a property of CONNECT in a will",
        *(0x06, text(b"w") + text(b"")),
        will=b"\x21\0\1",
        versions=ONLY_5,
    ),
]


@pytest.mark.parametrize(
    ("version", "bad"),
    [(version, bad) for bad in BAD_CONNECTS for version in bad.versions],
    ids=lambda one: one.statements if isinstance(one, BadConnect) else str(one),
)
@on_shared_node
async def test_a_connect_that_is_not_valid(node: Node, version: int, bad: BadConnect) -> None:
    """[MQTT-3.1.4-1]: closed; with 3.1.1 without CONNACK, with version 5 after a CONNACK that says why."""
    rest = bad.rest
    if version == V5 and bad.flags & 4 and rest:
        rest = props(bad.will) + rest
    body = b"\0\4MQTT" + bytes((version, bad.flags)) + b"\0\0"
    body += (props(bad.properties) if version == V5 else b"") + bad.client_id + rest
    device = await Device.dial(node, version)
    device.write_bytes(framed(0x10, body))
    if version == V5:
        answer = await device.expect(Connack)
        assert (answer.reason, answer.session_present) == (bad.reason, False)
    await device.ended()


@pytest.mark.parametrize("number", [0, 3, 6, 0x84])
@on_shared_node
async def test_a_version_that_is_not_spoken(node: Node, number: int) -> None:
    """3.1.1 [MQTT-3.1.2-2]: CONNACK with return code 1. Version 5 leaves the form open ([MQTT-3.1.2-2])."""
    device = await Device.dial(node, V311)
    device.write_bytes(framed(0x10, b"\0\4MQTT" + bytes((number,)) + b"\2\0\0\0\0\0"))
    assert (await device.expect(Connack)).reason is Reason.UNSUPPORTED_VERSION
    await device.ended()


@pytest.mark.parametrize("name", [b"mqtt", b"MQTTX", b"", b"\xff"])
@on_shared_node
async def test_a_protocol_that_is_not_spoken(node: Node, name: bytes) -> None:
    """[MQTT-3.1.2-1], in both versions: closed."""
    device = await Device.dial(node, V311)
    device.write_bytes(framed(0x10, text(name) + b"\4\2\0\0\0\0"))
    await device.ended()


@pytest.mark.parametrize("first", [0x00, 0x20, 0x30, 0x40, 0x62, 0x82, 0xA2, 0xC0, 0xD0, 0xE0, 0xF0, 0x11])
@on_shared_node
async def test_no_packet_goes_before_connect(node: Node, first: int) -> None:
    """[MQTT-3.1.0-1], [MQTT-2.1.3-1], [MQTT-3.14.0-1]: closed, without DISCONNECT."""
    device = await Device.dial(node)
    device.write_bytes(framed(first, b"\0\1"))
    await device.ended()


# -- packets after CONNECT ---------------------------------------------------------------------------------------------


class BadPacket(NamedTuple):
    """The first byte, and the body in each version; None: that version does not have it."""

    statements: str
    first: int
    old: bytes | None
    new: bytes | None
    reason: Reason = MALFORMED


BAD_PACKETS = [
    BadPacket("[MQTT-2.1.3-1], 3.1.1 [MQTT-2.2.2-2] a reserved type", 0x00, b"", b""),
    BadPacket("3.1.1 [MQTT-2.2.2-2] type 15", 0xF0, b"", None),
    BadPacket("[MQTT-3.1.0-2] a second CONNECT", 0x10, b"\0\4MQTT\4\2\0\0\0\1a", b"\0\4MQTT\5\2\0\0\0\0\1a", ERROR),
    BadPacket("3.2 CONNACK is the server's", 0x20, b"\0\0", b"\0\0\0", ERROR),
    BadPacket("3.9 SUBACK is the server's", 0x90, b"\0\1\0", b"\0\1\0\0", ERROR),
    BadPacket("3.11 UNSUBACK is the server's", 0xB0, b"\0\1", b"\0\1\0\0", ERROR),
    BadPacket("3.13 PINGRESP is the server's", 0xD0, b"", b"", ERROR),
    # PUBLISH
    BadPacket("[MQTT-3.3.1-4] QoS 3", 0x36, b"\0\1t\0\1", b"\0\1t\0\1\0"),
    BadPacket("[MQTT-3.3.1-2] DUP with QoS 0", 0x38, b"\0\1t", b"\0\1t\0"),
    BadPacket("[MQTT-2.2.1-3], 3.1.1 [MQTT-2.3.1-1] identifier 0", 0x32, b"\0\1t\0\0", b"\0\1t\0\0\0", ERROR),
    BadPacket("[MQTT-3.3.2-1] no topic", 0x30, b"", b""),
    BadPacket("[MQTT-3.3.2-1] a topic that is not UTF-8", 0x30, b"\0\2\xc3\x28", b"\0\2\xc3\x28\0"),
    BadPacket("[MQTT-3.3.2-2], [MQTT-4.7.0-1], 3.1.1 [MQTT-4.7.1-1] +", 0x30, b"\0\3a/+", b"\0\3a/+\0", BAD_NAME),
    BadPacket("[MQTT-3.3.2-2], [MQTT-4.7.0-1], 3.1.1 [MQTT-4.7.1-1] #", 0x30, b"\0\1#", b"\0\1#\0", BAD_NAME),
    BadPacket("[MQTT-4.7.3-1] an empty topic", 0x30, b"\0\0", b"\0\0\0", ERROR),
    BadPacket("[MQTT-4.7.3-2] NUL in a topic", 0x30, b"\0\2a\0", b"\0\2a\0\0"),
    BadPacket("[MQTT-3.3.2-8] alias 0", 0x30, None, b"\0\1t\3\x23\0\0", BAD_ALIAS),
    BadPacket("[MQTT-3.3.2-9], [MQTT-3.2.2-17] an alias too large", 0x30, None, b"\0\1t\3\x23\0\x41", BAD_ALIAS),
    BadPacket("3.3.2.3.4 an alias that was not set", 0x30, None, b"\0\0\3\x23\0\1", ERROR),
    BadPacket("[MQTT-3.3.2-13] a response topic that is not UTF-8", 0x30, None, b"\0\1t\4\x08\0\1\xff"),
    BadPacket("[MQTT-3.3.2-14] a wildcard in a response topic", 0x30, None, b"\0\1t\4\x08\0\1+", ERROR),
    BadPacket("[MQTT-3.3.2-19] a content type that is not UTF-8", 0x30, None, b"\0\1t\4\x03\0\1\xff"),
    BadPacket("[MQTT-1.5.7-1] a user property that is not UTF-8", 0x30, None, b"\0\1t\7\x26\0\1a\0\1\xff"),
    BadPacket("[MQTT-3.3.4-6] a subscription identifier", 0x30, None, b"\0\1t\2\x0b\1", ERROR),
    BadPacket("3.3.2.3.2 payload format 2", 0x30, None, b"\0\1t\2\1\2", ERROR),
    BadPacket("3.3.2.3.3 message expiry twice", 0x30, None, b"\0\1t\x0a" + b"\2\0\0\0\1" * 2, ERROR),
    BadPacket("2.2.2 properties longer than the packet", 0x30, None, b"\0\1t\x09\1"),
    BadPacket("[MQTT-1.5.5-1] a property length in more bytes than needed", 0x30, None, b"\0\1t\x80\0"),
    # acknowledgements
    BadPacket("[MQTT-2.1.3-1], 3.1.1 [MQTT-2.2.2-1] flags of PUBACK", 0x41, b"\0\1", b"\0\1"),
    BadPacket("[MQTT-3.6.1-1] flags of PUBREL", 0x60, b"\0\1", b"\0\1"),
    BadPacket("3.4.1 PUBACK without an identifier", 0x40, b"", b""),
    BadPacket("3.1.1 [MQTT-4.8.0-1] bytes behind a PUBREL", 0x62, b"\0\1\0", None),
    BadPacket("[MQTT-3.4.2-1] a reason that PUBACK does not have", 0x40, None, b"\0\1\x92", ERROR),
    BadPacket("[MQTT-3.5.2-1] a reason that PUBREC does not have", 0x50, None, b"\0\1\x92", ERROR),
    BadPacket("[MQTT-3.6.2-1] a reason that PUBREL does not have", 0x62, None, b"\0\1\x10", ERROR),
    BadPacket("[MQTT-3.7.2-1] a reason that PUBCOMP does not have", 0x70, None, b"\0\1\x10", ERROR),
    # SUBSCRIBE and UNSUBSCRIBE
    BadPacket("[MQTT-3.8.1-1] flags of SUBSCRIBE", 0x80, b"\0\1\0\1t\0", b"\0\1\0\0\1t\0"),
    BadPacket("[MQTT-2.2.1-3], 3.1.1 [MQTT-2.3.1-1] identifier 0", 0x82, b"\0\0\0\1t\0", b"\0\0\0\0\1t\0", ERROR),
    BadPacket("[MQTT-3.8.3-2], 3.1.1 [MQTT-3.8.3-3] no filter", 0x82, b"\0\1", b"\0\1\0", ERROR),
    BadPacket("[MQTT-3.8.3-1] a filter that is not UTF-8", 0x82, b"\0\1\0\1\xff\0", b"\0\1\0\0\1\xff\0"),
    BadPacket("[MQTT-4.7.3-2] NUL in a filter", 0x82, b"\0\1\0\2a\0\0", b"\0\1\0\0\2a\0\0"),
    BadPacket("[MQTT-3.8.3-2] no options", 0x82, b"\0\1\0\1t", b"\0\1\0\0\1t"),
    BadPacket("3.8.3.1, 3.1.1 [MQTT-3.8.3-4] QoS 3", 0x82, b"\0\1\0\1t\3", b"\0\1\0\0\1t\3"),
    BadPacket("[MQTT-3.8.3-5], 3.1.1 [MQTT-3.8.3-4] reserved bits", 0x82, b"\0\1\0\1t\xc0", b"\0\1\0\0\1t\xc0"),
    BadPacket("3.1.1 [MQTT-3.8.3-4] options of version 5", 0x82, b"\0\1\0\1t\x04", None),
    BadPacket("3.8.3.1 retain handling 3", 0x82, None, b"\0\1\0\0\1t\x30", ERROR),
    BadPacket("3.8.2.1.2 identifier 0", 0x82, None, b"\0\1\2\x0b\0\0\1t\0", ERROR),
    BadPacket("3.8.2.1.2 two identifiers", 0x82, None, b"\0\1\4\x0b\1\x0b\2\0\1t\0", ERROR),
    BadPacket("[MQTT-3.8.3-4] no local on a shared one", 0x82, None, b"\0\1\0\0\x0a$share/g/t\x04", ERROR),
    BadPacket("[MQTT-4.7.3-1] an empty filter", 0x82, b"\0\1\0\0\0", b"\0\1\0\0\0\0", BAD_FILTER),
    BadPacket("[MQTT-4.7.1-1], 3.1.1 [MQTT-4.7.1-2] # inside", 0x82, b"\0\1\0\3#/a\0", b"\0\1\0\0\3#/a\0", BAD_FILTER),
    BadPacket("[MQTT-4.7.1-1], 3.1.1 [MQTT-4.7.1-2] a#", 0x82, b"\0\1\0\2a#\0", b"\0\1\0\0\2a#\0", BAD_FILTER),
    BadPacket("[MQTT-4.7.1-2], 3.1.1 [MQTT-4.7.1-3] a+", 0x82, b"\0\1\0\2a+\0", b"\0\1\0\0\2a+\0", BAD_FILTER),
    BadPacket("[MQTT-4.8.2-1] an empty share name", 0x82, None, b"\0\1\0\0\x09$share//t\0", BAD_FILTER),
    BadPacket("[MQTT-4.8.2-2] a wildcard in a share name", 0x82, None, b"\0\1\0\0\x0a$share/+/t\0", BAD_FILTER),
    BadPacket("[MQTT-4.8.2-2] no filter behind a share name", 0x82, None, b"\0\1\0\0\x08$share/g\0", BAD_FILTER),
    BadPacket("[MQTT-4.8.2-2] an empty shared filter", 0x82, None, b"\0\1\0\0\x09$share/g/\0", BAD_FILTER),
    BadPacket("[MQTT-3.10.1-1] flags of UNSUBSCRIBE", 0xA0, b"\0\1\0\1t", b"\0\1\0\0\1t"),
    BadPacket("[MQTT-3.10.3-2] no filter", 0xA2, b"\0\1", b"\0\1\0", ERROR),
    BadPacket("[MQTT-3.10.3-1] a filter that is not UTF-8", 0xA2, b"\0\1\0\1\xff", b"\0\1\0\0\1\xff"),
    BadPacket("[MQTT-4.7.3-1] an empty filter", 0xA2, b"\0\1\0\0", b"\0\1\0\0\0", BAD_FILTER),
    # the rest
    BadPacket("[MQTT-2.1.3-1], 3.1.1 [MQTT-2.2.2-1] flags of PINGREQ", 0xC1, b"", b""),
    BadPacket("3.12 a body of PINGREQ", 0xC0, b"\0", b"\0"),
    BadPacket("[MQTT-3.14.1-1] flags of DISCONNECT", 0xE1, b"", b""),
    BadPacket("3.1.1 [MQTT-4.8.0-1] a body of DISCONNECT", 0xE0, b"\0", None),
    BadPacket("[MQTT-3.14.2-1] a reason that DISCONNECT does not have", 0xE0, None, b"\x01", ERROR),
    BadPacket("3.14.2.2.2 a session prolonged at its end", 0xE0, None, b"\0\5\x11\0\0\0\x09", ERROR),
    BadPacket("[MQTT-3.15.1-1] flags of AUTH", 0xF1, None, b""),
    BadPacket("[MQTT-3.15.2-1] a reason that AUTH does not have", 0xF0, None, b"\x80\0", ERROR),
    BadPacket("[MQTT-4.12.0-7] AUTH without a method", 0xF0, None, b"\x19\0", ERROR),
]


@pytest.mark.parametrize(
    ("version", "bad"),
    [(version, bad) for bad in BAD_PACKETS for version, body in ((V311, bad.old), (V5, bad.new)) if body is not None],
    ids=lambda one: one.statements if isinstance(one, BadPacket) else str(one),
)
@on_shared_node
async def test_a_packet_that_is_not_valid(node: Node, version: int, bad: BadPacket) -> None:
    """[MQTT-4.13.1-1], [MQTT-4.13.2-1], 3.1.1 [MQTT-4.8.0-1]: closed; with version 5 after DISCONNECT, and no more.

    [MQTT-3.1.2-8], [MQTT-3.14.4-1], [MQTT-3.14.4-2]: the will is published.
    """
    body = bad.old if version == V311 else bad.new
    assert body is not None
    topic = fresh("w")
    async with (
        Device.open(node, fresh(), version) as witness,
        Device.open(node, fresh(), version, will=Will(topic=topic, payload=b"")) as device,
    ):
        await witness.subscribe(topic)
        device.write_bytes(framed(bad.first, body) + b"\xc0\0")
        if version == V5:
            assert (await device.expect(Disconnect)).reason is bad.reason
        await device.ended()
        await witness.message()


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("length", [b"\x80\x00", b"\xff\xff\xff\xff\x01"])
@on_shared_node
async def test_a_remaining_length_that_is_not_valid(node: Node, version: int, length: bytes) -> None:
    """[MQTT-1.5.5-1], 2.1.4: in as few bytes as possible, and at most four."""
    async with Device.open(node, fresh(), version) as device:
        device.write_bytes(b"\xc0" + length)
        if version == V5:
            assert (await device.expect(Disconnect)).reason is MALFORMED
        await device.ended()
