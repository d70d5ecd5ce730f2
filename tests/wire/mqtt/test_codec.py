"""Packets to bytes and back: round trips, what is malformed, and the same bytes read by three other libraries."""

import contextlib
from typing import Any

import gmqtt
import mqtt5
import msgspec
import pytest
from gmqtt.mqtt.package import PublishPacket as GmqttPublish
from gmqtt.mqtt.utils import IdGenerator
from hypothesis import given, settings
from hypothesis import strategies as st
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties

from antecede.wire.mqtt.decoding import decode
from antecede.wire.mqtt.encoding import encode
from antecede.wire.mqtt.packets import V5, V311, AnyPacket, Auth, Publish
from antecede.wire.mqtt.properties import NO_PROPERTIES, TABLE, Kind, Properties, write_properties
from antecede.wire.mqtt.reasons import MqttError, Reason
from antecede.wire.mqtt.stream import PacketStream
from tests.wire.mqtt.strategies import packets, properties

BYTES_MAX = 1 << 20


def read(data: bytes, version: int) -> list[AnyPacket]:
    stream = PacketStream(bytes_max=BYTES_MAX, version=version)
    stream.feed(data)
    return list(stream.packets())


# -- round trips -------------------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from([V311, V5]))
def test_round_trip(data: st.DataObject, version: int) -> None:
    packet = data.draw(packets(version))
    assert read(encode(packet, version), version) == [packet]


@settings(max_examples=50, deadline=None)
@given(st.lists(packets(V5), max_size=4), st.lists(st.integers(1, 9), min_size=1, max_size=20))
def test_packets_come_in_any_pieces(some: list[AnyPacket], sizes: list[int]) -> None:
    stream = PacketStream(bytes_max=BYTES_MAX, version=V5)
    some = [packet for packet in some if packet.kind is not Kind.CONNECT]
    rest = b"".join(encode(packet, V5) for packet in some)
    found: list[AnyPacket] = []
    turn = 0
    while rest:
        size = sizes[turn % len(sizes)]
        stream.feed(rest[:size])
        found += stream.packets()
        rest, turn = rest[size:], turn + 1
    assert found == some


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=40), st.sampled_from([V311, V5]))
def test_any_bytes_are_packets_or_an_mqtt_error(data: bytes, version: int) -> None:
    with contextlib.suppress(MqttError):  # and nothing else
        for packet in read(data, version):
            assert read(encode(packet, version), version) == [packet]


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from([V311, V5]))
def test_a_damaged_packet_is_a_packet_or_an_mqtt_error(data: st.DataObject, version: int) -> None:
    good = bytearray(encode(data.draw(packets(version)), version))
    good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(MqttError):  # and nothing else
        read(bytes(good), version)


# -- what is malformed -------------------------------------------------------------------------------------------------

