"""One tree for each topic, as the systems build it that VCube-PS is compared with (thesis 5.3 and 5.6.7).

`SubscriberTree` is VCube's tree over all nodes from the topic's root. A topic uses the branches that lead to its
members; nodes on the way that are not members are relays (Figure 5.2). `BrokerTree` is such a tree over the first
nodes, the brokers; every other node is attached to a broker, evenly.

A tree knows only nodes and edges. The protocol knows the members, and so which branches are used.
"""

from functools import cache
from typing import Protocol

from antecede.core.errors import UsageError
from antecede.overlay.vcube import VCube


class SharedTree(Protocol):
    """A tree with one root. Two calls with the same arguments give the same answer."""

    root: int

    def path(self, node: int) -> tuple[int, ...]:
        """The path from the root to `node`, both included."""
        ...

    def children(self, node: int) -> tuple[int, ...]:
        """The nodes to which `node` may forward, in the order in which it does."""
        ...

    def informed(self, node: int) -> tuple[int, ...]:
        """The children that are told of every member that joins or leaves."""
        ...

    def is_informed(self, node: int) -> bool:
        """Is `node` told of every member that joins or leaves? Otherwise it hears of itself only."""
        ...


class SubscriberTree:
    """VCube's tree from `root`. Every node learns of every member."""

    def __init__(self, cube: VCube, root: int) -> None:
        if not cube.takes_part(root):
            raise UsageError("root", root, "there is no such node", f"choose 0 … {cube.nodes - 1}")
        self.root = root
        self._cube = cube
        self.path = cache(self._path)
        self.children = cache(self._children)

    def informed(self, node: int) -> tuple[int, ...]:
        return self.children(node)

    def is_informed(self, node: int) -> bool:
        return True

    def _path(self, node: int) -> tuple[int, ...]:
        steps = [node]
        while (parent := self._cube.parent(steps[-1], self.root)) is not None:
            steps.append(parent)
        return tuple(reversed(steps))

    def _children(self, node: int) -> tuple[int, ...]:
        return self._cube.children(node, self.root)


class BrokerTree:
    """Brokers 0 … `brokers` − 1 form the tree; any other node n is attached to broker n mod `brokers`."""

    def __init__(self, nodes: int, brokers: int, root: int) -> None:
        if not 1 <= brokers <= nodes:
            raise UsageError("brokers", brokers, f"there are {nodes} nodes", f"choose 1 … {nodes}")
        self.root = root
        self._nodes = nodes
        self._brokers = brokers
        self._tree = SubscriberTree(VCube(brokers), root)
        self.path = cache(self._path)
        self.children = cache(self._children)

    def informed(self, node: int) -> tuple[int, ...]:
        return self._tree.children(node) if node < self._brokers else ()

    def is_informed(self, node: int) -> bool:
        return node < self._brokers

    def _path(self, node: int) -> tuple[int, ...]:
        if node < self._brokers:
            return self._tree.path(node)
        return (*self._tree.path(node % self._brokers), node)

    def _children(self, node: int) -> tuple[int, ...]:
        if node >= self._brokers:
            return ()
        return (*self._tree.children(node), *range(node + self._brokers, self._nodes, self._brokers))
