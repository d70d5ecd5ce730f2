"""Bytes of an MQTT client, as a node reads them: only `MqttError` may escape.

An input is a byte that chooses the size of the pieces, and what the client sends: CONNECT first, or not. What decodes
must encode to something that decodes to the same. Publications and acknowledgements go through the exchanges of QoS 1
and 2, subscriptions through their filters.
"""

import contextlib

from antecede.wire.mqtt.connection import ServerConnection
from antecede.wire.mqtt.encoding import encode
from antecede.wire.mqtt.flows import Incoming, Outgoing
from antecede.wire.mqtt.packets import (
    V5,
    V311,
    AnyPacket,
    Connect,
    Disconnect,
    Pingreq,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Unsubscribe,
    Wanted,
    Will,
)
from antecede.wire.mqtt.properties import Properties
from antecede.wire.mqtt.reasons import MqttError, Reason
from antecede.wire.mqtt.stream import PacketStream
from antecede.wire.mqtt.subscriptions import Subscription, Subscriptions
from antecede.wire.mqtt.topics import split_filter
from tests.fuzz.parsers import kind_of


def read(data: bytes) -> set[str]:
    size, sent = 1 + data[0] if data else 1, data[1:]
    client = _Client()
    said: set[str] = set()
    try:
        for at in range(0, len(sent), size):
            client.rules.receive(sent[at : at + size])
            for packet in client.rules.packets():
                said.add(packet.kind.name)
                _there_and_back(packet, client.rules.version)
                client.handle(packet)
    except MqttError as error:
        said.add(kind_of(error))
        words = client.rules.last_words(error)
        stream = PacketStream(bytes_max=1 << 20, version=client.rules.version)
        stream.feed(words)
        assert len(list(stream.packets())) == bool(words)
    return said or {"nothing"}


class _Client:
    """A session without a node."""

    def __init__(self) -> None:
        self.rules = ServerConnection(bytes_max=4096, alias_maximum=8)
        self._incoming = Incoming(16)
        self._outgoing: Outgoing[str] = Outgoing(16)
        self._subscriptions = Subscriptions()

    def _publish(self, packet: Publish) -> None:
        for qos in (1, 2):
            if self._subscriptions.takes(packet.topic) and self._outgoing.room:
                self._outgoing.begin(packet.topic, qos)
        if packet.qos and self._incoming.take(packet, self.rules.version):
            self._incoming.settle(packet.packet_id, Reason.SUCCESS)
        for answer in self._incoming.acknowledgements():
            self.rules.encode(answer)

    def _subscribe(self, packet: Subscribe) -> None:
        for wanted in packet.wanted:
            with contextlib.suppress(MqttError):
                shared = split_filter(wanted.pattern)
                self._subscriptions.add(Subscription(pattern=shared.pattern, group=shared.group, qos=wanted.qos))

    def handle(self, packet: AnyPacket) -> None:
        if isinstance(packet, Publish):
            self._publish(packet)
        elif isinstance(packet, Puback):
            self._outgoing.puback(packet)
        elif isinstance(packet, Pubrec):
            self._outgoing.pubrec(packet)
        elif isinstance(packet, Pubcomp):
            self._outgoing.pubcomp(packet)
        elif isinstance(packet, Pubrel):
            self._incoming.release(packet)
        elif isinstance(packet, Subscribe):
            self._subscribe(packet)
        elif isinstance(packet, Unsubscribe):
            for pattern in packet.patterns:
                self._subscriptions.remove(pattern)
        assert len(self._incoming) <= 16 or self.rules.version == V311
        assert len(self._outgoing) <= 16


def _there_and_back(packet: AnyPacket, version: int) -> None:
    stream = PacketStream(bytes_max=1 << 20, version=version)
    stream.feed(encode(packet, version))
    assert list(stream.packets()) == [packet]


def seeds() -> dict[str, bytes]:
    found = {}
    for name, version in (("311", V311), ("5", V5)):
        new = version == V5
        more = Properties(user=(("a", "b"), ("a", "c")), topic_alias=3, content_type="x") if new else Properties()
        packets: list[AnyPacket] = [
            Connect(
                version=version,
                client_id="c",
                will=Will(topic="w", payload=b"x", qos=1, retain=True),
                user_name="u",
                password=b"p",
                properties=Properties(receive_maximum=9, maximum_packet_size=99) if new else Properties(),
            ),
            Subscribe(packet_id=1, wanted=(Wanted(pattern="a/+", qos=2), Wanted(pattern="$share/g/a/#", qos=1))),
            Publish(topic="a/b", payload=b"x", qos=1, packet_id=2, properties=more),
            Publish(topic="a/b", payload=b"x", qos=2, packet_id=3),
            Pubrel(packet_id=3),
            Puback(packet_id=1),
            Pubrec(packet_id=2),
            Pubcomp(packet_id=2),
            Unsubscribe(packet_id=4, patterns=("a/+",)),
            Pingreq(),
            Disconnect(),
        ]
        whole = b"".join(encode(packet, version) for packet in packets)
        found[f"session-{name}"] = b"\xff" + whole
        found[f"bytes-{name}"] = b"\0" + whole
        for packet in packets[1:]:
            found[f"{packet.kind.name.lower()}-{name}"] = (
                b"\xff" + encode(packets[0], version) + encode(packet, version)
            )
    return found