CONNECT = b"\0\4MQTT"
#: Statement of the standard, version, bytes, reason, field.
MALFORMED = [
    ("1.5.4-1 surrogate", V5, b"\x30\x06\0\3\xed\xa0\x80\0", 0x81, "topic name"),
    ("1.5.4-1 not UTF-8", V311, b"\x30\x04\0\2\xff\xfe", 0x81, "topic name"),
    ("1.5.4-2 NUL", V311, b"\x30\x05\0\3a\0b", 0x81, "topic name"),
    ("1.5.5-1 five bytes", V5, b"\x30\xff\xff\xff\xff\x01", 0x81, "remaining length"),
    ("1.5.5-1 too many bytes", V5, b"\xc0\x80\x00", 0x81, "remaining length"),
    ("2.1.2 type 0", V5, b"\x00\x00", 0x81, "packet type"),
    ("2.1.2 type 15 in 3.1.1", V311, b"\xf0\x00", 0x81, "packet type"),
    ("2.1.3-1 flags of SUBSCRIBE", V5, b"\x80\x06\0\1\0\0\1a\0", 0x81, "flags"),
    ("2.1.3-1 flags of PUBREL", V311, b"\x60\x02\0\1", 0x81, "flags"),
    ("2.1.3-1 flags of PINGREQ", V311, b"\xc1\x00", 0x81, "flags"),
    ("2.2.1-3 identifier 0", V311, b"\x32\x05\0\1a\0\0", 0x82, "packet identifier"),
    ("2.2.1-3 identifier 0 of SUBSCRIBE", V5, b"\x82\x07\0\0\0\0\1a\0", 0x82, "packet identifier"),
    ("2.2.2 unknown property", V5, b"\x30\x06\0\1a\2\x7f\0", 0x81, "property identifier"),
    ("2.2.2 of another packet", V5, b"\x30\x07\0\1a\3\x21\0\1", 0x81, "receive_maximum"),
    ("2.2.2 twice", V5, b"\x30\x08\0\1a\4\x01\0\x01\0", 0x82, "payload_format"),
    ("2.2.2 longer than the packet", V5, b"\x30\x05\0\1a\x09\x01", 0x81, "property length"),
    ("3.1.2-1 name", V311, b"\x10\x0c\0\4MQTX\4\2\0\0\0\0", 0x84, "protocol name"),
    ("3.1.2-2 version", V311, b"\x10\x0c" + CONNECT + b"\3\2\0\0\0\0", 0x84, "protocol version"),
    ("3.1.2-3 reserved flag", V311, b"\x10\x0c" + CONNECT + b"\4\3\0\0\0\0", 0x81, "connect flags"),
    ("3.1.2-11 QoS of no will", V311, b"\x10\x0c" + CONNECT + b"\4\x0a\0\0\0\0", 0x81, "connect flags"),
    ("3.1.2-12 will QoS 3", V311, b"\x10\x12" + CONNECT + b"\4\x1e\0\0\0\0\0\1w\0\1x", 0x81, "will QoS"),
    ("3.1.2-13 retain of no will", V311, b"\x10\x0c" + CONNECT + b"\4\x22\0\0\0\0", 0x81, "connect flags"),
    ("3.1.1: 3.1.2-22 password alone", V311, b"\x10\x0f" + CONNECT + b"\4\x42\0\0\0\0\0\1p", 0x81, "connect flags"),
    ("3.1.2.11.3 receive maximum 0", V5, b"\x10\x10" + CONNECT + b"\5\2\0\0\3\x21\0\0\0\0", 0x82, "receive_maximum"),
    (
        "3.1.2.11.4 packet size 0",
        V5,
        b"\x10\x12" + CONNECT + b"\5\2\0\0\5\x27\0\0\0\0\0\0",
        0x82,
        "maximum_packet_size",
    ),
    ("3.1.2.11.10 data alone", V5, b"\x10\x11" + CONNECT + b"\5\2\0\0\4\x16\0\1x\0\0", 0x82, "authentication data"),
    ("3.1.3 bytes behind", V311, b"\x10\x0d" + CONNECT + b"\4\2\0\0\0\0x", 0x81, "CONNECT"),
    ("3.1.3 too short", V311, b"\x10\x0a" + CONNECT + b"\4\2\0\0", 0x81, "client identifier"),
    ("3.1.3 will topic with a wildcard", V311, b"\x10\x12" + CONNECT + b"\4\6\0\0\0\0\0\1#\0\1x", 0x90, "will topic"),
    ("3.2.2-1 acknowledge flags", V5, b"\x20\x03\2\0\0", 0x81, "acknowledge flags"),
    ("3.3.1-2 DUP with QoS 0", V311, b"\x38\x03\0\1a", 0x81, "DUP"),
    ("3.3.1-4 QoS 3", V311, b"\x36\x05\0\1a\0\1", 0x81, "QoS"),
    ("3.3.2-2 wildcard", V311, b"\x30\x05\0\3a/+", 0x90, "topic name"),
    ("3.3.2-8 alias 0", V5, b"\x30\x07\0\1a\3\x23\0\0", 0x94, "topic_alias"),
    ("3.3.2.1 no topic", V5, b"\x30\x03\0\0\0", 0x82, "topic name"),
    ("4.7.3-1 no topic", V311, b"\x30\x02\0\0", 0x90, "topic name"),
    ("3.3.2-14 response topic", V5, b"\x30\x08\0\1a\4\x08\0\1#", 0x82, "response topic"),
    ("3.4.2.1 reason", V5, b"\x40\x03\0\1\x11", 0x82, "reason code"),
    ("3.8.3-2 no filter", V311, b"\x82\x02\0\1", 0x82, "topic filter"),
    ("3.8.3-5 reserved option", V5, b"\x82\x07\0\1\0\0\1a\x40", 0x81, "subscription options"),
    ("3.1.1: 3.8.3-4 reserved option", V311, b"\x82\x06\0\1\0\1a\x04", 0x81, "subscription options"),
    ("3.8.3.1 QoS 3", V5, b"\x82\x07\0\1\0\0\1a\x03", 0x81, "QoS"),
    ("3.8.3.1 retain handling 3", V5, b"\x82\x07\0\1\0\0\1a\x30", 0x82, "retain handling"),
    ("3.8.2.1.2 identifier 0", V5, b"\x82\x09\0\1\2\x0b\0\0\1a\0", 0x82, "subscription_ids"),
    ("3.8.2.1.2 two identifiers", V5, b"\x82\x0b\0\1\4\x0b\1\x0b\2\0\1a\0", 0x82, "subscription_ids"),
    ("3.10.3-2 no filter", V5, b"\xa2\x03\0\1\0", 0x82, "topic filter"),
    ("3.12.1 body of PINGREQ", V5, b"\xc0\x01\0", 0x81, "PINGREQ"),
    ("3.14.2.1 reason", V5, b"\xe0\x01\x01", 0x82, "reason code"),
    ("3.1.2.11.4 too large", V5, b"\x30\x80\x80\x80\x01", 0x95, "remaining length"),
]


