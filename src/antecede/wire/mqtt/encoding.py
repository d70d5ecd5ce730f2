"""Makes bytes of packets, for both versions. What a version does not have (properties, reasons) is left out."""

from collections.abc import Callable
from typing import Any, Final

from antecede.wire.mqtt import packets
from antecede.wire.mqtt.decoding import FLAGS
from antecede.wire.mqtt.fields import write_binary, write_text, write_variable
from antecede.wire.mqtt.properties import NO_PROPERTIES, Kind, Properties, write_properties
from antecede.wire.mqtt.reasons import RETURN_CODES, Reason


def encode(packet: packets.AnyPacket, version: int) -> bytes:
    """The bytes of a packet, whole."""
    if type(packet) is packets.Publish:
        return encode_publish(packet, version)
    kind = packet.kind
    body = b"".join(_ENCODERS[kind](packet, version)) if kind in _ENCODERS else b""
    return b"".join((bytes((kind << 4 | FLAGS[kind],)), write_variable(len(body)), body))


def encode_publish(packet: packets.Publish, version: int) -> bytes:
    before, behind = publish_parts(packet, version)
    return before + packet.packet_id.to_bytes(2) + behind if packet.qos else before + behind


def publish_parts(packet: packets.Publish, version: int) -> tuple[bytes, bytes]:
    """The bytes of a PUBLISH before its packet identifier, and those behind it."""
    qos, topic = packet.qos, write_text(packet.topic, "topic name")
    first = 0x30 | packet.dup << 3 | qos << 1 | packet.retain
    behind = write_properties(packet.properties) + packet.payload if version == packets.V5 else packet.payload
    size = len(topic) + len(behind) + (2 if qos else 0)
    return b"".join((bytes((first,)), write_variable(size), topic)), behind


def _connect(packet: packets.Connect, version: int) -> list[bytes]:
    """The version is that of the packet."""
    version, will = packet.version, packet.will
    flags = packet.clean_start << 1 | (packet.password is not None) << 6 | (packet.user_name is not None) << 7
    if will is not None:
        flags |= 0x04 | will.qos << 3 | will.retain << 5
    out = [b"\0\4MQTT", bytes((version, flags)), packet.keep_alive_s.to_bytes(2)]
    out += [*_properties(packet.properties, version), write_text(packet.client_id, "client identifier")]
    if will is not None:
        out += _properties(will.properties, version)
        out += [write_text(will.topic, "will topic"), write_binary(will.payload, "will payload")]
    if packet.user_name is not None:
        out.append(write_text(packet.user_name, "user name"))
    if packet.password is not None:
        out.append(write_binary(packet.password, "password"))
    return out


def _connack(packet: packets.Connack, version: int) -> list[bytes]:
    reason = int(packet.reason) if version == packets.V5 else RETURN_CODES[packet.reason]
    return [bytes((packet.session_present, reason)), *_properties(packet.properties, version)]


def _acknowledgement(packet: packets.Acknowledgement, version: int) -> list[bytes]:
    return [packet.packet_id.to_bytes(2), *_ending(packet.reason, packet.properties, version)]


def _subscribe(packet: packets.Subscribe, version: int) -> list[bytes]:
    out = [packet.packet_id.to_bytes(2), *_properties(packet.properties, version)]
    for one in packet.wanted:
        options = one.qos
        if version == packets.V5:
            options |= one.no_local << 2 | one.retain_as_published << 3 | one.retain_handling << 4
        out += [write_text(one.pattern, "topic filter"), bytes((options,))]
    return out


def _suback(packet: packets.Suback, version: int) -> list[bytes]:
    reasons = packet.reasons
    if version < packets.V5:  # 3.1.1 has one code for all failures
        reasons = tuple([Reason.UNSPECIFIED if reason.failed else reason for reason in reasons])
    return [packet.packet_id.to_bytes(2), *_properties(packet.properties, version), bytes(reasons)]


def _unsubscribe(packet: packets.Unsubscribe, version: int) -> list[bytes]:
    out = [packet.packet_id.to_bytes(2), *_properties(packet.properties, version)]
    return out + [write_text(pattern, "topic filter") for pattern in packet.patterns]


def _unsuback(packet: packets.Unsuback, version: int) -> list[bytes]:
    reasons = bytes(packet.reasons) if version == packets.V5 else b""
    return [packet.packet_id.to_bytes(2), *_properties(packet.properties, version), reasons]


def _disconnect(packet: packets.Disconnect, version: int) -> list[bytes]:
    return _ending(packet.reason, packet.properties, version)


def _auth(packet: packets.Auth, version: int) -> list[bytes]:
    if not packet.reason and packet.properties is NO_PROPERTIES:  # 3.15.2.1: both, or neither
        return []
    return [bytes((packet.reason,)), write_properties(packet.properties)]


def _properties(properties: Properties, version: int) -> list[bytes]:
    return [write_properties(properties)] if version == packets.V5 else []


def _ending(reason: Reason, properties: Properties, version: int) -> list[bytes]:
    """Reason and properties at the end of a packet, which may leave them out (3.4.2.1, 3.14.2.1)."""
    if version < packets.V5 or (not reason and properties is NO_PROPERTIES):
        return []
    return [bytes((reason,)), *([] if properties is NO_PROPERTIES else [write_properties(properties)])]


_ENCODERS: Final[dict[Kind, Callable[[Any, int], list[bytes]]]] = {
    Kind.CONNECT: _connect,
    Kind.CONNACK: _connack,
    Kind.PUBACK: _acknowledgement,
    Kind.PUBREC: _acknowledgement,
    Kind.PUBREL: _acknowledgement,
    Kind.PUBCOMP: _acknowledgement,
    Kind.SUBSCRIBE: _subscribe,
    Kind.SUBACK: _suback,
    Kind.UNSUBSCRIBE: _unsubscribe,
    Kind.UNSUBACK: _unsuback,
    Kind.DISCONNECT: _disconnect,
    Kind.AUTH: _auth,
}
