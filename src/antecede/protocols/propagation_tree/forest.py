"""Computes the propagation trees: every group has a primary destination, and its other members are below that node.

The node in the most groups becomes a root, and the primary destination of all its groups. The other nodes fall into
parts: two nodes are in one part if they share a group that has no primary destination yet, directly or through others.
Each part becomes a subtree below the root, made in the same way. Groups that do not overlap so get trees of their own.

Two groups with a common member have primary destinations of which one is above the other or both are the same: both
are above that member. So the lower one receives the messages of both groups that go to common members, and orders them.
"""

from antecede.protocols.options import Founders


class PropagationForest:
    """The trees of all groups."""

    def __init__(self, groups: Founders) -> None:
        self.groups = {topic: frozenset(members) for topic, members in groups.items()}
        #: By group: the node to which publishers send.
        self.primary: dict[str, int] = {}
        #: By node that is not a root: the node above it.
        self.above: dict[int, int] = {}
        self._grow()
        self._below = {topic: self._ways(topic) for topic in self.primary}

    def below(self, topic: str, node: int) -> tuple[int, ...]:
        """The nodes right below `node` that lead to members of the group."""
        return self._below[topic].get(node, ())

    def _grow(self) -> None:
        everyone = {node for members in self.groups.values() for node in members}
        todo: list[tuple[set[int], int | None]] = [(part, None) for part in _parts(everyone, [*self.groups.values()])]
        for part, above in todo:  # grows during the loop
            open_groups = {
                topic: members
                for topic, members in self.groups.items()
                if topic not in self.primary and members and members <= part
            }
            root = min(part, key=lambda node: (-sum([node in members for members in open_groups.values()]), node))
            if above is not None:
                self.above[root] = above
            for topic, members in open_groups.items():
                if root in members:
                    self.primary[topic] = root
            left = [members for topic, members in open_groups.items() if topic not in self.primary]
            todo += [(smaller, root) for smaller in _parts(part - {root}, left)]

    def _ways(self, topic: str) -> dict[int, tuple[int, ...]]:
        """By node on a path from the primary destination to members: the nodes right below it on such paths."""
        ways: dict[int, set[int]] = {}
        primary = self.primary[topic]
        for member in self.groups[topic]:
            at = member
            while at != primary:
                above = self.above[at]
                if at in ways.setdefault(above, set()):
                    break
                ways[above].add(at)
                at = above
        return {node: tuple(sorted(below)) for node, below in ways.items()}


def _parts(nodes: set[int], groups: list[frozenset[int]]) -> list[set[int]]:
    """The nodes in parts that no group crosses, the part with the lowest node first."""
    leader = {node: node for node in nodes}

    def find(node: int) -> int:
        while leader[node] != node:
            leader[node] = node = leader[leader[node]]
        return node

    for members in groups:
        first = min(members, default=0)
        for other in sorted(members - {first}):
            a, b = sorted((find(first), find(other)))
            leader[b] = a
    parts: dict[int, set[int]] = {}
    for node in sorted(nodes):
        parts.setdefault(find(node), set()).add(node)
    return list(parts.values())
