"""Keeps which message came before which, as a graph with few edges and all the paths of the definition.

The definition is in `audit.reference.happened_before`: m came before m′ if the publisher of m′ had published or
delivered m by then, or if the publish row of m′ names it; and transitively. Taken literally, that is an edge for every
delivery. This graph begins with two sorts of edges: recorded dependencies, and each publisher's previous publication.
`nodes.uncovered` finds the deliveries at publishers that these edges do not imply, and only those become edges too. If
a protocol records its barriers there are none, and the graph has a handful of edges per message.

Edges lead from earlier to later publications unless the trace is broken: a message was delivered, or depended upon,
before it was published. Then there may be cycles. All messages of a cycle came before each other, so a cycle is drawn
as one point (`point`), and the rest of this file need not know.
"""

from typing import Final

import numpy as np

from antecede.audit.vectorised.columns import Bools, Ints
from antecede.audit.vectorised.ledger import Ledger
from antecede.audit.vectorised.scc import points_of
from antecede.audit.vectorised.thin import thin

#: With more edges per message it pays to leave out those that others imply.
_EDGES_A_MESSAGE: Final = 16


class Graph:
    """Edges between messages. `src` came immediately before `dst`."""

    def __init__(self, count: int, src: Ints, dst: Ints, *, forward: bool) -> None:
        self.count = count
        #: By message: its point; None if every message is its own.
        self.point: Ints | None = None
        points = count
        if not forward:
            self.point = points_of(count, src, dst)
            points = int(self.point.max()) + 1 if count else 0
            src, dst = self.point[src], self.point[dst]
            src, dst = src[src != dst], dst[src != dst]
        order = np.lexsort((src, dst))
        self.src, self.dst = src[order], dst[order]
        has_past, has_future = np.zeros(points, bool), np.zeros(points, bool)
        has_past[self.dst] = True
        has_future[self.src] = True
        #: By point: whether paths lead through it. If a node never takes it, what lies behind it must be checked.
        self.is_inner: Bools = has_past & has_future
        self._points = points
        self._levels: list[tuple[Ints, Ints, Ints]] | None = None
        self._out: tuple[Ints, Ints] | None = None

    def latest_of_the_past(self, taken: Ints) -> Ints:
        """By message and node: the highest row at which the node took it or anything that came before it.

        `taken[message, node]`: the row of the take, or −1.
        """
        if self.point is None:
            latest = taken.copy()
        else:
            latest = np.full((self._points, taken.shape[1]), -1, taken.dtype)
            np.maximum.at(latest, self.point, taken)
        for src, starts, dst in self._by_level():
            latest[dst] = np.maximum(latest[dst], np.maximum.reduceat(latest[src], starts, axis=0))
        return latest if self.point is None else latest[self.point]

    def follow(self, rows: Ints, bad: Ints, steps_max: int) -> list[int] | None:
        """The messages that a node took too early, found from its bad edges; None if that takes more than `steps_max`.

        `rows`: by message, the row at which the node took it, or −1. `bad`: the indices of edges from a message it took
        to one it took earlier or never. A late row is carried along paths as long as the messages there were taken
        before it, or never. A message taken after it has the later row, which is carried on from there.
        """
        begin, after = self._outward()
        carried: dict[int, int] = {}
        todo = [(int(self.dst[edge]), int(rows[self.src[edge]])) for edge in bad.tolist()]
        while todo:
            here, row = todo.pop()
            if carried.get(here, -1) >= row:
                continue
            steps_max -= 1
            if steps_max < 0:
                return None
            carried[here] = row
            todo += [(there, row) for there in after[begin[here] : begin[here + 1]].tolist() if rows[there] < row]
        return [message for message in carried if rows[message] >= 0]

    def _outward(self) -> tuple[Ints, Ints]:
        """The edges by their first end: `after[begin[m] : begin[m + 1]]` come after m."""
        if self._out is None:
            order = np.argsort(self.src, kind="stable")
            self._out = np.searchsorted(self.src[order], np.arange(self._points + 1)), self.dst[order]
        return self._out

    def has_paths(self, src: Ints, dst: Ints, steps_max: int) -> bool:
        """Whether a path leads from each `src[i]` to `dst[i]`; False also if finding out takes more than `steps_max`.

        The graph must be without cycles and its messages numbered as they were published. Then only messages between
        the two ends can be on a path, and the search goes no further back.
        """
        assert self.point is None
        into = _starts(self.dst, self._points)
        for first, last in zip(src.tolist(), dst.tolist(), strict=True):
            seen = {last}
            todo = [last]
            while first not in seen:
                if not todo or steps_max <= 0:
                    return False
                steps_max -= 1
                here = todo.pop()
                new = {before for before in self.src[into[here] : into[here + 1]].tolist() if before >= first} - seen
                seen |= new
                todo += new
        return True

    def past(self, message: int) -> Ints:
        """Every message that came before `message`; itself too, if it is in a cycle."""
        point = np.arange(self.count) if self.point is None else self.point
        into = _starts(self.dst, self._points)
        seen = np.zeros(self._points, bool)
        todo = [int(point[message])]
        while todo:
            here = todo.pop()
            before = self.src[into[here] : into[here + 1]]
            new = before[~seen[before]]
            seen[new] = True
            todo += new.tolist()
        same = point == point[message]
        if same.sum() > 1:
            seen[point[message]] = True
        return np.flatnonzero(seen[point])

    def _by_level(self) -> list[tuple[Ints, Ints, Ints]]:
        """Edges in batches that can be followed at once: all edges into a point are in one batch, after its past."""
        if self._levels is None:
            level = [0] * self._points
            for src, dst in zip(self.src.tolist(), self.dst.tolist(), strict=True):
                if level[src] >= level[dst]:
                    level[dst] = level[src] + 1
            of_edge = np.array(level, np.int64)[self.dst]
            order = np.argsort(of_edge, kind="stable")  # and by dst within a level
            src, dst = self.src[order], self.dst[order]
            starts = np.flatnonzero(np.diff(dst, prepend=-1))
            bounds = np.flatnonzero(np.diff(of_edge[order], prepend=-1, append=-1))
            ends = np.searchsorted(starts, bounds)
            self._levels = [
                (src[begin:end], starts[low:high] - begin, dst[starts[low:high]])
                for begin, end, low, high in zip(bounds[:-1], bounds[1:], ends[:-1], ends[1:], strict=True)
            ]
        return self._levels


