"""Several messages in one packet, as many as fit."""

from collections.abc import Callable, Iterable

from antecede.core import Message


def in_packets(messages: Iterable[Message], size: Callable[[Message], int], room: int) -> list[tuple[Message, ...]]:
    """The messages in order, parted where a packet with `room` for them is full. One that exceeds it travels alone."""
    parts: list[tuple[Message, ...]] = []
    filling: list[Message] = []
    left = room
    for message in messages:
        takes = size(message)
        if filling and takes > left:
            parts.append(tuple(filling))
            filling, left = [], room
        filling.append(message)
        left -= takes
    if filling:
        parts.append(tuple(filling))
    return parts
