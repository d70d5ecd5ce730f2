"""Rule `total`: no two nodes deliver two messages both took in different orders. Asked for; off by default.

If one order of all messages agrees with every node's, no two nodes disagree, and whether there is one costs a walk over
what follows what. Only when there is none are nodes compared pair by pair: in the order of the one, the rows of what
the other took must rise.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from antecede.audit.report import Example, MessageKey
from antecede.audit.vectorised.columns import Ints
from antecede.audit.vectorised.ledger import NEVER, Ledger
from antecede.audit.vectorised.scc import points_of
from antecede.audit.vectorised.survey import Bucket
from antecede.audit.vectorised.tally import Offence, Tally


class _Orders(NamedTuple):
    """By node: the row of the first delivery in order of each message, and the messages in that order."""

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
        places = orders.rows[one + 1 :, orders.sequences[one]]
        there = places != NEVER
        highest = np.maximum.accumulate(places, axis=1)
        turned = np.zeros(places.shape, bool)
        turned[:, 1:] = there[:, 1:] & (places[:, 1:] < highest[:, :-1])
        disagree = np.flatnonzero(turned.any(axis=1))
        tally.violations += len(disagree)
        if len(disagree) and tally.first is None:
            other = int(disagree[0])
            tally.first = _offence(orders, one, one + 1 + other, places[other], ledger)
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
    for place, (_, messages, rows) in enumerate(found):
        table[place, messages] = rows
    for bucket in buckets:  # only for words
        all_rows = bucket.deliveries
        places = zip(all_rows.node.tolist(), all_rows.row.tolist(), strict=True)
        times.update(zip(places, all_rows.time.tolist(), strict=True))
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
    """Is there an order of all messages that every node's agrees with?"""
    count = orders.rows.shape[1]
    follows = [sequence[:-1] * count + sequence[1:] for sequence in orders.sequences]
    edges = np.unique(np.concatenate(follows)) if follows else np.zeros(0, np.int64)
    points = points_of(count, edges // count, edges % count)
    return bool(len(np.unique(points)) == count)


def _offence(orders: _Orders, one: int, other: int, places: Ints, ledger: Ledger) -> Offence:
    """Two messages in a row of what both took that the other has the other way round."""
    common = np.flatnonzero(places != NEVER)
    turn = int(np.argmax(np.diff(places[common]) < 0))
    first, then = (int(orders.sequences[one][common[place]]) for place in (turn, turn + 1))
    takes = ((one, first), (one, then), (other, then), (other, first))
    rows = tuple(int(orders.rows[node, message]) for node, message in takes)
    words = []
    for (node, message), row in zip(takes, rows, strict=True):
        topic, source, seq = orders.keys[message]
        words.append(f"{topic}/{source}.{seq} (row {row}, time_us {orders.times[orders.nodes[node], row]})")
    nodes = orders.nodes[one], orders.nodes[other]
    example = Example(
        words=f"node {nodes[0]} delivered {words[0]} before {words[1]}, "
        f"node {nodes[1]} delivered {words[2]} before {words[3]}",
        nodes=nodes,
        messages=(orders.keys[first], orders.keys[then]),
        rows=rows,
    )
    return Offence(order=nodes, example=example)
