"""Several messages in one packet, as many as fit."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def _one(item: object) -> int:
    return 1


def in_packets(
    items: Iterable[T], room: int, size: Callable[[T], int] = _one, *, count_max: int | None = None
) -> list[tuple[T, ...]]:
    """Split `items`, in order, into packets with `room` for at most `count_max` items each.

    An item larger than the room travels alone. Without `size` every item takes 1 of the room.
    """
    packets: list[tuple[T, ...]] = []
    filling: list[T] = []
    left = room
    for item in items:
        takes = size(item)
        if filling and (takes > left or len(filling) == count_max):
            packets.append(tuple(filling))
            filling, left = [], room
        filling.append(item)
        left -= takes
    if filling:
        packets.append(tuple(filling))
    return packets
