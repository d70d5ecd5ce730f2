"""Makes packets of bytes, and checks every field by the standard. One function for each kind of packet.

Errors are `MqttError`: the reason to answer with, and the field. What depends on the state of a session (a packet
identifier in use, a topic alias that is not known) is not checked here. Of topic filters the form is: our limits and
grants are for the SUBACK to tell.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from antecede.wire.mqtt.fields import FieldReader
from antecede.wire.mqtt.packets import (
    REASONS,
    V5,
    V311,
    Acknowledgement,
    AnyPacket,
    Auth,
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
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Wanted,
    Will,
)
from antecede.wire.mqtt.properties import NO_PROPERTIES, Kind, Properties, read_properties
from antecede.wire.mqtt.reasons import RETURNED, MqttError, Reason, forbidden, malformed
from antecede.wire.mqtt.topics import check_form, check_name, check_no_local

A = TypeVar("A", bound=Acknowledgement)

#: Flags of the fixed header (2.1.3), where they are fixed.
FLAGS: Final = {kind: 0b0010 if kind in (Kind.PUBREL, Kind.SUBSCRIBE, Kind.UNSUBSCRIBE) else 0 for kind in Kind}


def decode(first: int, body: bytes, version: int) -> AnyPacket:
    """Decode a packet: the first byte of its fixed header, and all that follows the remaining length.

    `version`: of the connection; a CONNECT says its own.
    """
    if first & 0xF0 == 0x30:
        return _publish(first, body, version)
    if first == 0x40 and len(body) == 2 and body != b"\0\0":  # PUBACK without a reason: the most frequent answer
        return Puback(packet_id=int.from_bytes(body))
    number = first >> 4
    if not number or (number == Kind.AUTH and version < V5):  # 3.1.1: [MQTT-2.2.2-2] 0 and 15 are reserved
        raise malformed("packet type", f"{number} is reserved")
    kind = Kind(number)
    if first & 0x0F != FLAGS[kind]:  # [MQTT-2.1.3-1]
        raise malformed("flags", f"are {first & 0x0F:#06b}; {kind.name} has {FLAGS[kind]:#06b}")
    reader = FieldReader(body)
    packet = _DECODERS[kind](reader, version)
    reader.finish(kind.name)
    return packet


# -- CONNECT and CONNACK -----------------------------------------------------------------------------------------------


def _connect(reader: FieldReader, _: int) -> Connect:
    name = reader.text("protocol name")
    if name == "MQIsdp":  # MQTT 3.1, whose clients know the answer of 3.1.1
        raise MqttError(Reason.UNSUPPORTED_VERSION, "protocol version", "is 3.1; 3.1.1 and 5 are spoken here")
    if name != "MQTT":  # [MQTT-3.1.2-1]
        raise MqttError(Reason.UNSUPPORTED_VERSION, "protocol name", f"is {name[:16]!r}, not 'MQTT'")
    version = reader.byte("protocol version")
    if version not in (V311, V5):  # [MQTT-3.1.2-2]
        raise MqttError(Reason.UNSUPPORTED_VERSION, "protocol version", f"is {version}; 4 and 5 are spoken here")
    flags = reader.byte("connect flags")
    if flags & 1:  # [MQTT-3.1.2-3]
        raise malformed("connect flags", "the reserved bit is set")
    will_qos = flags >> 3 & 3
    if not flags & 0x04 and flags & 0x38:  # [MQTT-3.1.2-11], [MQTT-3.1.2-13]
        raise malformed("connect flags", "QoS or retain of a will are set, and there is no will")
    if will_qos == 3:  # [MQTT-3.1.2-12]
        raise malformed("will QoS", "is 3")
    if version == V311 and flags & 0xC0 == 0x40:  # 3.1.1: [MQTT-3.1.2-22]
        raise malformed("connect flags", "there is a password and no user name")
    keep_alive_s = reader.two_bytes("keep alive")
    properties = read_properties(reader, Kind.CONNECT) if version == V5 else NO_PROPERTIES
    if properties.authentication_data is not None and properties.authentication_method is None:  # 3.1.2.11.10
        raise forbidden("authentication data", "is there without a method")
    client_id = reader.text("client identifier")
    will = _will(reader, version, will_qos, bool(flags & 0x20)) if flags & 0x04 else None
    user_name = reader.text("user name") if flags & 0x80 else None
    password = reader.binary("password") if flags & 0x40 else None
    return Connect(
        version=version,
        client_id=client_id,
        clean_start=bool(flags & 0x02),
        keep_alive_s=keep_alive_s,
        will=will,
        user_name=user_name,
        password=password,
        properties=properties,
    )


def _will(reader: FieldReader, version: int, qos: int, retain: bool) -> Will:
    properties = read_properties(reader, Kind.WILL) if version == V5 else NO_PROPERTIES
    _check_response(properties)
    topic = check_name(reader.text("will topic"), "will topic")
    return Will(topic=topic, payload=reader.binary("will payload"), qos=qos, retain=retain, properties=properties)


def _connack(reader: FieldReader, version: int) -> Connack:
    flags = reader.byte("acknowledge flags")
    if flags > 1:  # [MQTT-3.2.2-1]
        raise malformed("acknowledge flags", "a reserved bit is set")
    if version == V5:
        reason = _reason(reader, Kind.CONNACK)
        properties = read_properties(reader, Kind.CONNACK)
    else:
        code = reader.byte("return code")
        if code not in RETURNED:
            raise malformed("return code", f"is {code}")
        reason, properties = RETURNED[code], NO_PROPERTIES
    if flags and reason.failed:  # [MQTT-3.2.2-6]
        raise forbidden("session present", "is set in a refusal")
    return Connack(session_present=bool(flags), reason=reason, properties=properties)


# -- PUBLISH and its acknowledgements ----------------------------------------------------------------------------------


def _publish(first: int, body: bytes, version: int) -> Publish:
    qos = first >> 1 & 3
    if qos == 3:  # [MQTT-3.3.1-4]
        raise malformed("QoS", "is 3")
    if first & 0x08 and not qos:  # [MQTT-3.3.1-2]
        raise malformed("DUP", "is set with QoS 0")
    reader = FieldReader(body)
    topic = reader.text("topic name")
    packet_id = _packet_id(reader) if qos else 0
    properties = NO_PROPERTIES
    if version == V5:
        properties = read_properties(reader, Kind.PUBLISH)
        _check_response(properties)
    if topic:
        check_name(topic)
    elif properties.topic_alias is None:  # 3.3.2.1
        raise MqttError(Reason.PROTOCOL_ERROR if version == V5 else Reason.TOPIC_NAME_INVALID, "topic name", "is empty")
    payload = reader.rest()
    return Publish(
        topic=topic,
        payload=payload,
        qos=qos,
        retain=bool(first & 1),
        dup=bool(first & 8),
        packet_id=packet_id,
        properties=properties,
    )


def _check_response(properties: Properties) -> None:
    if properties.response_topic is not None:  # [MQTT-3.3.2-14]
        try:
            check_name(properties.response_topic, "response topic")
        except MqttError as error:
            raise forbidden(error.field, error.problem) from None


def _acknowledgement(kind: type[A]) -> Callable[[FieldReader, int], A]:
    def read(reader: FieldReader, version: int) -> A:
        packet_id = _packet_id(reader)
        if version < V5 or not reader.left:
            return kind(packet_id=packet_id)
        reason = _reason(reader, kind.kind)
        properties = read_properties(reader, kind.kind) if reader.left else NO_PROPERTIES
        return kind(packet_id=packet_id, reason=reason, properties=properties)

    return read


# -- subscriptions -----------------------------------------------------------------------------------------------------


def _subscribe(reader: FieldReader, version: int) -> Subscribe:
    packet_id = _packet_id(reader)
    properties = read_properties(reader, Kind.SUBSCRIBE) if version == V5 else NO_PROPERTIES
    wanted = []
    while reader.left:
        pattern = check_form(reader.text("topic filter"), shares=version == V5)
        options = reader.byte("subscription options")
        if options & (0xC0 if version == V5 else 0xFC):  # [MQTT-3.8.3-5]; 3.1.1: [MQTT-3.8.3-4]
            raise malformed("subscription options", "a reserved bit is set")
        if options & 3 == 3:
            raise malformed("QoS", "is 3")
        if options >> 4 & 3 == 3:
            raise forbidden("retain handling", "is 3")
        check_no_local(pattern, bool(options & 0x04))
        one = Wanted(
            pattern=pattern,
            qos=options & 3,
            no_local=bool(options & 0x04),
            retain_as_published=bool(options & 0x08),
            retain_handling=options >> 4 & 3,
        )
        wanted.append(one)
    if not wanted:  # [MQTT-3.8.3-2]
        raise forbidden("topic filter", "there is none")
    return Subscribe(packet_id=packet_id, wanted=tuple(wanted), properties=properties)


def _suback(reader: FieldReader, version: int) -> Suback:
    packet_id = _packet_id(reader)
    properties = read_properties(reader, Kind.SUBACK) if version == V5 else NO_PROPERTIES
    reasons = []
    while reader.left:
        reason = _reason(reader, Kind.SUBACK)
        if version < V5 and reason > Reason.GRANTED_QOS_2 and reason != Reason.UNSPECIFIED:  # 3.1.1: [MQTT-3.9.3-2]
            raise malformed("return code", f"is 0x{reason:02X}")
        reasons.append(reason)
    return Suback(packet_id=packet_id, reasons=tuple(reasons), properties=properties)


def _unsubscribe(reader: FieldReader, version: int) -> Unsubscribe:
    packet_id = _packet_id(reader)
    properties = read_properties(reader, Kind.UNSUBSCRIBE) if version == V5 else NO_PROPERTIES
    patterns = []
    while reader.left:
        patterns.append(check_form(reader.text("topic filter"), shares=version == V5))
    if not patterns:  # [MQTT-3.10.3-2]
        raise forbidden("topic filter", "there is none")
    return Unsubscribe(packet_id=packet_id, patterns=tuple(patterns), properties=properties)


def _unsuback(reader: FieldReader, version: int) -> Unsuback:
    packet_id = _packet_id(reader)
    if version < V5:
        return Unsuback(packet_id=packet_id)
    properties = read_properties(reader, Kind.UNSUBACK)
    reasons = []
    while reader.left:
        reasons.append(_reason(reader, Kind.UNSUBACK))
    return Unsuback(packet_id=packet_id, reasons=tuple(reasons), properties=properties)


# -- the rest ----------------------------------------------------------------------------------------------------------


def _disconnect(reader: FieldReader, version: int) -> Disconnect:
    if version < V5 or not reader.left:
        return Disconnect()
    reason = _reason(reader, Kind.DISCONNECT)
    properties = read_properties(reader, Kind.DISCONNECT) if reader.left else NO_PROPERTIES
    return Disconnect(reason=reason, properties=properties)


def _auth(reader: FieldReader, version: int) -> Auth:
    if not reader.left:
        return Auth()
    reason = _reason(reader, Kind.AUTH)
    return Auth(reason=reason, properties=read_properties(reader, Kind.AUTH) if reader.left else NO_PROPERTIES)


def _packet_id(reader: FieldReader) -> int:
    packet_id = reader.two_bytes("packet identifier")
    if not packet_id:  # [MQTT-2.2.1-3]
        raise forbidden("packet identifier", "is 0")
    return packet_id


def _reason(reader: FieldReader, kind: Kind) -> Reason:
    code = reader.byte("reason code")
    if code not in REASONS[kind]:
        raise forbidden("reason code", f"0x{code:02X} does not belong to {kind.name}")
    return Reason(code)


_DECODERS: Final[dict[Kind, Callable[[FieldReader, int], AnyPacket]]] = {
    Kind.CONNECT: _connect,
    Kind.CONNACK: _connack,
    Kind.PUBACK: _acknowledgement(Puback),
    Kind.PUBREC: _acknowledgement(Pubrec),
    Kind.PUBREL: _acknowledgement(Pubrel),
    Kind.PUBCOMP: _acknowledgement(Pubcomp),
    Kind.SUBSCRIBE: _subscribe,
    Kind.SUBACK: _suback,
    Kind.UNSUBSCRIBE: _unsubscribe,
    Kind.UNSUBACK: _unsuback,
    Kind.PINGREQ: lambda reader, version: Pingreq(),
    Kind.PINGRESP: lambda reader, version: Pingresp(),
    Kind.DISCONNECT: _disconnect,
    Kind.AUTH: _auth,
}
