"""Judges the causal rule at the nodes of a bucket.

A take of m′ violates the rule if the node took, later, a message that came before m′. Suppose that the node took both
ends of every edge of the graph in order, and took every message that paths lead through. Then all paths are in order,
and one comparison per edge has shown it. That is the usual node. At other nodes the edges that are out of order, and
those to messages the node never took, are followed (`Graph.follow`): a message that was not taken hides what lies
behind it, and after one message out of order there may be more. A node where that leads far (it joined late, or takes
few topics) is put aside, and such nodes are judged many at once: by message, the latest row at which a node took it or
anything before it.

A graph that is completed after all nodes were judged differs in few edges from the one they were judged by. Nodes that
were in order are checked only at the ends of those edges (`Changed`).
"""

from typing import TYPE_CHECKING, Final

import numpy as np

from antecede.audit.report import Example, MessageKey
from antecede.audit.vectorised.columns import Ints
from antecede.audit.vectorised.graph import Graph
from antecede.audit.vectorised.ledger import NEVER, Ledger
from antecede.audit.vectorised.nodes import Cover, Node, uncovered
from antecede.audit.vectorised.tally import Tally

if TYPE_CHECKING:
    from antecede.audit.vectorised.survey import Bucket

#: The number of steps along paths that is cheaper than a pass over the whole graph.
STEPS_MAX: Final = 1000
#: The number of steps spent on finding out that the graph needs no more edges.
PATH_STEPS_MAX: Final = 10_000
#: The size of a batch of nodes judged together, in (message, node) entries of 4 or 8 bytes.
ENTRIES_MAX: Final = 1 << 24


class Changed:
    """The edges of a completed graph that may be violated at a node that was in order by the graph before.

    These are the new edges, and the edges to messages that have become inner ones: for a node that never took such a
    message, what lies behind it must be checked.
    """

    def __init__(self, before: Graph, after: Graph, added: Ints) -> None:
        """`added`: the edges (from, to) by which `after` was completed."""
        inner = after.is_inner.copy()
        inner[: before.count] &= ~before.is_inner
        into = np.flatnonzero(inner[after.dst])
        self.src = np.concatenate([added[0], after.src[into]])
        self.dst = np.concatenate([added[1], after.dst[into]])
        self._is_inner = after.is_inner[self.dst]

    @property
    def messages(self) -> Ints:
        """The messages at the ends of those edges; nothing else has to be known of a node that was in order."""
        return np.unique(np.concatenate([self.src, self.dst]))

    def leaves_in_order(self, rows: Ints) -> bool:
        """Whether a node that was in order, and took messages at these rows, still is in order."""
        late = rows.take(self.dst)
        late = np.where((late == NEVER) & ~self._is_inner, np.iinfo(rows.dtype).max, late)
        return not bool((rows.take(self.src) > late).any())


class CausalJudge:
    """Judges the nodes of one bucket, one after the other."""

    def __init__(
        self,
        ledger: Ledger,
        graph: Graph,
        topic: Ints,
        *,
        across_topics: bool,
        cover: Cover | None,
    ) -> None:
        """`cover`: the edges of the graph, if deliveries at publishers may add edges; None if they have been added.

        `topic`: by message of the bucket.
        """
        self._ledger = ledger
        self._graph = graph
        self._topic = topic
        self._across_topics = across_topics
        self._cover = cover
        self._tally = Tally()
        #: Nodes with an edge out of order, or to an inner message that they never took.
        self.doubtful: set[int] = set()
        self._again: list[tuple[int, Ints]] = []
        self._extra: list[tuple[Ints, Ints]] = []

    def look_at(self, node: Node) -> None:
        rows = node.in_order
        self._tally.checked += int(np.count_nonzero(rows != NEVER))
        if self._cover is not None:
            src, dst = uncovered(node, self._ledger, self._topic, self._cover, across_topics=self._across_topics)
            if len(src):
                self._extra.append((src, dst))
        self._judge(node.node, rows[: self._graph.count])

    def result(self) -> Tally:
        """The tally. Its example has no words yet: they need the whole run (`explain_causal`)."""
        self._look_again()
        return self._tally

    def extra(self, bucket: "Bucket") -> tuple[Ints, list[MessageKey]]:
        """Edges to add to the graph, and the names of their messages that the ledger does not have.

        A publisher that lacks a message leaves edges that `uncovered` cannot tell from new ones, but that a path
        through the missing message implies. If all edges are like that, none is added: adding an edge has the causal
        rule judged twice.
        """
        if not self._extra:
            return np.zeros((2, 0), np.int64), []
        edges = np.concatenate([np.stack(pair) for pair in self._extra], axis=1)
        known = len(self._ledger.messages)
        if (
            self._graph.point is None
            and edges[0].max() < known
            and self._graph.has_paths(edges[0], edges[1], PATH_STEPS_MAX)
        ):
            return np.zeros((2, 0), np.int64), []
        strangers, number = np.unique(edges[0][edges[0] >= known], return_inverse=True)
        edges[0][edges[0] >= known] = known + number
        return edges, [bucket.key(message) for message in strangers.tolist()]

    def _judge(self, node: int, rows: Ints) -> None:
        graph = self._graph
        if graph.point is None:
            never = rows == NEVER
            if never.any():
                # A message that was never taken counts as taken first of all, so that every edge to it is followed.
                late = np.where(never, NEVER, rows)
                late[~graph.is_inner & never] = np.iinfo(rows.dtype).max
            else:
                late = rows
            bad = np.flatnonzero(rows.take(graph.src) > late.take(graph.dst))
            if not len(bad):
                return
            self.doubtful.add(node)
            wrong = graph.follow(rows, bad, STEPS_MAX)
            if wrong is not None:
                self._count(node, rows, np.array(wrong, np.int64))
                return
        self._again.append((node, rows))
        if len(self._again) * graph.count >= ENTRIES_MAX:
            self._look_again()

    def _look_again(self) -> None:
        if not self._again:
            return
        taken = np.stack([rows for _, rows in self._again], axis=1)
        wrong = (taken != NEVER) & (self._graph.latest_of_the_past(taken) > taken)
        for column, (node, rows) in enumerate(self._again):
            self._count(node, rows, np.flatnonzero(wrong[:, column]))
        self._again.clear()

    def _count(self, node: int, rows: Ints, wrong: Ints) -> None:
        """Count the messages in `wrong`, which the node took too early."""
        if not len(wrong):
            return
        self._tally.violations += len(wrong)
        message = int(wrong[np.argmin(rows[wrong])])
        row = int(rows[message])
        if self._tally.comes_first(row):
            unexplained = Example(words="", nodes=(node,), messages=(), rows=(row,))
            self._tally.violation(unexplained, row, node, message)
