"""Reason codes of MQTT 5, the return codes of 3.1.1, and the error that carries them.

A reason below 0x80 is a success. `MqttError` is what a peer did wrong: the reason to answer with, and the field. Its
connection ends with it. Section numbers are those of the OASIS standard of MQTT 5, unless the text says 3.1.1.
"""

from enum import IntEnum
from typing import Final

from antecede.core.errors import ProtocolError


class Reason(IntEnum):
    """All reason codes (2.4). Some numbers have another name in some packets."""

    SUCCESS = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    RE_AUTHENTICATE = 0x19
    UNSPECIFIED = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC = 0x83
    UNSUPPORTED_VERSION = 0x84
    CLIENT_ID_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_ID_IN_USE = 0x91
    PACKET_ID_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2

    @property
    def failed(self) -> bool:
        return self >= 0x80


#: The return codes of a CONNACK of 3.1.1 (3.1.1: table 3.1), by reason. Other reasons close the connection without one.
RETURN_CODES: Final = {
    Reason.SUCCESS: 0,
    Reason.UNSUPPORTED_VERSION: 1,
    Reason.CLIENT_ID_NOT_VALID: 2,
    Reason.SERVER_UNAVAILABLE: 3,
    Reason.SERVER_BUSY: 3,
    Reason.SERVER_SHUTTING_DOWN: 3,
    Reason.BAD_USER_NAME_OR_PASSWORD: 4,
    Reason.NOT_AUTHORIZED: 5,
}

#: The same, from code to reason.
RETURNED: Final = {
    0: Reason.SUCCESS,
    1: Reason.UNSUPPORTED_VERSION,
    2: Reason.CLIENT_ID_NOT_VALID,
    3: Reason.SERVER_UNAVAILABLE,
    4: Reason.BAD_USER_NAME_OR_PASSWORD,
    5: Reason.NOT_AUTHORIZED,
}


class MqttError(ProtocolError):
    """A peer broke a rule of MQTT. `reason` is what to answer, `field` what was wrong."""

    def __init__(self, reason: Reason, field: str, problem: str) -> None:
        self.reason = reason
        self.field = field
        self.problem = problem
        super().__init__(f"{field}: {problem} (reason 0x{reason:02X}, {reason.name.lower().replace('_', ' ')})")


def malformed(field: str, problem: str) -> MqttError:
    """The bytes cannot be parsed by the rules of the standard (1.2, Malformed Packet)."""
    return MqttError(Reason.MALFORMED_PACKET, field, problem)


def forbidden(field: str, problem: str) -> MqttError:
    """The packet can be parsed, and the protocol does not allow it (1.2, Protocol Error)."""
    return MqttError(Reason.PROTOCOL_ERROR, field, problem)