def recorded_edges(ledger: Ledger, *, across_topics: bool) -> tuple[Ints, Ints]:
    """Recorded dependencies, and each publisher's previous publication (on the same topic without `across_topics`)."""
    src, dst = ledger.dependency, ledger.dependent
    topic = ledger.messages.topic
    if not across_topics:
        related = topic[src] == topic[dst]
        src, dst = src[related], dst[related]
    first = ledger.first
    scope = np.zeros(ledger.published, np.int64) if across_topics else topic[: ledger.published]
    order = np.lexsort((first.message, scope, first.node))
    follows = (first.node[order][1:] == first.node[order][:-1]) & (scope[order][1:] == scope[order][:-1])
    return (
        np.concatenate([src, order[:-1][follows]]).astype(np.int64),
        np.concatenate([dst, order[1:][follows]]).astype(np.int64),
    )


def make_graph(ledger: Ledger, src: Ints, dst: Ints, *, across_topics: bool) -> Graph:
    """The graph with these edges over the messages of `ledger`."""
    at = ledger.published_at
    # A message that was never published came after nothing.
    forward = bool(((at[src] < at[dst]) & (src != dst)).all())
    if forward and len(src) > _EDGES_A_MESSAGE * max(1, len(at)):
        scope = np.zeros(len(at), np.int64) if across_topics else ledger.messages.topic
        src, dst = thin(ledger, src, dst, scope)
    return Graph(len(at), src, dst, forward=forward)


def forward_edges(ledger: Ledger, src: Ints, dst: Ints) -> tuple[Ints, Ints]:
    """The edges that lead to a later publication: all of them, unless the trace is broken."""
    later = ledger.published_at[src] < ledger.published_at[dst]
    return (src, dst) if later.all() else (src[later], dst[later])


def _starts(sorted_values: Ints, count: int) -> Ints:
    return np.searchsorted(sorted_values, np.arange(count + 1))
