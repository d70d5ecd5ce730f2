"""Refuses rows that cannot be judged: the same rows as `antecede.audit.reference.well_formed`.

Whether a row is refused depends only on the row and on earlier rows of its node. So each bucket looks on its own, and
the run's refusal is the one with the lowest row. Dependencies are checked on publish rows, the only rows to have them.
"""

from typing import NamedTuple

import numpy as np

from antecede.audit import wording
from antecede.audit.rules import GOES_DOWN
from antecede.audit.vectorised.columns import Bools, Columns, Dependencies, Ints, run_values
from antecede.core.errors import UsageError
from antecede.trace import Event

_DOWN = tuple(sorted(map(int, GOES_DOWN)))


class Refusal(NamedTuple):
    """The lowest row that cannot be judged, and the error text."""

    row: int
    words: str


def first_refusal(rows: Columns, named: Dependencies | None = None) -> Refusal | None:
    """Check all rows of some nodes, in any order. `named`: the dependencies that they record."""
    order = _by_node(rows)
    node, time = rows.node[order], rows.time[order]
    same = np.zeros(len(order), bool)
    same[1:] = node[1:] == node[:-1]
    backwards = np.zeros(len(order), bool)
    backwards[1:] = same[1:] & (time[1:] < time[:-1])
    acts = ~np.isin(rows.event[order], (*_DOWN, int(Event.DROP), int(Event.RECOVER)))
    acts_while_down = acts & _is_down(rows, order, same)
    doubtful = (node < 0) | backwards | acts_while_down | _nameless(rows)[order]
    if named is not None and len(named.at):
        wrong = (named.topic < 0) | (named.source < 0) | (named.seq < 1)
        doubtful |= np.isin(order, named.at[wrong])
    if not doubtful.any():
        return None
    indices = np.flatnonzero(doubtful)
    index = int(indices[np.argmin(rows.row[order[indices]])])
    at = int(order[index])
    before = int(order[index - 1]) if backwards[index] else -1
    row = int(rows.row[at])
    down_row = _down_since(rows, at) if acts_while_down[index] else -1
    problem, remedy = _why(rows, at, before, down_row, named)
    return Refusal(row, str(UsageError("trace row", row, problem, remedy)))


def plainly_fine(events: Columns, deliveries: Columns, packets: Columns, *, malformed: bool) -> bool:
    """Settle the usual case quickly; false means that `first_refusal` must check every row.

    `events`: rows of all nodes, known to be `malformed` or not. `deliveries`: rows of some, sorted by node and row.
    """
    node, row, time = deliveries.node, deliveries.row, deliveries.time
    if malformed or packets.size or np.isin(events.event, _DOWN).any():
        return False
    if not deliveries.size:
        return True
    if node[0] < 0 or min(deliveries.topic.min(), deliveries.source.min(), deliveries.seq.min() - 1) < 0:
        return False
    # One number for each row in the order of nodes and rows; time must not fall from one to the next.
    width = 1 + max(int(row.max()), int(events.row.max(initial=0)))
    keys = node.astype(np.int64)
    keys *= width
    keys += row
    if (keys[1:] <= keys[:-1]).any() or ((time[1:] < time[:-1]) & (node[1:] == node[:-1])).any():
        return False
    events = events.take(np.isin(events.node, run_values(node)))
    at = np.searchsorted(keys, events.node.astype(np.int64) * width + events.row)
    before, after = np.maximum(at - 1, 0), np.minimum(at, len(keys) - 1)
    falls = (at > 0) & (node[before] == events.node) & (time[before] > events.time)
    falls |= (at < len(keys)) & (node[after] == events.node) & (time[after] < events.time)
    return not falls.any()


def _by_node(rows: Columns) -> Ints:
    """The order of rows by node and then by row. Parts usually are sorted like that, or by row alone."""
    if rows.size < 2:
        return np.arange(rows.size)
    rising = (rows.node[1:] > rows.node[:-1]) | ((rows.node[1:] == rows.node[:-1]) & (rows.row[1:] > rows.row[:-1]))
    if rising.all():
        return np.arange(rows.size)
    return np.lexsort((rows.row, rows.node))


def _is_down(rows: Columns, order: Ints, same: Bools) -> Bools:
    """By index in `order`: whether the node is down just before this row."""
    event = rows.event[order]
    falls = np.isin(event, _DOWN)
    if not falls.any():
        return np.zeros(len(order), bool)
    indices = np.arange(len(order))
    begins = np.maximum.accumulate(np.where(same, 0, indices))  # of the node's rows
    changes = falls | (event == int(Event.RECOVER))
    latest = np.full(len(order), -1)
    latest[1:] = np.maximum.accumulate(np.where(changes, indices, -1))[:-1]
    return np.asarray((latest >= begins) & falls[latest])


def _down_since(rows: Columns, at: int) -> int:
    """The row since which the node of row `at` is down."""
    mine = (rows.node == rows.node[at]) & (rows.row < rows.row[at])
    recovered = rows.row[mine & (rows.event == int(Event.RECOVER))]
    down = rows.row[mine & np.isin(rows.event, _DOWN)]
    return int(down[down > (recovered.max() if len(recovered) else -1)].min())


def _nameless(rows: Columns) -> Bools:
    event = rows.event
    topical = (event == int(Event.SUBSCRIBE)) | (event == int(Event.UNSUBSCRIBE))
    sent = (event == int(Event.SEND)) & (rows.source != -1)
    message = (event == int(Event.PUBLISH)) | (event == int(Event.DELIVER)) | sent
    without = (rows.topic < 0) | (rows.source < 0) | (rows.seq < 1)
    return np.asarray((topical & (rows.topic < 0)) | (message & without) | (sent & (rows.peer < 0)))


def _why(rows: Columns, at: int, before: int, down_row: int, named: Dependencies | None) -> tuple[str, str]:
    """The first problem of one row, in the order in which the reference judge looks, and its remedy."""
    event, node = Event(int(rows.event[at])), int(rows.node[at])
    if node < 0:
        return wording.wrong_node(event, node)
    if before >= 0:
        return wording.time_backwards(node, rows.moment(before), int(rows.time[at]))
    if down_row >= 0:
        return wording.acts_while_down(event, node, down_row)
    return _wrong_name(rows, at, event, named)


def _wrong_name(rows: Columns, at: int, event: Event, named: Dependencies | None) -> tuple[str, str]:
    key = bool(rows.topic[at] >= 0), int(rows.source[at]), int(rows.seq[at])
    if event in (Event.SUBSCRIBE, Event.UNSUBSCRIBE) and not key[0]:
        return wording.no_topic(event)
    is_sent = event is Event.SEND and key[1] != -1
    if (event in (Event.PUBLISH, Event.DELIVER) or is_sent) and not _is_whole(key):
        return wording.incomplete_name(event, key)
    if is_sent and rows.peer[at] < 0:
        return wording.no_peer(event)
    assert named is not None  # nothing else is left to be wrong
    for index in np.flatnonzero(named.at == at).tolist():
        key = bool(named.topic[index] >= 0), int(named.source[index]), int(named.seq[index])
        if not _is_whole(key):
            return wording.incomplete_name(event, key, dependency=True)
    raise AssertionError(f"row {rows.row[at]} was refused for no reason")


def _is_whole(key: tuple[bool, int, int]) -> bool:
    return key[0] and key[1] >= 0 and key[2] >= 1
