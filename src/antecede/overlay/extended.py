"""The extended graph for f faults, and what one node knows of it (LoCaMu, III-A, C, D and G).

Three radii grow with f, the number of nodes that may be unavailable at once on any base path of 2f + 1 nodes:

    hop     f + 1            the longest edge of the extended graph: over f dead nodes in a row to the one behind them
    number  max(f + 1, 2f)   how far away a node numbers a message. The paper says f + 1, which is too little from
                             f = 2 on: two nodes on different branches may both be skipped by f
    window  2f + 1           the safe neighbourhood: counters are kept that far, and of the 2f + 1 nodes before a
                             receiver f + 1 must have numbered a copy for it to be safe

Two safe copies of a message name f + 1 of the same 2f + 1 nodes each, so they name one node in common, which numbered
the message once: whatever ways the copies took, the receiver sees that they are the same.

`Surroundings` is all a node is told: everybody within window + hop edges, and how they are connected. Its size depends
on f and the degree, never on how many nodes there are.
"""

from collections.abc import Callable, Collection, Iterable
from functools import cache

from antecede.core.errors import UsageError
from antecede.core.limits import LINK_COUNTERS_MAX
from antecede.overlay.graph import BaseGraph


class Extended:
    """A base graph with edges to everybody within `hop`."""

    def __init__(self, base: BaseGraph, f: int, *, number: int | None = None) -> None:
        if f < 0:
            raise UsageError("f", f, "is negative", "choose 0 or more")
        if f and f > base.nodes - 2:
            raise UsageError(
                "f",
                f,
                f"of {base.nodes} nodes fewer than two would be left to speak",
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
        """Links around `node`, counted up to a little above the bound."""
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
        #: How far a copy's way is remembered: a window, seen from anybody I can reach.
        self.trail = graph.window + graph.hop
        #: Everybody known with the distance from here, nearest first.
        self.distance = graph.base.distances(me, self.trail)
        self.neighbours = graph.base.neighbours(me)
        #: Those I have a connection to, nearest first.
        self.linked = tuple(node for node, far in self.distance.items() if 0 < far <= self.hop)
        #: Those for whom I number messages, nearest first.
        self.numbered = tuple(node for node, far in self.distance.items() if 0 < far <= self.number)
        #: The safe neighbourhood, with `me`.
        self.safe = frozenset(node for node, far in self.distance.items() if far <= self.window)
        # Towards me, for everybody known: paths between known nodes climb along it.
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
        """The neighbours of `node`, itself within `number`, that are farther from me than it is."""
        return self._behind[node]

    def first_step(self, to: int) -> int:
        """My neighbour on the path to `to`."""
        return self.path(self.me, to)[1]

    def apart(self, a: int, b: int) -> int:
        """The edges between two nodes I know."""
        return len(self.path(a, b)) - 1

    def _path(self, a: int, b: int) -> tuple[int, ...]:
        """From `a` to `b`, both included; both must be known."""
        far, towards = self.distance, self._towards
        front, back = [a], [b]
        while front[-1] != back[-1]:
            if far[front[-1]] >= far[back[-1]]:
                front.append(towards[front[-1]])
            else:
                back.append(towards[back[-1]])
        return (*front, *reversed(back[:-1]))

    # -- who is sent to -----------------------------------------------------------------------------------------

    def active(self, suspected: Collection[int]) -> tuple[int, ...]:
        """The first on each path to somebody linked who is not suspected: without suspicions, my neighbours."""
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
        """T(m, me): those within `within` that are not where m comes from, and behind whom somebody wants it."""
        return tuple(
            node
            for node in self.numbered
            if self.distance[node] <= within and self.first_step(node) != upstream and wants(node)
        )

    # -- safe paths ---------------------------------------------------------------------------------------------

    def before(self, origin: int, to: int) -> tuple[int, ...]:
        """The base nodes from `origin` up to the one before `to`, at most as many as a trail holds."""
        return self.path(origin, to)[:-1][-self.trail :]

    def is_safe(self, origin: int, whole: bool, to: int, numbered_by: Iterable[int]) -> bool:
        """Will `to` recognise this copy, whatever other safe copy it gets? (Invariant 1.)

        The way came through `origin`, which is the source if `whole`. Where the source is in the window, its own number
        must be there; elsewhere the numbers of f + 1 of the window's nodes.
        """
        if not whole and origin in self.path(self.me, to):
            return False  # `to` lies where the way came from, beyond what is known of it
        way = self.path(origin, to)[:-1]
        have = set(numbered_by)
        if whole and len(way) <= self.window:
            return origin in have
        return len(have.intersection(way[-self.window :])) > self.f
