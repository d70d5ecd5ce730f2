"""Bounds the bytes of publications that are not acknowledged yet.

Only larger publications are counted: their number bounds the small ones (`client.publications`), and most are small.
"""

from typing import Final

#: Bytes of the larger publications under way. A node lets those of one client wait up to about twice as many.
PENDING_BYTES_MAX: Final = 8 * 1024 * 1024

#: Publications up to this size are not counted.
SMALL_BYTES: Final = 512


class PendingBytes:
    """The bytes of larger publications under way, by number."""

    __slots__ = ("_sizes", "used")

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}
        self.used = 0

    @property
    def full(self) -> bool:
        return self.used >= PENDING_BYTES_MAX

    def add(self, number: int, size: int) -> None:
        if size > SMALL_BYTES:
            self._sizes[number] = size
            self.used += size

    def forget(self, first: int, count: int = 1) -> None:
        """These publications are not under way any more."""
        if self._sizes:
            for number in range(first, first + count):
                self.used -= self._sizes.pop(number, 0)

    def clear(self) -> None:
        self._sizes.clear()
        self.used = 0
