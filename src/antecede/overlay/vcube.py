"""VCube: a virtual hypercube whose every node is the root of its own spanning tree (thesis 2.4, Duarte et al. 2014).

Node i sorts the others into d = log₂N clusters: cluster s holds the 2^(s−1) nodes whose number differs from i in
bit s−1 and agrees above it, listed in the order

    c(i, s) = i ⊕ 2^(s−1),  then c(i ⊕ 2^(s−1), 1), …, c(i ⊕ 2^(s−1), s−1).

Unrolled, that recursion is plain counting: the k-th node of c(i, s) is (i ⊕ 2^(s−1)) ⊕ k. So the first participant of
a cluster is the one with the least x ⊕ (i ⊕ 2^(s−1)), which `overlay.members.nearest` finds in O(s) steps. No cluster
is ever listed to answer a question about a tree.

A node's children in the tree of root r are the first participants of its clusters 1…h, where h is one less than the
cluster in which its parent found it. When every node takes part there is a closed form: i is the parent of i ⊕ 2^c in
the tree of r exactly when r ≡ i (mod 2^(c+1)).

Printed rule (thesis Algorithm 1, line 3): 1 < s ≤ h → more than half of all receptions never happen → 1 ≤ s ≤ h here.
"""

from collections.abc import Collection, Iterator

from antecede.core.errors import UsageError
from antecede.core.limits import CUBE_DIMENSION_MAX
from antecede.overlay.members import mask_of, nearest


class VCube:
    """The trees over the nodes 0 … `nodes` − 1, of which those in `absent` (faulty or unsubscribed) take no part.

    Callers check node numbers that come from outside. A root may be absent itself: a publisher outside the group sends
    to its children and receives nothing.
    """

    def __init__(self, nodes: int, absent: Collection[int] = ()) -> None:
        if not 1 <= nodes <= 1 << CUBE_DIMENSION_MAX:
            raise UsageError("nodes", nodes, "is out of range for a cube", f"choose 1 … {1 << CUBE_DIMENSION_MAX}")
        for node in absent:
            if not 0 <= node < nodes:
                raise UsageError("absent", node, "there is no such node", f"name nodes 0 … {nodes - 1}")
        self.nodes = nodes
        #: d = ⌈log₂ nodes⌉; numbers from `nodes` up to 2^d are absent.
        self.dimension = (nodes - 1).bit_length()
        self.absent = frozenset(absent)
        # The participants as bits; None when every number up to 2^d takes part, and closed forms hold.
        self._present = None
        if self.absent or nodes != 1 << self.dimension:
            self._present = (1 << nodes) - 1 & ~mask_of(self.absent)
        # When every node takes part: for each node asked for, its children by how many clusters it serves.
        self._near: dict[int, list[tuple[int, ...]]] = {}

    # -- clusters -----------------------------------------------------------------------------------------------

    @staticmethod
    def cluster(i: int, j: int) -> int:
        """CLUSTER(i, j): the number s of the cluster of i that holds j; 0 when i = j. Symmetric."""
        return (i ^ j).bit_length()

    @staticmethod
    def cluster_members(i: int, s: int) -> Iterator[int]:
        """c(i, s) in order, absent nodes included, as Figure 2.6 tabulates it."""
        first = i ^ (1 << (s - 1))
        for k in range(1 << (s - 1)):
            yield first ^ k

    def first_child(self, i: int, s: int) -> int | None:
        """FIRSTCHILD(i, s): the first participant of c(i, s), None when there is none."""
        first = i ^ (1 << (s - 1))
        if self._present is None:
            return first
        found = nearest(self._present, first, s - 1)
        return found if found >= 0 else None

    # -- trees --------------------------------------------------------------------------------------------------

    def takes_part(self, node: int) -> bool:
        return 0 <= node < self.nodes and node not in self.absent

    def children(self, i: int, root: int) -> tuple[int, ...]:
        """CHILDREN: where i forwards root's messages to, nearest cluster first; empty if i is not in the tree."""
        if self._present is None:
            apart = i ^ root  # as many as it has trailing zeros; at the root it has no bit, and −1 finds all
            near = self._near.get(i)
            if near is None:
                across = [i ^ (1 << c) for c in range(self.dimension)]
                near = self._near[i] = [tuple(across[:count]) for count in range(self.dimension + 1)]
            return near[(apart & -apart).bit_length() - 1]
        height = self._height(i, root)
        found = (self.first_child(i, s) for s in range(1, height + 1))
        return tuple(child for child in found if child is not None)

    def parent(self, i: int, root: int) -> int | None:
        """The node that forwards root's messages to i; None for the root itself and for a node not in its tree."""
        if self._present is None:
            return None if i == root else i ^ (1 << _trailing_zeros(i ^ root))
        parent, at = None, root
        while at != i:
            child = self._towards(at, i)
            if child is None:
                return None
            parent, at = at, child
        return parent

    def is_parent(self, i: int, k: int, root: int) -> bool:
        """Does i forward root's messages to k?"""
        if self._present is None:
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

    def _towards(self, at: int, i: int) -> int | None:
        """The child of `at` whose subtree holds i: the first participant of the cluster of `at` that i is in."""
        return self.first_child(at, self.cluster(at, i)) if self.takes_part(i) else None

    def _height(self, i: int, root: int) -> int:
        """How many clusters i serves in the tree of root: all at the root, else one less than the cluster it is in."""
        if i == root:
            return self.dimension
        parent = self.parent(i, root)
        return 0 if parent is None else self.cluster(parent, i) - 1


def _trailing_zeros(x: int) -> int:
    return (x & -x).bit_length() - 1
