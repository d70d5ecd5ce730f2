"""The acyclic base graph of a broker overlay: who is connected to whom, and the one path between two (LoCaMu III-A).

A base graph is connected and has no cycle, so it is a tree: between two nodes there is exactly one path, and the
failure of an inner node cuts it. What lies around that (extra edges, windows, who takes over) is `overlay.extended`.

`BaseGraph(nodes, edges)` refuses what is not such a graph and names an edge or a node that is wrong. Shapes to choose
from are in `overlay.graph_shapes`. Distances and paths climb towards node 0: they cost as much as the path is long, and
nothing is stored for pairs.
"""

from collections.abc import Collection, Iterable
from typing import TypeAlias

from antecede.core.errors import UsageError
from antecede.core.limits import CUBE_DIMENSION_MAX

Edge: TypeAlias = tuple[int, int]


class BaseGraph:
    """A tree over the nodes 0 … `nodes` − 1, without a root that would matter to anybody."""

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
        for node in reached:  # grows while we walk it
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
        """Those one edge away."""
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
        """The edges of the longest path: what is farthest from what is farthest from anywhere."""
        end = max(range(self.nodes), key=self._depth.__getitem__)
        return max(self.distances(end, self.nodes).values())

    def path(self, a: int, b: int) -> tuple[int, ...]:
        """From `a` to `b`, both included."""
        up, depth = self._up, self._depth
        front, back = [a], [b]
        while front[-1] != back[-1]:
            if depth[front[-1]] >= depth[back[-1]]:
                front.append(up[front[-1]])
            else:
                back.append(up[back[-1]])
        return (*front, *reversed(back[:-1]))

    def distance(self, a: int, b: int) -> int:
        return len(self.path(a, b)) - 1

    def next_hop(self, a: int, b: int) -> int:
        """The neighbour of `a` on the path to `b`."""
        return self.path(a, b)[1]

    def distances(self, node: int, radius: int) -> dict[int, int]:
        """V(G, radius, node): everybody within `radius` edges, nearest first, `node` itself at 0."""
        found = {node: 0}
        for at in (edge := [node]):  # grows while we walk it
            if found[at] == radius:
                break
            for near in self._around[at]:
                if near not in found:
                    found[near] = found[at] + 1
                    edge.append(near)
        return found

    def directions(self, members: Collection[int]) -> list[frozenset[int]]:
        """By node: its neighbours behind whom there are members, and the node itself if it is one."""
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
    """`edges`, none of which closes a cycle, joins a node to itself or leads to nobody."""
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
    """The path from `a` to `b` over `edges`, which have one."""
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
