"""Computes which neighbours of a node lead to members of a group, on an acyclic base graph.

LoCaMu IV-A compares these protocols without faults and with fixed groups. So their routing tables are computed once,
from all members, and shared by all nodes of a run.
"""

from collections.abc import Collection

from antecede.core import UsageError
from antecede.overlay.graph import BaseGraph
from antecede.protocols.options import Founders


class Routes:
    """A base graph and the groups on it."""

    def __init__(self, graph: BaseGraph, groups: Founders) -> None:
        self.graph = graph
        self.groups = {topic: frozenset(members) for topic, members in groups.items()}
        self._masks = {topic: sum([1 << node for node in members]) for topic, members in self.groups.items()}
        self._near = {topic: _branches(graph, members) for topic, members in self.groups.items()}

    def hops(self, topic: str, node: int, came_from: int | None) -> tuple[int, ...]:
        """The nodes to which `node` forwards a message on `topic` that came from `came_from`."""
        near = self._near[topic].get(node, ())
        return near if came_from is None else tuple([hop for hop in near if hop != came_from])

    def mask(self, topic: str) -> int:
        """The members of `topic` as bits."""
        return self._masks[topic]

    def taken(self, node: int) -> frozenset[str]:
        """The topics `node` takes."""
        return frozenset(topic for topic, members in self.groups.items() if node in members)

    def check_member(self, topic: str, node: int) -> None:
        """Refuse a publication by a node that is not a member."""
        if topic not in self.groups:
            raise UsageError("topic", topic, "is not a group of this run", "groups of this protocol do not change")
        if node not in self.groups[topic]:
            raise UsageError("topic", topic, f"node {node} does not take it", "only members publish to a group")


def _branches(graph: BaseGraph, members: Collection[int]) -> dict[int, tuple[int, ...]]:
    """By node on a path between members: its neighbours on such paths. Branches without members are left out."""
    for node in members:
        if not 0 <= node < graph.nodes:
            raise UsageError("members", node, "there is no such node", f"name nodes 0 … {graph.nodes - 1}")
    inside = set(range(graph.nodes))
    near = {node: len(graph.neighbours(node)) for node in inside}
    bare = [node for node in inside if near[node] <= 1 and node not in members]
    for node in bare:  # grows during the loop
        inside.discard(node)
        for other in graph.neighbours(node):
            near[other] -= 1
            if other in inside and near[other] == 1 and other not in members:
                bare.append(other)
    return {node: tuple(other for other in graph.neighbours(node) if other in inside) for node in inside}
