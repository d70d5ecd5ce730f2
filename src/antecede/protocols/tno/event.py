"""An event as it travels on the event service: a timestamp, then the application's payload.

The service sees bytes: a header of 24 bytes (epoch, publisher, sequence number, number of entries), then entries of 24
bytes as the paper counts them (6.1), 16 for a topic's identifier and 8 for a number. The first entry is the event's own
topic. Then come the topics above it in the order that some node takes together with it. With TNO+, what was stamped
before it on topics below follows.
"""

import hashlib
import struct
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from antecede.core import Message, ProtocolError
from antecede.core.limits import CUBE_DIMENSION_MAX, DEPENDENCIES_MAX

#: The identifier of a topic in a timestamp, as long as a Pastry identifier.
TopicId: TypeAlias = bytes
#: A topic, and how many events had been numbered on it.
Entry: TypeAlias = tuple[TopicId, int]

ENTRY_BYTES: Final = 24

_HEADER: Final = struct.Struct(">QIQHH")
_ENTRY: Final = struct.Struct(">16sQ")


class Event(NamedTuple):
    """An event with its timestamp."""

    topic: TopicId
    #: Its number on its own topic, unique there.
    number: int
    epoch: int
    #: By topic above: how many of its events had been numbered.
    above: tuple[Entry, ...]
    #: By topic below: its last event that was stamped before.
    below: tuple[Entry, ...]
    #: The application's message.
    message: Message


@lru_cache(maxsize=65_536)
def topic_id(topic: str) -> TopicId:
    return hashlib.blake2b(topic.encode(), digest_size=16).digest()


def encode_event(
    message: Message, epoch: int, number: int, above: tuple[tuple[str, int], ...], below: tuple[tuple[str, int], ...]
) -> bytes:
    parts = [_HEADER.pack(epoch, message.source, message.seq, len(above), len(below))]
    parts += [_ENTRY.pack(topic_id(topic), n) for topic, n in ((message.topic, number), *above, *below)]
    return b"".join([*parts, message.payload])


def decode_event(topic: str, data: bytes) -> Event:
    """Decode an event. Raises `ProtocolError` for bytes that no ordering module made."""
    return _decode_small(topic, data) if len(data) <= _SMALL else _decode(topic, data)


def _decode(topic: str, data: bytes) -> Event:
    if len(data) < _HEADER.size + ENTRY_BYTES:
        raise ProtocolError(f"an event of {len(data)} bytes on {topic!r} has no timestamp")
    epoch, source, seq, above, below = _HEADER.unpack_from(data)
    payload_at = _HEADER.size + ENTRY_BYTES * (1 + above + below)
    if above + below > DEPENDENCIES_MAX or payload_at > len(data) or source >> CUBE_DIMENSION_MAX or not seq:
        raise ProtocolError(f"an event on {topic!r} has an impossible timestamp")
    entries = tuple(_ENTRY.iter_unpack(data[_HEADER.size : payload_at]))
    own, number = entries[0]
    if own != topic_id(topic) or not number:
        raise ProtocolError(f"an event on {topic!r} is stamped for another topic")
    message = Message(topic, source, seq, (), data[payload_at:])
    return Event(own, number, epoch, entries[1 : 1 + above], entries[1 + above :], message)


#: Small events are cached, since all subscribers of a simulation decode the same bytes. Large ones would fill memory.
_SMALL: Final = 1024
_decode_small: Final = lru_cache(maxsize=4096)(_decode)
