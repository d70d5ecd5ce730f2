"""The trees of a broadcast protocol, in the two shapes that the papers compare.

`PerSourceTrees` gives every source its own VCube tree (thesis 2.4.1). `SingleTree` sends every message to one root, and
from there down that root's tree (thesis 4.5.6).
"""

from abc import ABC, abstractmethod

from antecede.core.native import mypyc_attr
from antecede.overlay.vcube import VCube


@mypyc_attr(allow_interpreted_subclasses=True)
class Trees(ABC):
    """Routes of messages by their source. Two calls with the same arguments give the same answer."""

    @abstractmethod
    def next_hops(self, node: int, source: int, sender: int | None) -> tuple[int, ...]:
        """The nodes to which `node` forwards a message of `source`; `sender` is None at its publisher."""

    @abstractmethod
    def carries(self, node: int, to: int, source: int) -> bool:
        """Does `node` forward messages of `source` to `to`?"""

    @abstractmethod
    def returns(self, node: int) -> bool:
        """Does `node` receive its own messages again, to forward them?"""


class PerSourceTrees(Trees):
    """Each source's messages travel down its own tree."""

    def __init__(self, cube: VCube) -> None:
        self._cube = cube

    def next_hops(self, node: int, source: int, sender: int | None) -> tuple[int, ...]:
        return self._cube.children(node, source)

    def carries(self, node: int, to: int, source: int) -> bool:
        return self._cube.is_parent(node, to, source)

    def returns(self, node: int) -> bool:
        return False


class SingleTree(Trees):
    """Every message goes to the root and comes down the root's tree, also to the node that published it."""

    def __init__(self, cube: VCube, root: int) -> None:
        self._cube = cube
        self._root = root

    def next_hops(self, node: int, source: int, sender: int | None) -> tuple[int, ...]:
        if sender is None and node != self._root:
            return (self._root,)
        return self._cube.children(node, self._root)

    def carries(self, node: int, to: int, source: int) -> bool:
        if to == self._root:
            return node == source != to
        return self._cube.is_parent(node, to, self._root)

    def returns(self, node: int) -> bool:
        return node != self._root and self._cube.takes_part(node)
