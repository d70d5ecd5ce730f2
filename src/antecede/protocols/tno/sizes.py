"""Sizes of control packets: 20 bytes for a header, 24 for an entry as in the paper (6.1), 16 a topic, 8 a number."""

from antecede.core import Packet
from antecede.protocols.tno.packets import (
    Append,
    Fill,
    FillSub,
    Install,
    NewOrder,
    Promise,
    Published,
    Stamp,
    SubAgain,
    SubDone,
    UpdateSub,
    Void,
    VoidAck,
)

HEADER_BYTES = 20
_TOPIC_BYTES = 16
_NUMBER_BYTES = 8
_ENTRY_BYTES = _TOPIC_BYTES + _NUMBER_BYTES


def control_bytes(packet: Packet) -> int:
    """A header, the topic and number it is about, and what else it carries."""
    return HEADER_BYTES + _ENTRY_BYTES + _more(packet)


def _more(packet: Packet) -> int:  # noqa: PLR0911 - one line a kind
    match packet:
        case Fill():
            return _ENTRY_BYTES * (1 + len(packet.above) + len(packet.below)) + _TOPIC_BYTES * len(packet.route)
        case Stamp():
            return _ENTRY_BYTES * (len(packet.above) + len(packet.below)) + _NUMBER_BYTES
        case Published():
            return _ENTRY_BYTES * len(packet.numbers)
        case Void() | VoidAck():
            return _NUMBER_BYTES * len(packet.numbers)
        case FillSub():
            return _TOPIC_BYTES * (len(packet.topics) + len(packet.route)) + _ENTRY_BYTES * len(packet.floors)
        case SubDone():
            return _ENTRY_BYTES * len(packet.floors)
        case SubAgain() | NewOrder():
            return _TOPIC_BYTES * len(packet.order)
        case UpdateSub():
            return _TOPIC_BYTES * len(packet.topics)
        case Append():
            return control_bytes(packet.request)
        case Promise() | Install():
            return len(packet.state)
    return 0
