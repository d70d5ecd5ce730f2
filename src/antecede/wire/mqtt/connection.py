"""One connection of a client, seen from the server: which packets may come when, how large they may be, and until when.

It has no socket and no clock. Bytes that arrived go into `receive`; `packets` gives what they mean, checked. `encode`
makes bytes of an answer, within the size that the client accepts. Any broken rule is an `MqttError`; its connection
must be closed, with DISCONNECT before (version 5) or without (3.1.1, [MQTT-4.13.1-1], 4.13.2).
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from antecede.wire.mqtt.aliases import IncomingAliases, OutgoingAliases
from antecede.wire.mqtt.encoding import encode
from antecede.wire.mqtt.packets import REASONS, V5, AnyPacket, Auth, Connack, Connect, Disconnect, Publish
from antecede.wire.mqtt.properties import NO_PROPERTIES, Kind
from antecede.wire.mqtt.reasons import MqttError, Reason, forbidden
from antecede.wire.mqtt.stream import PacketStream

#: What only servers send.
_NOT_FROM_CLIENTS: Final = frozenset((Kind.CONNACK, Kind.SUBACK, Kind.UNSUBACK, Kind.PINGRESP))


class ServerConnection:
    """The rules of one connection."""

    def __init__(self, *, bytes_max: int, alias_maximum: int) -> None:
        """`bytes_max`: of a packet from the client. `alias_maximum`: topic aliases that the client may set."""
        self._stream = PacketStream(bytes_max=bytes_max)
        self.connect: Connect | None = None
        self.incoming_aliases = IncomingAliases(alias_maximum)
        self.outgoing_aliases = OutgoingAliases(0)
        self._aliased = False
        self._answer_bytes_max = 0
        #: Seconds without a packet after which the connection ends; 0: never.
        self.patience_s = 0.0

    @property
    def version(self) -> int:
        return self._stream.version

    @property
    def plain(self) -> bool:
        """Does the client set no bound on packets, and take no topic aliases?"""
        return not self._aliased and not self._answer_bytes_max

    def receive(self, data: bytes) -> None:
        self._stream.feed(data)

    def packets(self) -> Iterator[AnyPacket]:
        """The packets in what was received. Raises `MqttError`."""
        while (packet := self._stream.next()) is not None:
            if self.connect is None:
                if type(packet) is not Connect:  # [MQTT-3.1.0-1]
                    raise forbidden("packet type", f"the first packet is {packet.kind.name}, not CONNECT")
                self._connected(packet)
            elif type(packet) is Connect:  # [MQTT-3.1.0-2]
                raise forbidden("packet type", "a second CONNECT")
            elif packet.kind in _NOT_FROM_CLIENTS:
                raise forbidden("packet type", f"{packet.kind.name} is not for clients to send")
            elif type(packet) is Publish:
                packet = self._resolved(packet)
            elif type(packet) is Auth:
                # [MQTT-4.12.0-6]: CONNECT named no method that we have, so there is nothing to go on with.
                raise forbidden("packet type", "AUTH without an authentication method")
            elif type(packet) is Disconnect:
                self._check_disconnect(packet)
            yield packet

    def _connected(self, packet: Connect) -> None:
        self.connect = packet
        self._answer_bytes_max = packet.properties.maximum_packet_size or 0
        maximum = packet.properties.topic_alias_maximum or 0
        self._aliased = maximum > 0
        self.outgoing_aliases = OutgoingAliases(maximum)
        self.patience_s = 1.5 * packet.keep_alive_s  # [MQTT-3.1.2-22]

    def limit_keep_alive(self, most_s: int) -> int:
        """The keep alive of this connection: the client's, but at most `most_s` ([MQTT-3.2.2-21]). 0: none."""
        assert self.connect is not None
        keep_alive_s = self.connect.keep_alive_s
        if most_s:
            keep_alive_s = min(keep_alive_s, most_s)
        self.patience_s = 1.5 * keep_alive_s
        return keep_alive_s

    def _resolved(self, packet: Publish) -> Publish:
        if packet.properties is NO_PROPERTIES:
            return packet
        if packet.properties.subscription_ids:  # [MQTT-3.3.4-6]
            raise forbidden("subscription identifier", "is not for clients to send in a PUBLISH")
        topic = self.incoming_aliases.topic_of(packet)
        if packet.properties.topic_alias is None:
            return packet
        # The alias is between these two only: it does not travel with the message.
        left = msgspec.structs.replace(packet.properties, topic_alias=None)
        return msgspec.structs.replace(packet, topic=topic, properties=left if left != NO_PROPERTIES else NO_PROPERTIES)

    def _check_disconnect(self, packet: Disconnect) -> None:
        """3.14.2.2.2: a session that was to end with its connection cannot be prolonged at its end."""
        assert self.connect is not None
        if packet.properties.session_expiry_s and not self.connect.properties.session_expiry_s:
            raise forbidden("session expiry interval", "was 0 in CONNECT and is not any more")

    def encode(self, packet: AnyPacket) -> bytes | None:
        """The bytes of a packet to the client; None: it is larger than the client accepts ([MQTT-3.1.2-24])."""
        data = encode(packet, self.version)
        most = self._answer_bytes_max
        if not most or len(data) <= most:
            return data
        properties = getattr(packet, "properties", NO_PROPERTIES)
        if type(packet) is not Publish and (properties.reason_string or properties.user):  # 3.2.2.3.9 and its like
            left = msgspec.structs.replace(properties, reason_string=None, user=())
            return self.encode(msgspec.structs.replace(packet, properties=left))
        return None

    def encode_publish(self, packet: Publish) -> bytes | None:
        """The same for a PUBLISH, with a topic alias if the client takes some."""
        if not self._aliased:
            return self.encode(packet)
        topic, alias = self.outgoing_aliases.name(packet.topic)
        if alias is None:
            return self.encode(packet)
        properties = msgspec.structs.replace(packet.properties, topic_alias=alias)
        data = self.encode(msgspec.structs.replace(packet, topic=topic, properties=properties))
        if data is None and topic:
            self.outgoing_aliases.forget(topic)
        return data

    def last_words(self, error: MqttError) -> bytes:
        """What to write before the connection is closed because of `error`: mostly nothing with 3.1.1."""
        if self.connect is None:
            return self._refusal(error)
        return self.farewell(error.reason if error.reason in _FOR_DISCONNECT else Reason.UNSPECIFIED)

    def farewell(self, reason: Reason) -> bytes:
        """The DISCONNECT of a server; 3.1.1 has none."""
        return b"" if self.version < V5 else self.encode(Disconnect(reason=reason)) or b""

    def _refusal(self, error: MqttError) -> bytes:
        """A CONNACK for a CONNECT that was no good (3.1.4), in the form of its version. Nothing for other packets.

        3.1.1 has a code for the wrong version only ([MQTT-3.1.2-2]); all else is closed without words (3.1.1: 4.8).
        """
        if error.reason is Reason.UNSUPPORTED_VERSION and error.field == "protocol version":
            return encode(Connack(reason=error.reason), self.version)
        if self.version < V5:
            return b""
        reason = error.reason if error.reason in REASONS[Kind.CONNACK] else Reason.MALFORMED_PACKET
        return encode(Connack(reason=reason), self.version)


_FOR_DISCONNECT: Final = frozenset(
    map(Reason, (0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98))
) | {Reason.PAYLOAD_FORMAT_INVALID, Reason.QOS_NOT_SUPPORTED}
