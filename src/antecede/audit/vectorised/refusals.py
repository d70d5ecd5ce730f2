"""Refuses rows that cannot mean anything: the same rows, in the same words, as `antecede.audit.reference.well_formed`.

What is refused depends only on the row and on earlier rows of its node. So buckets look on their own, and the run's
refusal is the one with the lowest row. Dependencies are looked at on publish rows, where alone they mean something.
"""

from typing import NamedTuple

import numpy as np

from antecede.audit.vectorised.columns import Bools, Columns, Dependencies, Ints
from antecede.core.errors import UsageError
from antecede.trace import Event

_NAMED = "a message is named by topic, source and seq (from 1)"


class Refusal(NamedTuple):
    """The lowest row that makes no sense, and why."""

    row: int
    words: str


def first_refusal(rows: Columns, named: Dependencies | None = None) -> Refusal | None:
    """Look at rows of some nodes, complete, in any order. `named`: the dependencies they record."""
    order = _by_node(rows)
    node, time = rows.node[order], rows.time[order]
    same = np.zeros(len(order), bool)
    same[1:] = node[1:] == node[:-1]
    backwards = np.zeros(len(order), bool)
    backwards[1:] = same[1:] & (time[1:] < time[:-1])
    acts = ~np.isin(rows.event[order], (int(Event.DROP), int(Event.CRASH), int(Event.RECOVER)))
    acts_while_down = acts & _is_down(rows, order, same)
    doubtful = (node < 0) | backwards | acts_while_down | _nameless(rows)[order]
    if named is not None and len(named.at):
        wrong = (named.topic < 0) | (named.source < 0) | (named.seq < 1)
        doubtful |= np.isin(order, named.at[wrong])
    if not doubtful.any():
        return None
    places = np.flatnonzero(doubtful)
    place = int(places[np.argmin(rows.row[order[places]])])
    at = int(order[place])
    before = int(order[place - 1]) if backwards[place] else -1
    row = int(rows.row[at])
    crashed_at = _crashed_at(rows, at) if acts_while_down[place] else -1
    problem, remedy = _why(rows, at, before, crashed_at, named)
    return Refusal(row, str(UsageError("trace row", row, problem, remedy)))


def plainly_fine(events: Columns, deliveries: Columns, packets: Columns, *, malformed: bool) -> bool:
    """A quick look that settles the usual case: false means that `first_refusal` must look closely.

    `events`: of all nodes, found to be `malformed` or not. `deliveries`: of some, sorted by node and row.
    """
    node, row, time = deliveries.node, deliveries.row, deliveries.time
    if malformed or packets.size or (events.event == int(Event.CRASH)).any():
        return False
    if not deliveries.size:
        return True
    if node[0] < 0 or min(deliveries.topic.min(), deliveries.source.min(), deliveries.seq.min() - 1) < 0:
        return False
    # One number a place in the order of nodes and rows; and time must not fall from one to the next.
    width = 1 + max(int(row.max()), int(events.row.max(initial=0)))
    places = node.astype(np.int64) * width + row
    if (places[1:] <= places[:-1]).any() or ((time[1:] < time[:-1]) & (node[1:] == node[:-1])).any():
        return False
    at = np.searchsorted(places, events.node.astype(np.int64) * width + events.row)
    before, after = np.maximum(at - 1, 0), np.minimum(at, len(places) - 1)
    falls = (at > 0) & (node[before] == events.node) & (time[before] > events.time)
    falls |= (at < len(places)) & (node[after] == events.node) & (time[after] < events.time)
    return not falls.any()


def _by_node(rows: Columns) -> Ints:
    """By node and then by row. Parts come sorted like that, or by row alone, which makes a stable sort cheap."""
    if rows.size < 2:
        return np.arange(rows.size)
    rising = (rows.node[1:] > rows.node[:-1]) | ((rows.node[1:] == rows.node[:-1]) & (rows.row[1:] > rows.row[:-1]))
    if rising.all():
        return np.arange(rows.size)
    return np.lexsort((rows.row, rows.node))


