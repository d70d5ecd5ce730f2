"""Judges `total`: two nodes deliver the messages that both deliver in one order. Off by default.

If one order of all messages agrees with every node's, no two nodes disagree; finding it costs one walk over the
deliveries. Only if there is none are nodes compared pair by pair: in the order of one node, the rows of the other must
rise.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from antecede.audit import wording
from antecede.audit.report import Example, MessageKey
from antecede.audit.vectorised.columns import Ints
from antecede.audit.vectorised.ledger import NEVER, Ledger
from antecede.audit.vectorised.scc import points_of
from antecede.audit.vectorised.survey import Bucket
from antecede.audit.vectorised.tally import Tally
from antecede.audit.wording import At, Moment


class _Orders(NamedTuple):
    """By node: the row of its first delivery of each message, and the messages in that order."""

    nodes: list[int]
    rows: Ints
    sequences: list[Ints]
    keys: list[MessageKey]
    times: dict[tuple[int, int], int]


def judge_total(buckets: Sequence[Bucket], ledger: Ledger) -> Tally:
    """Checked: pairs of nodes with two messages in common, not tagged. Violations: pairs that disagree."""
    orders = _orders(buckets, ledger)
    tally = Tally(checked=_pairs_in_common(orders.rows))
    if _one_order_fits(orders):
        return tally
    for one in range(len(orders.nodes)):
        theirs = orders.rows[one + 1 :, orders.sequences[one]]
        there = theirs != NEVER
        highest = np.maximum.accumulate(theirs, axis=1)
        turned = np.zeros(theirs.shape, bool)
        turned[:, 1:] = there[:, 1:] & (theirs[:, 1:] < highest[:, :-1])
        disagree = np.flatnonzero(turned.any(axis=1))
        tally.violations += len(disagree)
        if len(disagree) and tally.example is None:
            other = int(disagree[0])
            pair = orders.nodes[one], orders.nodes[one + 1 + other]
            tally.violation(_example(orders, one, one + 1 + other, theirs[other]), *pair)
    return tally


def _orders(buckets: Sequence[Bucket], ledger: Ledger) -> _Orders:
    numbers: dict[MessageKey, int] = {}
    found: list[tuple[int, Ints, Ints]] = []
    times: dict[tuple[int, int], int] = {}
    known = len(ledger.messages)
    for bucket in buckets:
        number = np.arange(len(bucket.messages))
        for stranger in range(known, len(bucket.messages)):
            number[stranger] = known + numbers.setdefault(bucket.key(stranger), len(numbers))
        for node in bucket.each(ledger):
            rows = node.delivered_in_order()
            messages = np.flatnonzero(rows != NEVER)
            if len(messages):
                found.append((node.node, number[messages], rows[messages]))
    found.sort(key=lambda each: each[0])
    table = np.full((len(found), known + len(numbers)), NEVER, np.int64)
    for index, (_, messages, rows) in enumerate(found):
        table[index, messages] = rows
    for bucket in buckets:  # for examples only
        all_rows = bucket.deliveries
        taken = zip(all_rows.node.tolist(), all_rows.row.tolist(), strict=True)
        times.update(zip(taken, all_rows.time.tolist(), strict=True))
    keys = [ledger.messages.key(message, ledger.topics) for message in range(known)]
    return _Orders(
        [node for node, _, _ in found],
        table,
        [messages[np.argsort(rows)] for _, messages, rows in found],
        [*keys, *numbers],
        times,
    )


def _pairs_in_common(rows: Ints) -> int:
    took = (rows != NEVER).astype(np.float32)  # exact up to 2**24 messages in common
    common = took @ took.T >= 2
    return int(np.triu(common, 1).sum())


def _one_order_fits(orders: _Orders) -> bool:
    """Whether one order of all messages agrees with the order of every node."""
    count = orders.rows.shape[1]
    follows = [sequence[:-1] * count + sequence[1:] for sequence in orders.sequences]
    edges = np.unique(np.concatenate(follows)) if follows else np.zeros(0, np.int64)
    points = points_of(count, edges // count, edges % count)
    return bool(len(np.unique(points)) == count)


def _example(orders: _Orders, one: int, other: int, rows: Ints) -> Example:
    """Two messages that follow each other at node `one`, of those both delivered, and not at node `other`."""
    common = np.flatnonzero(rows != NEVER)
    turn = int(np.argmax(np.diff(rows[common]) < 0))
    first, then = (int(orders.sequences[one][common[index]]) for index in (turn, turn + 1))

    def at(node: int, message: int) -> At:
        number, row = orders.nodes[node], int(orders.rows[node, message])
        return At(number, orders.keys[message], Moment(row, orders.times[number, row]))

    return wording.disagreement((at(one, first), at(one, then)), (at(other, then), at(other, first)))
