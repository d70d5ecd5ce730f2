"""Pastry's ring: routing by prefix to the node whose name is closest to a key (Rowstron & Druschel, Middleware 2001).

Names are numbers on a large circle, written in digits of base 2^b. A message for a key goes, hop by hop, to a node
whose name shares a longer prefix with the key, and ends at the node closest to the key, its *root*, after about
log_{2^b} N hops. A node's *leaves* are its neighbours on the circle; a key between them goes straight to the closest
leaf.

Here every node knows all nodes, so routing tables are computed, not gathered. For each prefix a table names one node
that has it. Different nodes name different ones, which spreads load as Pastry's choice by proximity does.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence, Set
from functools import cache
from hashlib import blake2b
from typing import Final

from antecede.core.errors import UsageError

#: Names and keys are numbers below 2^NAME_BITS. Pastry has 128 bits; 64 do not collide among 2^16 nodes.
NAME_BITS: Final = 64
_CIRCLE: Final = 1 << NAME_BITS


def name_of(text: str) -> int:
    """The position of a text on the circle: its hash."""
    return int.from_bytes(blake2b(text.encode(), digest_size=NAME_BITS // 8).digest(), "big")


def distance(one: int, other: int) -> int:
    """The distance along the circle, the shorter way round."""
    gap = abs(one - other)
    return min(gap, _CIRCLE - gap)


class Pastry:
    """A ring of the nodes 0 … `nodes` − 1."""

    def __init__(
        self,
        nodes: int,
        *,
        digit_bits: int = 4,
        leaves: int = 16,
        names: Sequence[int] = (),
        keys: Mapping[str, int] | None = None,
    ) -> None:
        """Build the ring of a number of nodes.

        `digit_bits` is Pastry's b; `leaves` is how many neighbours on the circle a node knows, half on each side.
        `names`, all different, and `keys` place nodes and texts where no hash would; a text without a key is hashed.
        """
        if nodes < 1:
            raise UsageError("nodes", nodes, "a ring needs a node", "use at least 1")
        if NAME_BITS % digit_bits:
            raise UsageError("digit_bits", digit_bits, f"does not divide {NAME_BITS}", "use 1, 2, 4 or 8")
        self.nodes = nodes
        self._digit_bits = digit_bits
        self._side = max(1, leaves // 2)
        self._name = list(names) or [name_of(f"node {node}") for node in range(nodes)]
        self._keys = keys or {}
        self._around = sorted(range(nodes), key=self._name.__getitem__)
        self._names = [self._name[node] for node in self._around]
        self._place = {node: place for place, node in enumerate(self._around)}
        self._entry = cache(self._entry_of)

    def key_of(self, text: str) -> int:
        """The position of a text on the circle."""
        return self._keys[text] if text in self._keys else name_of(text)

    def root(self, key: int, down: Set[int] = frozenset()) -> int:
        """The live node closest to `key`. Of two at the same distance, the one with the lower name."""
        start = bisect_left(self._names, key)
        best: int | None = None
        for step in (1, -1):
            place = start if step == 1 else start - 1
            for _ in range(self.nodes):
                node = self._around[place % self.nodes]
                if node not in down:
                    if best is None or self._closeness(node, key) < self._closeness(best, key):
                        best = node
                    break
                place += step
        if best is None:
            raise UsageError("down", len(down), "every node is down", "leave one up")
        return best

    def next_hop(self, node: int, key: int, down: Set[int] = frozenset()) -> int | None:
        """The node to which `node` forwards a message for `key`; None if `node` is the root."""
        leaves = self._leaves(node, down)
        if self._among(leaves, key):
            closest = min((node, *leaves), key=lambda one: self._closeness(one, key))
            return closest if closest != node else None
        shared = self._shared(node, key)
        entry = self._entry(node, key >> (NAME_BITS - (shared + 1) * self._digit_bits), shared + 1)
        if entry is not None and entry not in down:
            return entry
        # Pastry's rare case: no node with a longer prefix is known. All names between this one and the key have at
        # least the prefix these two share, and since the key is beyond the leaves, some leaf is between them.
        return min(
            (leaf for leaf in leaves if self._shared(leaf, key) >= shared), key=lambda one: self._closeness(one, key)
        )

    def ahead(self, node: int, key: int, down: Set[int] = frozenset()) -> list[int]:
        """The nodes known to `node` that are further on the way to `key`, the furthest first.

        They share a longer prefix with the key, or one as long and are closer. None, if the root is among the leaves:
        no other node is on the way then. A route over any of them ends at the root.
        """
        if self._among(self._leaves(node, down), key):
            return []
        rank = self._rank(node, key)
        known = [other for other in self.neighbours(node, down) if self._rank(other, key) < rank]
        return sorted(known, key=lambda other: self._rank(other, key))

    def neighbours(self, node: int, down: Set[int] = frozenset()) -> list[int]:
        """The nodes that `node` knows: its leaves, and the entries of its routing table."""
        known = dict.fromkeys(self._leaves(node, down))
        own, digit_bits = self._name[node], self._digit_bits
        for digits in range(1, NAME_BITS // digit_bits + 1):
            prefix = own >> (NAME_BITS - digits * digit_bits)
            first = prefix >> digit_bits << digit_bits
            for other in range(first, first + (1 << digit_bits)):
                entry = self._entry(node, other, digits) if other != prefix else None
                if entry is not None and entry not in down:
                    known[entry] = None
            if self._count(prefix, digits) == 1:
                break
        return list(known)

    def route(self, sender: int, to: int) -> tuple[int, ...]:
        """The nodes that a packet visits on its way from `sender` to `to`: without the first, with the last."""
        here, hops = sender, []
        while (hop := self.next_hop(here, self._name[to])) is not None:
            hops.append(hop)
            here = hop
        return tuple(hops)

    # -- what a node knows ------------------------------------------------------------------------------------------

    def _leaves(self, node: int, down: Set[int]) -> list[int]:
        found: list[int] = []
        for step in (1, -1):
            place, side = self._place[node], 0
            for _ in range(self.nodes - 1):
                place += step
                other = self._around[place % self.nodes]
                if other == node or side == self._side:
                    break
                if other not in down:
                    found.append(other)
                    side += 1
        return found

    def _among(self, leaves: list[int], key: int) -> bool:
        """Does `key` lie between the outermost leaves?"""
        if len(set(leaves)) < 2 * self._side:
            return True  # the leaves are all the nodes there are
        low, high = self._name[leaves[-1]], self._name[leaves[self._side - 1]]
        return (key - low) % _CIRCLE <= (high - low) % _CIRCLE

    def _entry_of(self, node: int, prefix: int, digits: int) -> int | None:
        """The node that `node`'s routing table names for the prefix with so many digits; None if no name has it."""
        begin, count = self._begin(prefix, digits), self._count(prefix, digits)
        if not count:
            return None
        return self._around[begin + name_of(f"{node} {digits} {prefix}") % count]

    def _begin(self, prefix: int, digits: int) -> int:
        """Where the names that have the prefix begin on the circle, or would."""
        return bisect_left(self._names, prefix << (NAME_BITS - digits * self._digit_bits))

    def _count(self, prefix: int, digits: int) -> int:
        return self._begin(prefix + 1, digits) - self._begin(prefix, digits)

    def _shared(self, node: int, key: int) -> int:
        """The number of leading digits in which the node's name and the key agree."""
        return (NAME_BITS - (self._name[node] ^ key).bit_length()) // self._digit_bits

    def _rank(self, node: int, key: int) -> tuple[int, int, int]:
        """Lower is further on the way to `key`."""
        return -self._shared(node, key), *self._closeness(node, key)

    def _closeness(self, node: int, key: int) -> tuple[int, int]:
        return distance(self._name[node], key), self._name[node]