@pytest.mark.parametrize(
    ("statement", "version", "data", "reason", "field"), MALFORMED, ids=[one[0] for one in MALFORMED]
)
def test_malformed(statement: str, version: int, data: bytes, reason: int, field: str) -> None:
    with pytest.raises(MqttError) as caught:
        read(data, version)
    assert (caught.value.reason, caught.value.field) == (Reason(reason), field)
    assert field in str(caught.value)


def test_a_byte_order_mark_is_text() -> None:
    """[MQTT-1.5.4-3]."""
    (packet,) = read(b"\x30\x06\0\4\xef\xbb\xbfa", V311)
    assert isinstance(packet, Publish)
    assert packet.topic == "\ufeffa"


# -- the same bytes, read by others ------------------------------------------------------------------------------------

#: What a packet without the property means (3.1.2.11, 3.2.2.3, 3.3.2.3). `mqtt5` does not tell them apart.
DEFAULTS: dict[str, Any] = {
    "payload_format": 0,
    "session_expiry_s": 0,
    "request_problem_info": 1,
    "request_response_info": 0,
    "will_delay_s": 0,
    "receive_maximum": 65_535,
    "topic_alias_maximum": 0,
    "retain_available": 1,
    "wildcard_available": 1,
    "subscription_ids_available": 1,
    "shared_available": 1,
}


def normal(packet: Any) -> Any:
    """The packet without properties that say what is the case without them."""

    def shortened(found: Properties, *, connack: bool) -> Properties:
        drop = {name: None for name, value in DEFAULTS.items() if getattr(found, name) == value}
        if connack:  # in a CONNACK the absence means: as the client asked
            drop.pop("session_expiry_s", None)
        left = msgspec.structs.replace(found, **drop)
        return NO_PROPERTIES if left == NO_PROPERTIES else left

    if not hasattr(packet, "properties"):
        return packet
    packet = msgspec.structs.replace(
        packet, properties=shortened(packet.properties, connack=packet.kind is Kind.CONNACK)
    )
    will = getattr(packet, "will", None)
    if will is not None:
        will = msgspec.structs.replace(will, properties=shortened(will.properties, connack=False))
        packet = msgspec.structs.replace(packet, will=will)
    return packet


