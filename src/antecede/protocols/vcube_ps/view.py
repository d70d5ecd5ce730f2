"""The members of a topic, as one node knows them, and the nodes to which this node forwards the topic's messages.

Membership is one register for each node. It counts how often that node joined and left the topic: odd means member.
Only its owner raises a register; other nodes keep the highest value they heard. So views merge by maximum. A node that
is forgotten leaves by a new epoch of its number, above all that it may have said itself. *Printed*
(line 6): SUBSCRIBE resets the view → the joiner relays with a partial view, and stable subscribers lose messages → *our
rule*: a view is never reset.

Trees need no list of members. In the tree of any root, a node that received a message from a node of its cluster h + 1
serves its own clusters 1 … h: it forwards the message to the first member of each (thesis 5.5.1, CHILDREN). So a view
keeps ready only the first member of each of the node's own clusters, `near[h]`. A change of membership touches one
cluster. Members are the bits of one integer: a thousand views of a thousand members are small.
"""

from typing import Final

from antecede.overlay.members import nearest, nodes_of

#: A register is `epoch << 32 | count`. So what is known of a number's former owner gives way to its new one's.
_COUNT_BITS: Final = 32


def first_register(epoch: int) -> int:
    """The register of a node that has not joined in this epoch of its number."""
    return epoch << _COUNT_BITS


def register_epoch(register: int) -> int:
    """The epoch of the number's owner."""
    return register >> _COUNT_BITS


def _mixed(node: int, register: int) -> int:
    """A number below 2^63 that looks random; 0 for a register that has not moved (splitmix64)."""
    if not register:
        return 0
    x = (node << 40 ^ register) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    x = (x ^ x >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return (x ^ x >> 31) >> 1


class View:
    """What `node` knows of the membership of one topic."""

    __slots__ = ("_first", "_founders", "_heights", "_node", "_registers", "absent", "digest", "members", "near")

    def __init__(self, node: int, dimension: int, founders: int = 0, absent: int = 0) -> None:
        """`founders` are members from the beginning, as bits; their registers stand at 1. `absent`: see `hide`."""
        self._node = node
        self._founders = founders
        self._registers: dict[int, int] = {}
        #: Nodes left out of trees, as bits.
        self.absent = absent
        #: The nodes that take the topic, as bits.
        self.members = founders
        #: The registers that moved, folded into one number: nodes that know the same have the same.
        self.digest = 0
        # By cluster, from 1: its first member that is not absent, −1 where there is none.
        self._first = [-1] * dimension
        #: By h: the nodes to which this node forwards a message when it serves its clusters 1 … h.
        self.near: list[tuple[int, ...]] = [()] * (dimension + 1)
        # By root: how many of its clusters this node serves in that root's tree. Worked out when asked for.
        self._heights: dict[int, int] = {}
        self._refresh(range(1, dimension + 1))

    def __contains__(self, node: int) -> bool:
        return bool(self.members >> node & 1)

    @property
    def present(self) -> int:
        """Members that are not absent, as bits."""
        return self.members & ~self.absent

    def register(self, node: int) -> int:
        """How often `node` has come or gone, as far as is known here."""
        register = self._registers.get(node)
        return self._founders >> node & 1 if register is None else register

    def moved(self) -> tuple[tuple[int, int], ...]:
        """Every register that is not where it was in the beginning."""
        return tuple(self._registers.items())

    def took(self) -> set[int]:
        """The nodes that take the topic, or took it once, but for those that were forgotten."""
        known = {*self._registers, *nodes_of(self._founders)}
        return {node for node in known if self.register(node) & (1 << _COUNT_BITS) - 1}

    def passes(self, root: int, child: int) -> bool:
        """Would this node pass a message of `root` on to `child`, if all knew what is known here?"""
        height = self._heights.get(root)
        if height is None:
            height = self._heights[root] = self._height(root)
        return child in self.near[height]

    def learn(self, node: int, register: int) -> bool:
        """`node` is said to have come or gone so often. True when that is news."""
        if register <= self.register(node):
            return False
        self.digest ^= _mixed(node, self._registers.get(node, 0)) ^ _mixed(node, register)
        self._registers[node] = register
        member = bool(register & 1)
        if member != bool(self.members >> node & 1):
            self.members ^= 1 << node
            self._changed(node)
        return True

    def hide(self, node: int) -> None:
        """Leave `node` out of trees, whether it is a member or not: it is suspected to be down."""
        if not self.absent >> node & 1:
            self.absent |= 1 << node
            self._changed(node)

    def show(self, node: int) -> None:
        if self.absent >> node & 1:
            self.absent ^= 1 << node
            self._changed(node)

    def _height(self, root: int) -> int:
        """How many of its clusters this node serves in the tree of `root`: go down from the root until it is reached.

        0 also where the way down does not come by here.
        """
        here = self._node
        if root == here:
            return len(self._first)
        present, on_the_way = self.present, root
        while True:
            width = (on_the_way ^ here).bit_length() - 1
            on_the_way = nearest(present, on_the_way ^ (1 << width), width)
            if on_the_way in (here, -1):
                return min(width, len(self._first)) if on_the_way == here else 0

    def _changed(self, node: int) -> None:
        self._heights.clear()
        if node != self._node:
            cluster = (node ^ self._node).bit_length()
            if cluster <= len(self._first):
                self._refresh(range(cluster, cluster + 1))

    def _refresh(self, clusters: range) -> None:
        """Look for the first member of these clusters again."""
        first, near, present = self._first, self.near, self.members & ~self.absent
        for cluster in clusters:
            first[cluster - 1] = nearest(present, self._node ^ (1 << (cluster - 1)), cluster - 1)
        for height in range(clusters.start, len(near)):
            child = first[height - 1]
            near[height] = near[height - 1] if child < 0 else (*near[height - 1], child)
