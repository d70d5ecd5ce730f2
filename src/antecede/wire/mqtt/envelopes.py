"""How an MQTT message travels between nodes: in an envelope (`wire.envelope`) with one field more.

The envelope has topic, time, body and headers, as that of any client; its sixth field has what only MQTT needs. Other
clients read the first four. User properties are headers to them, as far as they fit; the same name twice is one header.
A message of another client has no sixth field: its headers are user properties, and its QoS is as high as a reader
wants.
"""

import hashlib
from typing import Any

import msgspec

from antecede.core.errors import ProtocolError
from antecede.wire.envelope import HEADER_BYTES_MAX, HEADERS_MAX
from antecede.wire.mqtt.properties import NO_PROPERTIES, Properties, UserProperties

_HEAD = b"\x96"


class Attributes(msgspec.Struct, frozen=True, array_like=True):
    """What MQTT knows of a message beside topic and payload."""

    #: Of the client that published it (`publisher_tag`).
    publisher: bytes
    qos: int
    retain: bool = False
    #: With QoS 2: the generation of the session and, in the lowest two bytes, the packet identifier. A node that was
    #: killed finds by it what it has published.
    packet_id: int = 0
    #: Those that travel with a message (3.3.2.3).
    properties: Properties | None = None


class _Sealed(msgspec.Struct, frozen=True, array_like=True):
    topic: str
    time_us: int
    body: bytes
    headers: dict[str, str] = {}
    mark: Any = None
    attributes: Attributes | None = None


_decode = msgspec.msgpack.Decoder(_Sealed).decode
_encode = msgspec.msgpack.Encoder().encode


class ApplicationMessage(msgspec.Struct, frozen=True):
    """A message to give to MQTT clients."""

    topic: str
    payload: bytes
    time_us: int
    qos: int = 2
    retain: bool = False
    publisher: bytes = b""
    packet_id: int = 0
    properties: Properties = NO_PROPERTIES

    def expires_us(self) -> int | None:
        """When it expires, in microseconds since 1970."""
        expiry_s = self.properties.message_expiry_s
        return None if expiry_s is None else self.time_us + expiry_s * 1_000_000


def publisher_tag(client_id: str) -> bytes:
    """Tells publishers apart, in eight bytes."""
    return hashlib.blake2b(client_id.encode(errors="surrogatepass"), digest_size=8).digest()


def seal_message(message: ApplicationMessage) -> bytes:
    """The payload of a message that an MQTT client published."""
    properties = None if message.properties is NO_PROPERTIES else message.properties
    attributes = Attributes(message.publisher, message.qos, message.retain, message.packet_id, properties)
    headers = _headers(message.properties.user) if properties is not None else {}
    return _encode((message.topic, message.time_us, message.payload, headers, None, attributes))


def open_message(payload: bytes) -> ApplicationMessage:
    """Open the envelope of any client. Raises `ProtocolError`."""
    try:
        sealed = _decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"a message's payload is not an envelope: {error}") from None
    found = sealed.attributes
    if found is None:
        properties = Properties(user=_user(sealed.headers)) if sealed.headers else NO_PROPERTIES
        return ApplicationMessage(sealed.topic, sealed.body, sealed.time_us, properties=properties)
    return ApplicationMessage(
        sealed.topic,
        sealed.body,
        sealed.time_us,
        found.qos,
        found.retain,
        found.publisher,
        found.packet_id,
        found.properties or NO_PROPERTIES,
    )


def is_of_mqtt(payload: bytes) -> bool:
    """Is this the envelope of an MQTT client? Cheap: other envelopes have four or five fields."""
    return payload.startswith(_HEAD)


def _user(headers: dict[str, str]) -> UserProperties:
    """Headers as user properties. MQTT's text has no NUL ([MQTT-1.5.4-2]); ours may."""
    return tuple([(name.replace("\0", "\ufffd"), value.replace("\0", "\ufffd")) for name, value in headers.items()])


def _headers(user: UserProperties) -> dict[str, str]:
    fitting = [(name, value) for name, value in user if max(len(name), len(value)) * 4 <= HEADER_BYTES_MAX]
    return dict(fitting[:HEADERS_MAX])
