"""Opens the messages that feeds give to MQTT sessions, and encodes them: each once, however many sessions it is for."""

from collections.abc import Iterator
from typing import Final

import msgspec

from antecede.core import ProtocolError
from antecede.core.caches import BoundedCache
from antecede.wire.mqtt.encoding import publish_parts
from antecede.wire.mqtt.envelopes import ApplicationMessage, open_message
from antecede.wire.mqtt.packets import Publish

#: Messages opened lately, and the bytes of the largest that is kept.
_OPENED_MAX: Final = 1024
_BYTES_MAX: Final = 4 * 1024


class _Columns(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The first three of the columns that `history` encodes one behind the other; the rest is skipped."""

    payloads: tuple[bytes, ...]
    positions: tuple[tuple[int, int], ...]
    ids: tuple[tuple[int, int, int], ...]


_decode = msgspec.msgpack.Decoder(_Columns).decode


class OpenedMessages:
    """By position."""

    def __init__(self) -> None:
        self._opened: BoundedCache[int, ApplicationMessage] = BoundedCache(_OPENED_MAX)
        #: By position, version and QoS: the PUBLISH, before and behind its packet identifier.
        self._encoded: BoundedCache[tuple[int, int, int], tuple[bytes, bytes]] = BoundedCache(_OPENED_MAX)

    def plain_publish(
        self, position: int, message: ApplicationMessage, version: int, qos: int, packet_id: int
    ) -> bytes:
        """A PUBLISH with nothing of the reader's own in it but the identifier: most readers are given the same."""
        found = self._encoded.get((position, version, qos))
        if found is None:
            packet = Publish(topic=message.topic, payload=message.payload, qos=qos, properties=message.properties)
            found = publish_parts(packet, version)
            if len(found[1]) <= _BYTES_MAX:
                self._encoded[position, version, qos] = found
        before, behind = found
        return before + packet_id.to_bytes(2) + behind if qos else before + behind

    def of_piece(self, piece: bytes) -> Iterator[tuple[int, ApplicationMessage, tuple[int, int]]]:
        """The messages in the columns that a feed sends, with their positions, and their streams and numbers."""
        columns = _decode(b"\x96" + piece)  # an array of six
        names = [(stream, first + one) for stream, first, count in columns.ids for one in range(count)]
        at = 0
        for first, count in columns.positions:
            # Position 0: this node did not deliver them at any position.
            for position in range(first, first + count) if first else [0] * count:
                message = self.open(position, columns.payloads[at])
                if message is not None:
                    yield position, message, names[at]
                at += 1

    def open(self, position: int, payload: bytes) -> ApplicationMessage | None:
        """None: it is of a peer that is no node of ours."""
        found = self._opened.get(position) if position else None
        if found is None:
            try:
                found = open_message(payload)
            except ProtocolError:
                return None
            if position and len(payload) <= _BYTES_MAX:
                self._opened[position] = found
        return found
