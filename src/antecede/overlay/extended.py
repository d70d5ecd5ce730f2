"""The extended graph for f faults, and the part of it that one node knows (LoCaMu III-A, C, D and G).

f is the number of nodes that may be unavailable at once on any base path of 2f + 1 nodes. Three radii grow with f:

    hop     f + 1            the longest edge of the extended graph: over f failed nodes in a row to the next one
    number  max(f + 1, 2f)   how far away a node numbers a message for others
    window  2f + 1           the safe neighbourhood: counters are kept that far. A copy is safe if f + 1 of the 2f + 1
                             nodes before its receiver have numbered it

Two safe copies of a message each name f + 1 of the same 2f + 1 nodes, so both name some node in common. That node
numbered the message once, so the receiver recognises the copies as one message, whatever paths they took.

Printed rule (III-D): a node numbers a message for nodes up to f + 1 away → from f = 2 on, two nodes on different
branches may both be skipped by f, and a receiver delivers out of order → a node numbers for nodes up to 2f away.

A node is told only its `Surroundings`: the nodes within window + hop edges, and their edges. Their size depends on f
and the degree, never on the number of nodes.
"""

from collections.abc import Callable, Collection, Iterable
from functools import cache

from antecede.core.errors import UsageError
from antecede.core.limits import LINK_COUNTERS_MAX
from antecede.overlay.graph import BaseGraph, climb


class Extended:
    """A base graph with further edges to every node within `hop`."""

    def __init__(self, base: BaseGraph, f: int, *, number: int | None = None) -> None:
        if f < 0:
            raise UsageError("f", f, "is negative", "choose 0 or more")
        if f and f > base.nodes - 2:
            raise UsageError(
                "f",
                f,
                f"would leave fewer than two of {base.nodes} nodes",
                f"choose 0 … {max(0, base.nodes - 2)}",
            )
        self.base = base
        self.f = f
        self.hop = f + 1
        self.number = max(f + 1, 2 * f) if number is None else number
        self.window = 2 * f + 1
        self.around = cache(self._around)
        busiest = max(range(base.nodes), key=lambda node: len(base.neighbours(node)))
        counters = self._counters_at_least(busiest)
        if counters > LINK_COUNTERS_MAX:
            raise UsageError(
                "f",
                f,
                f"the neighbourhood of node {busiest} has {counters:,} links, each a counter in every message; "
                f"{LINK_COUNTERS_MAX:,} are the most",
                "choose a smaller f or a graph of smaller degree",
            )

    def _around(self, node: int) -> "Surroundings":
        return Surroundings(self, node)

    def _counters_at_least(self, node: int) -> int:
        """The number of links around `node`; counting stops a little above the bound."""
        total = 0
        for other in self.base.distances(node, self.window):
            total += len(self.base.distances(other, self.number)) - 1
            if total > 4 * LINK_COUNTERS_MAX:
                break
        return total


class Surroundings:
    """The part of an extended graph around `me`."""

    def __init__(self, graph: Extended, me: int) -> None:
        self.me = me
        self.f, self.hop, self.number, self.window = graph.f, graph.hop, graph.number, graph.window
        #: How many nodes of a copy's path are kept: a window, seen from any node within a hop.
        self.trail = graph.window + graph.hop
        #: The nodes known and their distance from `me`, nearest first.
        self.distance = graph.base.distances(me, self.trail)
        self.neighbours = graph.base.neighbours(me)
        #: The nodes that `me` has a connection to, nearest first.
        self.linked = tuple(node for node, far in self.distance.items() if 0 < far <= self.hop)
        #: The nodes for which `me` numbers messages, nearest first.
        self.numbered = tuple(node for node, far in self.distance.items() if 0 < far <= self.number)
        #: The safe neighbourhood, with `me`.
        self.safe = frozenset(node for node, far in self.distance.items() if far <= self.window)
        # By known node: its neighbour towards `me`. Paths between known nodes climb along these.
        self._towards = {
            node: next(near for near in graph.base.neighbours(node) if self.distance.get(near, far) < far)
            for node, far in self.distance.items()
            if far
        }
        self._behind = {
            node: tuple(near for near in graph.base.neighbours(node) if near != self._towards.get(node))
            for node, far in self.distance.items()
            if far <= self.number
        }
        self.path = cache(self._path)

    def behind(self, node: int) -> tuple[int, ...]:
        """The neighbours of `node` (itself within `number`) that are farther from `me` than it is."""
        return self._behind[node]

    def first_step(self, to: int) -> int:
        """The neighbour of `me` on the path to `to`."""
        return self.path(self.me, to)[1]

    def apart(self, a: int, b: int) -> int:
        """The number of edges between two known nodes."""
        return len(self.path(a, b)) - 1

    def pairs(self, nodes: Collection[int], within: int) -> int:
        """How many pairs of these known nodes are at most `within` edges apart. Asked once, so it caches no paths."""
        listed = sorted(nodes)
        count = 0
        for place, one in enumerate(listed):
            for other in listed[place + 1 :]:
                count += len(self._path(one, other)) - 1 <= within
        return count

    def _path(self, a: int, b: int) -> tuple[int, ...]:
        """The path from `a` to `b`, both included; both must be known."""
        return climb(a, b, self._towards, self.distance)

    # -- where copies are sent ----------------------------------------------------------------------------------

    def active(self, suspected: Collection[int]) -> tuple[int, ...]:
        """The first unsuspected node on each path to a linked node. Without suspicions these are the neighbours."""
        if not suspected:
            return self.neighbours
        found: dict[int, None] = {}
        for other in self.linked:
            for step in self.path(self.me, other)[1:]:
                if step not in suspected:
                    found[step] = None
                    break
        return tuple(found)

    def targets(self, within: int, upstream: int | None, wants: Callable[[int], bool]) -> tuple[int, ...]:
        """T(m, me): nodes within `within`, away from where m came from, that want m or lead to a node that does."""
        return tuple(
            node
            for node in self.numbered
            if self.distance[node] <= within and self.first_step(node) != upstream and wants(node)
        )

    # -- safe paths ---------------------------------------------------------------------------------------------

    def before(self, origin: int, to: int) -> tuple[int, ...]:
        """The base nodes from `origin` to the one before `to`; only the last of them, as many as a trail holds."""
        return self.path(origin, to)[:-1][-self.trail :]

    def is_safe(self, origin: int, whole: bool, to: int, numbered_by: Iterable[int]) -> bool:
        """Will `to` recognise this copy, whatever other safe copy it receives? (Invariant 1; PATHISSAFE.)

        The copy's path came through `origin`, which is the source if `whole`. If the source is in the window, its own
        number must be in the copy; otherwise the numbers of f + 1 of the window's nodes.
        """
        if not whole and origin in self.path(self.me, to):
            return False  # `to` lies in the direction the copy came from, beyond the part of the path that is known
        path = self.path(origin, to)[:-1]
        have = set(numbered_by)
        if whole and len(path) <= self.window:
            return origin in have
        return len(have.intersection(path[-self.window :])) > self.f
