"""The properties of MQTT 5 (2.2.2): one table says of each its number, its type, and the packets that may have it.

A property may stand in a packet once, except user properties, and subscription identifiers of a PUBLISH that a server
sends. Everything else is a protocol error, and the error names the property.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from antecede.wire.mqtt.fields import FieldReader, write_binary, write_text, write_variable
from antecede.wire.mqtt.reasons import MqttError, Reason, forbidden, malformed

UserProperties: TypeAlias = tuple[tuple[str, str], ...]


class Kind(IntEnum):
    """The packet types by number (2.1.2), and `WILL` for the properties of a will."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15
    WILL = 16


class Properties(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The properties of a packet; None or empty: it does not have that one."""

    payload_format: int | None = None
    message_expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_ids: tuple[int, ...] = ()
    session_expiry_s: int | None = None
    assigned_client_id: str | None = None
    server_keep_alive_s: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_info: int | None = None
    will_delay_s: int | None = None
    request_response_info: int | None = None
    response_info: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: int | None = None
    user: UserProperties = ()
    maximum_packet_size: int | None = None
    wildcard_available: int | None = None
    subscription_ids_available: int | None = None
    shared_available: int | None = None


NO_PROPERTIES: Final = Properties()


class _Type(NamedTuple):
    read: Callable[[FieldReader, str], Any]
    write: Callable[[Any, str], bytes]


_BYTE: Final = _Type(FieldReader.byte, lambda value, _: value.to_bytes(1))
_TWO: Final = _Type(FieldReader.two_bytes, lambda value, _: value.to_bytes(2))
_FOUR: Final = _Type(FieldReader.four_bytes, lambda value, _: value.to_bytes(4))
_VARIABLE: Final = _Type(FieldReader.variable, lambda value, _: write_variable(value))
_TEXT: Final = _Type(FieldReader.text, write_text)
_BINARY: Final = _Type(FieldReader.binary, write_binary)


def _read_pair(reader: FieldReader, field: str) -> tuple[str, str]:
    return reader.text(f"{field} name"), reader.text(f"{field} value")


_PAIR: Final = _Type(_read_pair, lambda pair, field: write_text(pair[0], field) + write_text(pair[1], field))


class _Row(NamedTuple):
    number: int
    name: str
    type: _Type
    packets: frozenset[Kind]
    #: The values that are allowed; None: all that the type has.
    low: int = 0
    high: int | None = None


def _row(number: int, name: str, kind: _Type, packets: str, low: int = 0, high: int | None = None) -> _Row:
    return _Row(number, name, kind, frozenset(Kind[packet] for packet in packets.split()), low, high)


_ANSWERS: Final = "CONNACK PUBACK PUBREC PUBREL PUBCOMP SUBACK UNSUBACK DISCONNECT AUTH"

#: Table 2-4 of the standard.
TABLE: Final = (
    _row(0x01, "payload_format", _BYTE, "PUBLISH WILL", 0, 1),
    _row(0x02, "message_expiry_s", _FOUR, "PUBLISH WILL"),
    _row(0x03, "content_type", _TEXT, "PUBLISH WILL"),
    _row(0x08, "response_topic", _TEXT, "PUBLISH WILL"),
    _row(0x09, "correlation_data", _BINARY, "PUBLISH WILL"),
    _row(0x0B, "subscription_ids", _VARIABLE, "PUBLISH SUBSCRIBE", 1),
    _row(0x11, "session_expiry_s", _FOUR, "CONNECT CONNACK DISCONNECT"),
    _row(0x12, "assigned_client_id", _TEXT, "CONNACK"),
    _row(0x13, "server_keep_alive_s", _TWO, "CONNACK"),
    _row(0x15, "authentication_method", _TEXT, "CONNECT CONNACK AUTH"),
    _row(0x16, "authentication_data", _BINARY, "CONNECT CONNACK AUTH"),
    _row(0x17, "request_problem_info", _BYTE, "CONNECT", 0, 1),
    _row(0x18, "will_delay_s", _FOUR, "WILL"),
    _row(0x19, "request_response_info", _BYTE, "CONNECT", 0, 1),
    _row(0x1A, "response_info", _TEXT, "CONNACK"),
    _row(0x1C, "server_reference", _TEXT, "CONNACK DISCONNECT"),
    _row(0x1F, "reason_string", _TEXT, _ANSWERS),
    _row(0x21, "receive_maximum", _TWO, "CONNECT CONNACK", 1),
    _row(0x22, "topic_alias_maximum", _TWO, "CONNECT CONNACK"),
    _row(0x23, "topic_alias", _TWO, "PUBLISH"),
    _row(0x24, "maximum_qos", _BYTE, "CONNACK", 0, 1),
    _row(0x25, "retain_available", _BYTE, "CONNACK", 0, 1),
    _row(0x26, "user", _PAIR, f"CONNECT PUBLISH WILL SUBSCRIBE UNSUBSCRIBE {_ANSWERS}"),
    _row(0x27, "maximum_packet_size", _FOUR, "CONNECT CONNACK", 1),
    _row(0x28, "wildcard_available", _BYTE, "CONNACK", 0, 1),
    _row(0x29, "subscription_ids_available", _BYTE, "CONNACK", 0, 1),
    _row(0x2A, "shared_available", _BYTE, "CONNACK", 0, 1),
)

_BY_NUMBER: Final = {row.number: row for row in TABLE}
_MANY: Final = ("user", "subscription_ids")


def read_properties(reader: FieldReader, packet: Kind) -> Properties:
    """Read the length and the properties behind it."""
    size = reader.variable("property length")
    if not size:
        return NO_PROPERTIES
    if size > reader.left:
        raise malformed("property length", f"is {size}, and {reader.left} bytes are left")
    inside = FieldReader(reader.body, reader.at, reader.at + size)
    reader.at += size
    found: dict[str, Any] = {}
    while inside.left:
        number = inside.variable("property identifier")
        row = _BY_NUMBER.get(number)
        if row is None:
            raise malformed("property identifier", f"0x{number:02X} is none")
        if packet not in row.packets:
            # 2.2.2: a property that is not valid for its packet is a malformed packet
            raise malformed(row.name, f"does not belong to {packet.name}")
        _read_one(row, inside, packet, found)
    return Properties(**found)


def _read_one(row: _Row, reader: FieldReader, packet: Kind, found: dict[str, Any]) -> None:
    name = row.name
    value = row.type.read(reader, name)
    if row.type not in (_TEXT, _BINARY, _PAIR) and (value < row.low or (row.high is not None and value > row.high)):
        raise forbidden(name, f"is {value}; use {row.low} … {'' if row.high is None else row.high}")
    if name == "topic_alias" and not value:  # [MQTT-3.3.2-8]
        raise MqttError(Reason.TOPIC_ALIAS_INVALID, name, "is 0")
    if name in _MANY:
        if name == "subscription_ids" and packet is Kind.SUBSCRIBE and name in found:
            raise forbidden(name, "is there twice")  # 3.8.2.1.2
        found[name] = (*found.get(name, ()), value)
        return
    if name in found:
        raise forbidden(name, "is there twice")
    found[name] = value


def write_properties(properties: Properties) -> bytes:
    """The properties with their length before them."""
    if properties is NO_PROPERTIES:
        return b"\0"
    out: list[bytes] = []
    for row in TABLE:
        value = getattr(properties, row.name)
        if row.name in _MANY:
            for one in value:
                out += (write_variable(row.number), row.type.write(one, row.name))
        elif value is not None:
            out += (write_variable(row.number), row.type.write(value, row.name))
    data = b"".join(out)
    return write_variable(len(data)) + data
