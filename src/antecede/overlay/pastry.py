"""Pastry's ring: routing by prefix to the node whose name is closest to a key (Rowstron & Druschel, Middleware 2001).

Nodes have names drawn from a large circle of numbers, written in digits of base 2^b. A message for a key goes, hop by
hop, to a node whose name shares a longer prefix with the key than this one's, and in the end to the node closest to the
key, its *root*: about log_{2^b} N hops. A node's *leaves* are the nodes next to it on the circle; a key among them goes
straight to the closest.

Here every node knows who there is, as the simulator and the live system's roster give it, so tables need not be
gathered; what a table would hold is computed: for each prefix, one node that has it, not the same for all, so that
load is spread as it is where proximity chooses.
"""

from bisect import bisect_left
from collections.abc import Set
from functools import cache
from hashlib import blake2b
from typing import Final

from antecede.core.errors import UsageError

#: Names and keys are numbers below 2^NAME_BITS. Pastry has 128 bits; 64 do not collide among 2^16 nodes.
NAME_BITS: Final = 64
_CIRCLE: Final = 1 << NAME_BITS


def name_of(text: str) -> int:
    """Where a text stands on the circle."""
    return int.from_bytes(blake2b(text.encode(), digest_size=NAME_BITS // 8).digest(), "big")


def distance(one: int, other: int) -> int:
    """Along the circle, the shorter way."""
    gap = abs(one - other)
    return min(gap, _CIRCLE - gap)


class Pastry:
    """A ring of nodes 0 … `nodes` − 1. Its answers depend on nothing but its arguments."""

    def __init__(self, nodes: int, *, digit_bits: int = 4, leaves: int = 16) -> None:
        """`digit_bits`: Pastry's b. `leaves`: how many neighbours on the circle a node knows, half on each side."""
        if nodes < 1:
            raise UsageError("nodes", nodes, "there is no ring without nodes", "use at least 1")
        if NAME_BITS % digit_bits:
            raise UsageError("digit_bits", digit_bits, f"does not divide {NAME_BITS}", "use 1, 2, 4 or 8")
        self.nodes = nodes
        self._digit_bits = digit_bits
        self._side = max(1, leaves // 2)
        self._name = [name_of(f"node {node}") for node in range(nodes)]
        self._around = sorted(range(nodes), key=self._name.__getitem__)
        self._names = [self._name[node] for node in self._around]
        self._place = {node: place for place, node in enumerate(self._around)}
        self._entry = cache(self._entry_of)

    def root(self, key: int, down: Set[int] = frozenset()) -> int:
        """The node closest to `key`, of those up. The lower name wins where two are."""
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
        """Where `node` sends what is for `key`; None if it is the root itself."""
        leaves = self._leaves(node, down)
        if self._among(leaves, key):
            closest = min((node, *leaves), key=lambda one: self._closeness(one, key))
            return closest if closest != node else None
        shared = self._shared(node, key)
        entry = self._entry(node, key >> (NAME_BITS - (shared + 1) * self._digit_bits), shared + 1)
        if entry is not None and entry not in down:
            return entry
        # Pastry's rare case: nobody is known with a longer prefix. All names between this one and the key have at least
        # the prefix they share, and since the key is beyond the leaves, a leaf is among them.
        return min(
            (leaf for leaf in leaves if self._shared(leaf, key) >= shared), key=lambda one: self._closeness(one, key)
        )

    def route(self, sender: int, to: int) -> tuple[int, ...]:
        """The nodes a packet visits on its way from one node to another: without the first, with the last."""
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
            return True  # they are all there is
        low, high = self._name[leaves[-1]], self._name[leaves[self._side - 1]]
        return (key - low) % _CIRCLE <= (high - low) % _CIRCLE

    def _entry_of(self, node: int, prefix: int, digits: int) -> int | None:
        """One node whose name begins with the `digits` of `prefix`, as this node's table has it."""
        bits = NAME_BITS - digits * self._digit_bits
        begin, end = bisect_left(self._names, prefix << bits), bisect_left(self._names, (prefix + 1) << bits)
        if begin == end:
            return None
        return self._around[begin + name_of(f"{node} {digits} {prefix}") % (end - begin)]

    def _shared(self, node: int, key: int) -> int:
        """Digits from the left in which the node's name and the key agree."""
        return (NAME_BITS - (self._name[node] ^ key).bit_length()) // self._digit_bits

    def _closeness(self, node: int, key: int) -> tuple[int, int]:
        return distance(self._name[node], key), self._name[node]
