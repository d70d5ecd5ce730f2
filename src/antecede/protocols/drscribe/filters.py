"""Bloom filters of topics: a set in a fixed number of bits, which may seem to hold a topic that it does not hold."""

from collections.abc import Iterable

import msgspec

from antecede.overlay.pastry import name_of


class FilterShape(msgspec.Struct, frozen=True):
    """The size of a filter. A filter is a number; bit n of it is bit n of the filter."""

    bits: int
    #: Bits that a topic sets.
    hashes: int

    def of(self, topics: Iterable[str]) -> int:
        """The filter that holds `topics`."""
        bits = 0
        for topic in topics:
            for number in range(self.hashes):
                bits |= 1 << name_of(f"{number} {topic}") % self.bits
        return bits

    def packed(self, bits: int) -> bytes:
        return bits.to_bytes((self.bits + 7) // 8, "big")
