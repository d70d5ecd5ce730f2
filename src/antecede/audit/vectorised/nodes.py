"""Holds what one node took, in arrays by message, and judges `fifo` there.

There are three views of the same rows: the first *delivery* of each message, the first *take* (a publication is a
take), and the first take *in order*, without what is not judged: deliveries that the protocol tagged, and
publications that follow one tagged incomplete. In each, a message that the node never took has −1.
"""

from typing import NamedTuple

import numpy as np

from antecede.audit.vectorised.columns import Bools, Ints
from antecede.audit.vectorised.ledger import NEVER, Ledger
from antecede.audit.wording import Moment


class Node(NamedTuple):
    """The deliver rows of one node in order, and the views of them."""

    node: int
    row: Ints
    time: Ints
    message: Ints
    tagged: Bools
    #: By message: the row of the first delivery, of the first take, and of the first take if that was in order.
    delivered: Ints
    taken: Ints
    in_order: Ints

    def moment(self, index: int) -> Moment:
        return Moment(int(self.row[index]), int(self.time[index]))

    @property
    def again(self) -> Bools:
        """By deliver row: whether the node had delivered the message before."""
        return np.asarray(self.delivered[self.message] != self.row)

    def delivered_in_order(self) -> Ints:
        """`delivered` without tagged first deliveries."""
        if not self.tagged.any():
            return self.delivered
        return _without(self.delivered, self)


def make_node(
    node: int,
    row: Ints,
    time: Ints,
    message: Ints,
    tagged: Bools,
    incomplete: Bools,
    published: tuple[Ints, Ints],
    count: int,
) -> Node:
    """Make the views. `published`: rows and messages of this node's publish rows. `count`: the number of messages."""
    delivered = np.full(count, NEVER, row.dtype)
    delivered[message[::-1]] = row[::-1]  # the first delivery is written last and stays
    taken = delivered
    publish_row, publish_message = published
    if len(publish_row):
        taken = delivered.copy()
        had = taken[publish_message]
        earlier = (had == NEVER) | (publish_row < had)
        taken[publish_message[earlier][::-1]] = publish_row[earlier][::-1]
    known = Node(node, row, time, message, tagged, delivered, taken, taken)
    if not tagged.any():
        return known
    in_order = _without(taken, known)
    told = row[incomplete & (taken[message] == row)]
    if len(told):
        later = (publish_row > told[0]) & (taken[publish_message] == publish_row)
        in_order[publish_message[later]] = NEVER
    return known._replace(in_order=in_order)


def _without(rows: Ints, node: Node) -> Ints:
    """`rows` without tagged deliveries."""
    tagged = np.flatnonzero(node.tagged)
    message = node.message[tagged]
    which = rows[message] == node.row[tagged]
    kept = rows.copy()
    kept[message[which]] = NEVER
    return kept


# -- fifo -------------------------------------------------------------------------------------------------------------


class Streams(NamedTuple):
    """All messages sorted by topic, source and seq: `order`, and the stream of each in that order."""

    order: Ints
    stream: Ints
    #: Between two neighbours: whether the second is of another stream.
    other: Bools


def out_of_turn(node: Node, streams: Streams) -> tuple[int, Ints]:
    """The number of first deliveries in order, and the messages among them that came after a later one."""
    rows = node.delivered_in_order()[streams.order]
    if (rows == NEVER).any():
        there = rows != NEVER
        rows, stream, order = rows[there], streams.stream[there], streams.order[there]
        other = stream[1:] != stream[:-1]
    else:
        order, stream, other = streams
    if ((rows[1:] > rows[:-1]) | other).all():
        return len(rows), rows[:0]
    # By message: the earliest row among the later messages of its stream. Each stream is shifted above the one before
    # it, so that one running minimum from the end serves all streams.
    lifted = rows.astype(np.int64) + stream * (int(rows.max()) + 1)
    earliest = np.minimum.accumulate(lifted[::-1])[::-1]
    late = np.zeros(len(rows), bool)
    late[:-1] = earliest[1:] < lifted[:-1]
    return len(rows), order[late]


