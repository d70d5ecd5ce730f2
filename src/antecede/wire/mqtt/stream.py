"""Splits the bytes of a connection into packets, whatever pieces they come in.

An incomplete packet is kept until the rest has come. Its length is checked before more than its fixed header is kept,
so a peer cannot make the reader hold more than `bytes_max`.
"""

from collections.abc import Iterator

from antecede.wire.mqtt.decoding import decode
from antecede.wire.mqtt.packets import V5, V311, AnyPacket
from antecede.wire.mqtt.properties import Kind
from antecede.wire.mqtt.reasons import MqttError, Reason, malformed


class PacketStream:
    """The bytes that one peer sends."""

    def __init__(self, *, bytes_max: int, version: int = V311) -> None:
        """`bytes_max`: of a whole packet. `version`: until a CONNECT says which."""
        self.version = version
        self._bytes_max = bytes_max
        self._buffer = b""
        self._at = 0
        #: An incomplete packet. It grows in place: a packet that comes byte by byte is not copied each time.
        self._rest = bytearray()
        #: Bytes that the next packet needs, as far as is known.
        self._need = 2

    def feed(self, data: bytes) -> None:
        """Take bytes that arrived. Ask for `packets` next."""
        if self._at < len(self._buffer):
            self._rest += memoryview(self._buffer)[self._at :]
        self._buffer, self._at = data, 0
        if self._rest:
            self._rest += data
            self._buffer = b""
            if len(self._rest) >= self._need:
                self._buffer = bytes(self._rest)
                self._rest.clear()

    def packets(self) -> Iterator[AnyPacket]:
        """The whole packets among the bytes fed so far, one by one. Raises `MqttError`."""
        while (packet := self.next()) is not None:
            yield packet

    def next(self) -> AnyPacket | None:
        """The next whole packet; None: bytes are missing. Raises `MqttError`, and must not be asked again then."""
        buffer, at = self._buffer, self._at
        if len(buffer) - at < self._need:
            return None
        size = shift = 0
        start = at + 1
        while True:
            if start >= len(buffer):
                self._need = len(buffer) - at + 1
                return None
            byte = buffer[start]
            size |= (byte & 0x7F) << shift
            start += 1
            if byte < 0x80:
                break
            shift += 7
            if shift > 21:
                raise malformed("remaining length", "has more than four bytes")
        if shift and not byte:  # [MQTT-1.5.5-1]
            raise malformed("remaining length", "is not in as few bytes as possible")
        end = start + size
        if end - at > self._bytes_max:
            problem = f"the packet has {end - at} bytes; {self._bytes_max} are accepted"
            raise MqttError(Reason.PACKET_TOO_LARGE, "remaining length", problem)
        if end > len(buffer):
            self._need = end - at
            return None
        self._at, self._need = end, 2
        body = buffer[start:end]
        if buffer[at] == Kind.CONNECT << 4:
            self.version = _version_of(body)
        return decode(buffer[at], body, self.version)


def _version_of(connect: bytes) -> int:
    """The version in whose form a CONNECT is answered, also if it is not valid."""
    return V5 if connect.startswith(b"\0\4MQTT") and connect[6:7] == b"\5" else V311
