"""Finds each node's first take of each message. The order rules judge only those; `exactly-once` judges repetitions."""

from collections.abc import Iterator

from antecede.audit.reference.history import History, Take


class Marks:
    """A set of pairs (node, message), one bit each, because it holds every delivery of a trace."""

    def __init__(self, history: History) -> None:
        self._bytes = len(history.keys) // 8 + 1
        self._bits: dict[int, bytearray] = {}

    def add(self, node: int, message: int) -> bool:
        """Add a pair; true if it was new."""
        bits = self._bits.get(node)
        if bits is None:
            bits = self._bits[node] = bytearray(self._bytes)
        byte, bit = message >> 3, 1 << (message & 7)
        new = not bits[byte] & bit
        bits[byte] |= bit
        return new

    def has(self, node: int, message: int) -> bool:
        bits = self._bits.get(node)
        return bits is not None and bool(bits[message >> 3] & 1 << (message & 7))

    def bitsets(self) -> dict[int, int]:
        """By node: its messages, as the bits of one integer."""
        return {node: int.from_bytes(bits, "little") for node, bits in self._bits.items()}


def first_takes(history: History) -> Iterator[Take]:
    """Each node's first publish or deliver row of each message: a publisher has its message from then on."""
    seen = Marks(history)
    return (take for take in history.takes() if seen.add(take.node, take.message))


def first_deliveries(history: History) -> Iterator[Take]:
    """Each node's first deliver row of each message."""
    seen = Marks(history)
    return (take for take in history.takes() if not take.published and seen.add(take.node, take.message))


def find_take(takes: Iterator[Take], node: int, message: int) -> Take:
    """The first of `takes` by `node` of `message`; the caller knows that there is one."""
    return next(take for take in takes if take.node == node and take.message == message)
