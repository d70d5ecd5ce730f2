"""What a broadcast protocol asks of its trees, and the two shapes the papers compare.

`PerSourceTrees` gives every source its own VCube tree (thesis 2.4.1); `SingleTree` sends everything to one root
first and down that root's tree from there (thesis 4.5.6). A protocol asks where it passes a message of this source on
(`next_hops`), whether an edge carries messages of that source at all (`carries`), and whether it will see its own
messages again (`returns`).
"""

from typing import Protocol

from antecede.overlay.vcube import VCube


class Trees(Protocol):
    """Routes of messages by their source. Two calls with the same arguments give the same answer."""

    def next_hops(self, node: int, source: int, sender: int | None) -> tuple[int, ...]:
        """Whom `node` passes a message of `source` on to; `sender` is None where it was published."""
        ...

    def carries(self, node: int, to: int, source: int) -> bool:
        """Does `node` pass messages of `source` on to `to`?"""
        ...

    def returns(self, node: int) -> bool:
        """Does `node` get its own messages back, to pass them on?"""
        ...


class PerSourceTrees:
    """Each source's messages travel down its own tree."""

    def __init__(self, cube: VCube) -> None:
        self._cube = cube

    def next_hops(self, node: int, source: int, sender: int | None) -> tuple[int, ...]:
        return self._cube.children(node, source)

    def carries(self, node: int, to: int, source: int) -> bool:
        return self._cube.is_parent(node, to, source)

    def returns(self, node: int) -> bool:
        return False


class SingleTree:
    """Every message goes to the root and comes down the root's tree, also past the one who sent it."""

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