def _is_down(rows: Columns, order: Ints, same: Bools) -> Bools:
    """By place in `order`: is the node down just before this row?"""
    event = rows.event[order]
    crash = event == int(Event.CRASH)
    if not crash.any():
        return np.zeros(len(order), bool)
    places = np.arange(len(order))
    begins = np.maximum.accumulate(np.where(same, 0, places))  # of the node's rows
    changes = crash | (event == int(Event.RECOVER))
    latest = np.full(len(order), -1)
    latest[1:] = np.maximum.accumulate(np.where(changes, places, -1))[:-1]
    return np.asarray((latest >= begins) & crash[latest])


def _crashed_at(rows: Columns, at: int) -> int:
    """The row at which the node of row `at` went down, which it did not come up from before that row."""
    mine = (rows.node == rows.node[at]) & (rows.row < rows.row[at])
    recovered = rows.row[mine & (rows.event == int(Event.RECOVER))]
    crashed = rows.row[mine & (rows.event == int(Event.CRASH))]
    return int(crashed[crashed > (recovered.max() if len(recovered) else -1)].min())


def _nameless(rows: Columns) -> Bools:
    event = rows.event
    topical = (event == int(Event.SUBSCRIBE)) | (event == int(Event.UNSUBSCRIBE))
    sent = (event == int(Event.SEND)) & (rows.source != -1)
    message = (event == int(Event.PUBLISH)) | (event == int(Event.DELIVER)) | sent
    without = (rows.topic < 0) | (rows.source < 0) | (rows.seq < 1)
    return np.asarray((topical & (rows.topic < 0)) | (message & without) | (sent & (rows.peer < 0)))


def _why(rows: Columns, at: int, before: int, crashed_at: int, named: Dependencies | None) -> tuple[str, str]:
    """What is wrong with one row: the first thing, in the order in which `audit` looks."""
    event = Event(int(rows.event[at]))
    word = event.name.lower()
    a_row = f"{'an' if word[0] in 'aeiou' else 'a'} {word} row"
    node, time = int(rows.node[at]), int(rows.time[at])
    if node < 0:
        return f"{a_row} at node {node}", "node numbers count from 0"
    if before >= 0:
        return (
            f"time at node {node} goes backwards, from {rows.time[before]} (row {rows.row[before]}) to {time}",
            "give the rows of a node in the order in which they happened",
        )
    if crashed_at >= 0:
        return (
            f"{a_row} at node {node}, which crashed at row {crashed_at}",
            "record a recover row when a node comes back",
        )
    return _what_it_lacks(rows, at, event, a_row, named)


def _what_it_lacks(rows: Columns, at: int, event: Event, a_row: str, named: Dependencies | None) -> tuple[str, str]:
    topic, source, seq = int(rows.topic[at]), int(rows.source[at]), int(rows.seq[at])
    if event in (Event.SUBSCRIBE, Event.UNSUBSCRIBE) and topic < 0:
        return f"{a_row} without a topic", "record the topic or filter"
    is_sent = event is Event.SEND and source != -1
    if event in (Event.PUBLISH, Event.DELIVER) or is_sent:
        lack = _lack(topic, source, seq)
        if lack:
            return f"{a_row} without a {lack}", _NAMED
    if is_sent and rows.peer[at] < 0:
        return f"{a_row} without a peer", "record where the packet goes"
    assert named is not None  # nothing else is left to be wrong
    for place in np.flatnonzero(named.at == at).tolist():
        lack = _lack(int(named.topic[place]), int(named.source[place]), int(named.seq[place]))
        if lack:
            return f"a dependency on {a_row} without a {lack}", _NAMED
    raise AssertionError(f"row {rows.row[at]} was refused for no reason")


def _lack(topic: int, source: int, seq: int) -> str:
    if topic >= 0 and source >= 0 and seq >= 1:
        return ""
    return "topic" if topic < 0 else f"source (it says {source})" if source < 0 else f"seq (it says {seq})"