@settings(max_examples=300, deadline=None)
@given(packets(V5).filter(lambda packet: packet != Auth()))  # `mqtt5` wants the properties that 3.15.2.1 leaves out
def test_mqtt5_reads_and_writes_the_same(packet: AnyPacket) -> None:
    theirs, size = mqtt5.read(encode(packet, V5))
    assert size == len(encode(packet, V5))
    assert normal(read(theirs.write(), V5)[0]) == normal(packet)


PAHO_NAMES = {
    "payload_format": "PayloadFormatIndicator",
    "message_expiry_s": "MessageExpiryInterval",
    "content_type": "ContentType",
    "response_topic": "ResponseTopic",
    "correlation_data": "CorrelationData",
    "session_expiry_s": "SessionExpiryInterval",
    "assigned_client_id": "AssignedClientIdentifier",
    "server_keep_alive_s": "ServerKeepAlive",
    "authentication_method": "AuthenticationMethod",
    "authentication_data": "AuthenticationData",
    "request_problem_info": "RequestProblemInformation",
    "will_delay_s": "WillDelayInterval",
    "request_response_info": "RequestResponseInformation",
    "response_info": "ResponseInformation",
    "server_reference": "ServerReference",
    "reason_string": "ReasonString",
    "receive_maximum": "ReceiveMaximum",
    "topic_alias_maximum": "TopicAliasMaximum",
    "topic_alias": "TopicAlias",
    "maximum_qos": "MaximumQoS",
    "retain_available": "RetainAvailable",
    "user": "UserProperty",
    "maximum_packet_size": "MaximumPacketSize",
    "wildcard_available": "WildcardSubscriptionAvailable",
    "subscription_ids_available": "SubscriptionIdentifierAvailable",
    "shared_available": "SharedSubscriptionAvailable",
    "subscription_ids": "SubscriptionIdentifier",
}


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from([kind for kind in Kind if kind not in (Kind.PINGREQ, Kind.PINGRESP)]))
def test_paho_reads_the_same_properties(data: st.DataObject, kind: Kind) -> None:
    ours = data.draw(properties(kind))
    theirs = PahoProperties(PacketTypes.WILLMESSAGE if kind is Kind.WILL else int(kind))
    theirs.unpack(write_properties(ours))
    for row in TABLE:
        value = getattr(ours, row.name)
        found = getattr(theirs, PAHO_NAMES[row.name], None)
        if row.name in ("user", "subscription_ids"):
            assert tuple(found or ()) == value
        else:
            assert found == value, row.name


@pytest.mark.parametrize("qos", [0, 1, 2])
@settings(max_examples=50, deadline=None)
@given(payload=st.binary(max_size=300), expiry=st.integers(0, 0xFFFF_FFFF), user=st.text("ab\u00e9", max_size=9))
def test_gmqtt_writes_what_we_read(qos: int, payload: bytes, expiry: int, user: str) -> None:
    class Protocol:
        proto_ver = V5
        id_generator = IdGenerator()

    message = gmqtt.Message(
        "a/b", payload, qos=qos, retain=True, message_expiry_interval=expiry, user_property=("n", user)
    )
    message.payload = payload
    number, data = GmqttPublish.build_package(message, Protocol())
    (packet,) = read(bytes(data), V5)
    assert isinstance(packet, Publish)
    assert (packet.topic, packet.payload, packet.qos, packet.retain) == ("a/b", payload, qos, True)
    assert packet.packet_id == (number or 0)
    assert packet.properties == Properties(message_expiry_s=expiry, user=(("n", user),))


def test_decode_takes_a_body_alone() -> None:
    assert decode(0xC0, b"", V311).kind is Kind.PINGREQ
