"""The acyclic base graph of a broker overlay, and the one path between two of its nodes (LoCaMu III-A).

A base graph is connected and has no cycle, so it is a tree: between two nodes there is exactly one path, and the
failure of an inner node cuts it. `overlay.extended` adds the edges that bridge failed nodes.

`BaseGraph(nodes, edges)` refuses edges that do not form such a graph, and names the wrong edge or node. Shapes to
choose from are in `overlay.graph_shapes`. Distances and paths climb towards node 0 at a cost proportional to the path's
length; nothing is stored for pairs.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from antecede.core.errors import UsageError
from antecede.core.limits import CUBE_DIMENSION_MAX

Edge: TypeAlias = tuple[int, int]


def climb(
    a: int, b: int, up: Mapping[int, int] | Sequence[int], depth: Mapping[int, int] | Sequence[int]
) -> tuple[int, ...]:
    """The path from `a` to `b`, both included, in a tree given by each node's parent and depth."""
    front, back = [a], [b]
    while front[-1] != back[-1]:
        if depth[front[-1]] >= depth[back[-1]]:
            front.append(up[front[-1]])
        else:
            back.append(up[back[-1]])
    return (*front, *reversed(back[:-1]))


class BaseGraph:
    """A tree over the nodes 0 … `nodes` − 1. No caller sees that node 0 is its root."""

    def __init__(self, nodes: int, edges: Iterable[Edge]) -> None:
        if not 1 <= nodes <= 1 << CUBE_DIMENSION_MAX:
            raise UsageError("nodes", nodes, "is out of range", f"choose 1 … {1 << CUBE_DIMENSION_MAX}")
        self.nodes = nodes
        around: list[list[int]] = [[] for _ in range(nodes)]
        for a, b in _checked(nodes, edges):
            around[a].append(b)
            around[b].append(a)
        self._around = tuple(tuple(sorted(near)) for near in around)
        self._up = [-1] * nodes
        self._depth = [-1] * nodes
        self._depth[0] = 0
        reached = [0]
        for node in reached:  # grows during the loop
            for near in self._around[node]:
                if self._depth[near] < 0:
                    self._up[near], self._depth[near] = node, self._depth[node] + 1
                    reached.append(near)
        self._order = reached
        if len(reached) < nodes:
            lost = self._depth.index(-1)
            raise UsageError(
                "edges",
                f"{sum(map(len, around)) // 2} for {nodes} nodes",
                f"node {lost} is not connected with node 0",
                "add an edge between the parts",
            )

    def neighbours(self, node: int) -> tuple[int, ...]:
        """The nodes one edge away."""
        return self._around[node]

    @property
    def edges(self) -> tuple[Edge, ...]:
        return tuple((a, b) for a, near in enumerate(self._around) for b in near if a < b)

    @property
    def degree(self) -> int:
        """The most neighbours a node has."""
        return max(map(len, self._around))

    @property
    def diameter(self) -> int:
        """The number of edges of the longest path: from the node farthest from node 0 to the node farthest from it."""
        end = max(range(self.nodes), key=self._depth.__getitem__)
        return max(self.distances(end, self.nodes).values())

    def path(self, a: int, b: int) -> tuple[int, ...]:
        """The path from `a` to `b`, both included."""
        return climb(a, b, self._up, self._depth)

    def distance(self, a: int, b: int) -> int:
        return len(self.path(a, b)) - 1

    def next_hop(self, a: int, b: int) -> int:
        """The neighbour of `a` on the path to `b`."""
        return self.path(a, b)[1]

    def distances(self, node: int, radius: int) -> dict[int, int]:
        """V(G, radius, node): the nodes within `radius` edges and their distance, nearest first, `node` itself at 0."""
        found = {node: 0}
        for at in (edge := [node]):  # grows during the loop
            if found[at] == radius:
                break
            for near in self._around[at]:
                if near not in found:
                    found[near] = found[at] + 1
                    edge.append(near)
        return found

    def directions(self, members: Collection[int]) -> list[frozenset[int]]:
        """By node: the neighbours that lead to members, and the node itself if it is a member."""
        count = [0] * self.nodes
        for node in members:
            count[node] = 1
        for node in reversed(self._order):
            if node:
                count[self._up[node]] += count[node]
        found: list[frozenset[int]] = []
        chosen = frozenset(members)
        for node, near in enumerate(self._around):
            up = self._up[node]
            there = {n for n in near if (count[0] > count[node] if n == up else count[n])}
            found.append(frozenset(there | {node}) if node in chosen else frozenset(there))
        return found


def _checked(nodes: int, edges: Iterable[Edge]) -> list[Edge]:
    """`edges`, checked: none closes a cycle, joins a node to itself or names a node that does not exist."""
    leader = list(range(nodes))

    def find(node: int) -> int:
        while leader[node] != node:
            leader[node] = node = leader[leader[node]]
        return node

    good: list[Edge] = []
    for a, b in edges:
        for node in (a, b):
            if not 0 <= node < nodes:
                raise UsageError("edge", f"{a}-{b}", f"there is no node {node}", f"name nodes 0 … {nodes - 1}")
        if a == b:
            raise UsageError("edge", f"{a}-{b}", "joins a node to itself", "leave it out")
        if find(a) == find(b):
            cycle = "-".join(map(str, (*_way(good, a, b), a)))
            raise UsageError("edge", f"{a}-{b}", f"closes the cycle {cycle}", "leave out one edge of it")
        leader[find(a)] = find(b)
        good.append((a, b))
    return good


def _way(edges: Iterable[Edge], a: int, b: int) -> tuple[int, ...]:
    """The path from `a` to `b` over `edges`, which connect them."""
    around: dict[int, list[int]] = {}
    for one, other in edges:
        around.setdefault(one, []).append(other)
        around.setdefault(other, []).append(one)
    before = {a: a}
    for at in (reached := [a]):
        for near in around.get(at, ()):
            if near not in before:
                before[near] = at
                reached.append(near)
    back = [b]
    while back[-1] != a:
        back.append(before[back[-1]])
    return tuple(reversed(back))