# -- causal: edges that deliveries at publishers add -----------------------------------------------------------------


class Cover:
    """Edges of the graph that lead to later publications, by their first message."""

    def __init__(self, count: int, src: Ints, dst: Ints) -> None:
        order = np.lexsort((dst, src))
        self.dst = dst[order]
        #: The edges from message m are those from `begin[m]` up to `begin[m + 1]`.
        self.begin = np.searchsorted(src[order], np.arange(count + 1))
        #: By message: the first publication after it; itself if there is none.
        self.nearest = np.arange(count)
        leads = self.begin[1:] > self.begin[:-1]
        self.nearest[leads] = self.dst[self.begin[:-1][leads]]
        #: The messages without one.
        self.last = np.flatnonzero(self.nearest == np.arange(count))

    def edges_from(self, messages: Ints) -> tuple[Ints, Ints]:
        """The edges from `messages`: the index in `messages`, and the message they lead to."""
        begin = self.begin[messages]
        count = self.begin[messages + 1] - begin
        index = np.repeat(np.arange(len(messages)), count)
        return index, self.dst[np.arange(len(index)) + np.repeat(begin - np.cumsum(count) + count, count)]


def uncovered(node: Node, ledger: Ledger, topic: Ints, cover: Cover, *, across_topics: bool) -> tuple[Ints, Ints]:
    """Edges that the definition demands for this node's publications and the graph does not imply.

    Everything the node took between two of its publications came before the second. Most of it came, by an edge of the
    graph, before something else it took in between, or is a dependency of the second; then the paths exist. The rest is
    returned. Without `across_topics` each topic is looked at by itself. `topic`: by message.
    """
    mine = ledger.first_published_by(node.node)
    if not len(mine):
        return mine, mine
    row, message = _takes(node, ledger)
    if not across_topics:
        mine = mine[np.argsort(topic[mine], kind="stable")]
    # An interval has the number of the publication it ends with: its index in `mine`.
    interval_of = np.full(len(node.taken), -1, np.int32)
    begin = 0
    for scope in (None,) if across_topics else np.unique(topic[mine]).tolist():
        published = mine if scope is None else mine[topic[mine] == scope]
        takes = slice(None) if scope is None else np.flatnonzero(topic[message] == scope)
        ends = np.searchsorted(row[takes], ledger.first.row[published])
        interval = np.repeat(np.arange(begin, begin + len(published)), np.diff(ends, prepend=0))
        interval_of[message[takes][: ends[-1]][::-1]] = interval[::-1]  # the first take counts
        begin += len(published)
    known = len(cover.nearest)
    # Nearly everything is covered by the first publication after it.
    alone = interval_of[:known] != interval_of.take(cover.nearest)
    alone[cover.last] = True
    candidates = np.flatnonzero(alone)
    candidates = candidates[interval_of[candidates] >= 0]
    index, after = cover.edges_from(candidates)
    ended_by = np.full(len(node.taken), -2, np.int32)
    ended_by[mine] = np.arange(len(mine))
    its = interval_of[candidates[index]]
    implied = (its == interval_of[after]) | (its == ended_by[after])
    needed = np.ones(len(candidates), bool)
    needed[index[implied]] = False
    candidates = candidates[needed]
    strangers = np.flatnonzero(interval_of[known:] >= 0) + known
    left = np.concatenate([candidates, strangers])
    publication = mine[interval_of[left]]
    return left[left != publication], publication[left != publication]


def _takes(node: Node, ledger: Ledger) -> tuple[Ints, Ints]:
    """Rows and messages of everything the node took, without its own first publications, which have edges already.

    A second publish row of a message is a take.
    """
    every_row, every_message = ledger.published_by(node.node)
    again = ledger.first.row[every_message] != every_row
    if not again.any():
        return node.row, node.message
    row = np.concatenate([node.row, every_row[again]])
    order = np.argsort(row, kind="stable")
    return row[order], np.concatenate([node.message, every_message[again]])[order]
