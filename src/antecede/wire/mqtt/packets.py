"""The packets of MQTT 3.1.1 and 5 as records: what `decoding` makes of bytes, and `encoding` makes into bytes.

A field that 3.1.1 does not have is left at its default there.
"""

from typing import ClassVar, Final, TypeAlias

import msgspec

from antecede.wire.mqtt.properties import NO_PROPERTIES, Kind, Properties
from antecede.wire.mqtt.reasons import Reason

#: Protocol levels (3.1.2.2).
V311: Final = 4
V5: Final = 5


class Packet(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all. `kind`: the number of the packet type."""

    kind: ClassVar[Kind]


class Will(msgspec.Struct, frozen=True, kw_only=True):
    """The will message of a CONNECT."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES


class Connect(Packet, frozen=True, kw_only=True):
    kind: ClassVar[Kind] = Kind.CONNECT
    version: int = V5
    client_id: str = ""
    clean_start: bool = True
    keep_alive_s: int = 0
    will: Will | None = None
    user_name: str | None = None
    password: bytes | None = None
    properties: Properties = NO_PROPERTIES


class Connack(Packet, frozen=True, kw_only=True):
    kind: ClassVar[Kind] = Kind.CONNACK
    session_present: bool = False
    reason: Reason = Reason.SUCCESS
    properties: Properties = NO_PROPERTIES


class Publish(Packet, frozen=True, kw_only=True):
    kind: ClassVar[Kind] = Kind.PUBLISH
    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    dup: bool = False
    #: 0 with QoS 0.
    packet_id: int = 0
    properties: Properties = NO_PROPERTIES


class Acknowledgement(Packet, frozen=True, kw_only=True):
    """Base of the four that acknowledge a PUBLISH or each other."""

    packet_id: int
    reason: Reason = Reason.SUCCESS
    properties: Properties = NO_PROPERTIES


class Puback(Acknowledgement, frozen=True, kw_only=True):
    kind: ClassVar[Kind] = Kind.PUBACK


class Pubrec(Acknowledgement, frozen=True, kw_only=True):
    kind: ClassVar[Kind] = Kind.PUBREC


class Pubrel(Acknowledgement, frozen=True, kw_only=True):
    kind: ClassVar[Kind] = Kind.PUBREL


class Pubcomp(Acknowledgement, frozen=True, kw_only=True):
    kind: ClassVar[Kind] = Kind.PUBCOMP


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """One filter of a SUBSCRIBE with its options (3.8.3.1)."""

    pattern: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class Subscribe(Packet, frozen=True, kw_only=True):
    kind: ClassVar[Kind] = Kind.SUBSCRIBE
    packet_id: int
    wanted: tuple[Wanted, ...]
    properties: Properties = NO_PROPERTIES


class Suback(Packet, frozen=True, kw_only=True):
    kind: ClassVar[Kind] = Kind.SUBACK
    packet_id: int
    reasons: tuple[Reason, ...]
    properties: Properties = NO_PROPERTIES


class Unsubscribe(Packet, frozen=True, kw_only=True):
    kind: ClassVar[Kind] = Kind.UNSUBSCRIBE
    packet_id: int
    patterns: tuple[str, ...]
    properties: Properties = NO_PROPERTIES


class Unsuback(Packet, frozen=True, kw_only=True):
    kind: ClassVar[Kind] = Kind.UNSUBACK
    packet_id: int
    #: Empty with 3.1.1.
    reasons: tuple[Reason, ...] = ()
    properties: Properties = NO_PROPERTIES


class Pingreq(Packet, frozen=True, kw_only=True):
    kind: ClassVar[Kind] = Kind.PINGREQ


class Pingresp(Packet, frozen=True, kw_only=True):
    kind: ClassVar[Kind] = Kind.PINGRESP


class Disconnect(Packet, frozen=True, kw_only=True):
    kind: ClassVar[Kind] = Kind.DISCONNECT
    reason: Reason = Reason.SUCCESS
    properties: Properties = NO_PROPERTIES


class Auth(Packet, frozen=True, kw_only=True):
    kind: ClassVar[Kind] = Kind.AUTH
    reason: Reason = Reason.SUCCESS
    properties: Properties = NO_PROPERTIES


AnyPacket: TypeAlias = (
    Connect
    | Connack
    | Publish
    | Puback
    | Pubrec
    | Pubrel
    | Pubcomp
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)

#: The reasons that a packet may give (2.4), beside those of SUBACK and UNSUBACK below.
_OF_ACK: Final = frozenset(
    map(Reason, (0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99))  # 3.4.2.1, 3.5.2.1
)
REASONS: Final[dict[Kind, frozenset[Reason]]] = {
    Kind.CONNACK: frozenset(
        map(
            Reason,
            (0, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F),
        )
    ),
    Kind.PUBACK: _OF_ACK,
    Kind.PUBREC: _OF_ACK,
    Kind.PUBREL: frozenset((Reason.SUCCESS, Reason.PACKET_ID_NOT_FOUND)),
    Kind.PUBCOMP: frozenset((Reason.SUCCESS, Reason.PACKET_ID_NOT_FOUND)),
    Kind.SUBACK: frozenset(map(Reason, (0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2))),
    Kind.UNSUBACK: frozenset(map(Reason, (0, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91))),
    Kind.DISCONNECT: frozenset(
        map(
            Reason,
            (
                *(0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90),
                *(0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2),
            ),
        )
    ),
    Kind.AUTH: frozenset((Reason.SUCCESS, Reason.CONTINUE_AUTHENTICATION, Reason.RE_AUTHENTICATE)),
}
