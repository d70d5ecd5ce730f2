"""VCube: a virtual hypercube whose every node is the root of its own spanning tree (thesis 2.4, Duarte et al. 2014).

Node i sorts the others into d = log₂N clusters: cluster s holds the 2^(s−1) nodes whose number differs from i in
bit s−1 and agrees above it, listed in the order

    c(i, s) = i ⊕ 2^(s−1),  then c(i ⊕ 2^(s−1), 1), …, c(i ⊕ 2^(s−1), s−1).

Unrolled, that recursion is plain counting: the k-th node of c(i, s) is (i ⊕ 2^(s−1)) ⊕ k. So "the first node of a
cluster that takes part" is the participant with the least x ⊕ (i ⊕ 2^(s−1)), which a walk over a binary trie of the
participants finds in O(s) steps. No list of a cluster is ever built to answer a question about a tree.

A node's children in the tree of root r are the first participants of its clusters 1…h, where h is one less than the
cluster in which its parent found it. With everybody present that has a closed form: i is the parent of
i ⊕ 2^c in the tree of r exactly when r ≡ i (mod 2^(c+1)).
"""

from collections.abc import Collection, Iterator

from antecede.core.errors import UsageError
from antecede.core.limits import CUBE_DIMENSION_MAX


class VCube:
    """The trees over `nodes` numbers, of which those in `absent` (faulty, unsubscribed, never there) take no part.

    Every question is about numbers 0 … nodes − 1; who hears of a node from outside checks that first. A root may
    be absent itself: one who publishes to a group it is not in. It sends to its children and gets nothing.
    """

    def __init__(self, nodes: int, absent: Collection[int] = ()) -> None:
        if not 1 <= nodes <= 1 << CUBE_DIMENSION_MAX:
            raise UsageError(
                "nodes", nodes, "a cube has between 1 and 2^16 nodes", f"choose 1 … {1 << CUBE_DIMENSION_MAX}"
            )
        for node in absent:
            if not 0 <= node < nodes:
                raise UsageError("absent", node, "there is no such node", f"name nodes 0 … {nodes - 1}")
        self.nodes = nodes
        #: d = ⌈log₂ nodes⌉; numbers from `nodes` up to 2^d are absent.
        self.dimension = (nodes - 1).bit_length()
        self.absent = frozenset(absent)
        self._complete = not self.absent and nodes == 1 << self.dimension
        self._alive = None if self._complete else self._count_participants()
        #: With everybody present: for each node, its children by how many clusters it serves.
        self._near = _Neighbours(self.dimension)

    # -- clusters -----------------------------------------------------------------------------------------------

    @staticmethod
    def cluster(i: int, j: int) -> int:
        """CLUSTER(i, j): the number s of the cluster of i that holds j; 0 when i = j. Symmetric."""
        return (i ^ j).bit_length()

    @staticmethod
    def cluster_members(i: int, s: int) -> Iterator[int]:
        """c(i, s) in order, whoever takes part: what Figure 2.6 tabulates."""
        first = i ^ (1 << (s - 1))
        return (first ^ k for k in range(1 << (s - 1)))

    def first_child(self, i: int, s: int) -> int | None:
        """FIRSTCHILD(i, s): the first participant of c(i, s), None when there is none."""
        first = i ^ (1 << (s - 1))
        if self._alive is None:
            return first
        return self._nearest(first, s - 1)

    # -- trees --------------------------------------------------------------------------------------------------

    def takes_part(self, node: int) -> bool:
        return 0 <= node < self.nodes and node not in self.absent

    def children(self, i: int, root: int) -> tuple[int, ...]:
        """CHILDREN: to whom i passes on what root sent, nearest cluster first; empty where i is not in the tree."""
        if self._alive is None:
            apart = i ^ root  # as many as it has trailing zeros; at the root it has no bit, and −1 finds all
            return self._near[i][(apart & -apart).bit_length() - 1]
        height = self._height(i, root)
        found = (self.first_child(i, s) for s in range(1, height + 1))
        return tuple(child for child in found if child is not None)

    def parent(self, i: int, root: int) -> int | None:
        """Who passes root's messages on to i; None for the root itself and for who is not in its tree."""
        if self._alive is None:
            return None if i == root else i ^ (1 << _trailing_zeros(i ^ root))
        parent, at = None, root
        while at != i:
            child = self._towards(at, i)
            if child is None:
                return None
            parent, at = at, child
        return parent

    def is_parent(self, i: int, k: int, root: int) -> bool:
        """Does i pass root's messages on to k?"""
        if self._alive is None:
            bit = i ^ k
            return bit & (bit - 1) == 0 and bit != 0 and (root ^ i) & ((bit << 1) - 1) == 0
        return i != k and self.parent(k, root) == i

    def tree(self, root: int) -> dict[int, tuple[int, ...]]:
        """The whole tree: every node reached, breadth first, with its children."""
        if not self.takes_part(root):
            raise UsageError("root", root, "does not take part", "choose a participating node as root")
        order = {root: self.children(root, root)}
        level = [root]
        while level:
            level = [child for node in level for child in order[node]]
            for node in level:
                order[node] = self.children(node, root)
        return order

    def depth(self, i: int, root: int) -> int | None:
        """Hops from root to i; None when i is not in the tree."""
        hops, at = 0, root
        while at != i:
            child = self._towards(at, i)
            if child is None:
                return None
            at, hops = child, hops + 1
        return hops

    # -- the trie of participants -------------------------------------------------------------------------------

    def _towards(self, at: int, i: int) -> int | None:
        """The child of `at` whose subtree holds i: the first participant of the cluster of `at` that i is in."""
        return self.first_child(at, self.cluster(at, i)) if self.takes_part(i) else None

    def _height(self, i: int, root: int) -> int:
        """How many clusters i serves in the tree of root: all at the root, then one less than the one it was in."""
        if i == root:
            return self.dimension
        parent = self.parent(i, root)
        return 0 if parent is None else self.cluster(parent, i) - 1

    def _count_participants(self) -> list[int]:
        """A binary trie in an array: entry (1 << level) + prefix counts the participants below that prefix."""
        size = 1 << self.dimension
        counts = [0] * (2 * size)
        for node in range(self.nodes):
            counts[size + node] = 1
        for node in self.absent:
            counts[size + node] = 0
        for index in range(size - 1, 0, -1):
            counts[index] = counts[2 * index] + counts[2 * index + 1]
        return counts

    def _nearest(self, target: int, width: int) -> int | None:
        """The participant least in x ⊕ target among those that agree with it above the lowest `width` bits."""
        counts = self._alive
        assert counts is not None
        index = (1 << (self.dimension - width)) + (target >> width)
        if not counts[index]:
            return None
        for bit in range(width - 1, -1, -1):
            index = 2 * index + (target >> bit & 1)
            if not counts[index]:
                index ^= 1
        return index - (1 << self.dimension)


class _Neighbours(dict[int, tuple[tuple[int, ...], ...]]):
    """node -> its nearest 0, 1, … d neighbours across the dimensions; made when first asked for."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension

    def __missing__(self, node: int) -> tuple[tuple[int, ...], ...]:
        across = tuple(node ^ (1 << c) for c in range(self._dimension))
        self[node] = nearest = tuple(across[:count] for count in range(self._dimension + 1))
        return nearest


def _trailing_zeros(x: int) -> int:
    return (x & -x).bit_length() - 1
