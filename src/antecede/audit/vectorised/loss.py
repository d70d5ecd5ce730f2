"""Judges `complete` and `agreement` for a whole run, from what its buckets lack and have.

What is owed follows from the ledger alone: the number of steady subscribers of a message's topic when it was published.
Buckets say which of that never came, and which messages some node has.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from antecede.audit.report import Example
from antecede.audit.vectorised.columns import Bools, Ints
from antecede.audit.vectorised.ledger import LATE, NEVER, Ledger, steady_since
from antecede.audit.vectorised.survey import Survey
from antecede.audit.vectorised.tally import Tally


class Losses(NamedTuple):
    """Both tallies; their examples have no words yet (`explain_loss`)."""

    complete: Tally
    agreement: Tally


def judge_losses(ledger: Ledger, surveys: Sequence[Survey]) -> Losses:
    published = ledger.published
    owed = owed_to(ledger)
    missing = np.zeros(published, np.int64)
    lowest = np.full(published, LATE, np.int64)
    has_witness = _steady_publishers(ledger)
    for found in surveys:
        if found.missing is not None:
            message = found.missing.message
            missing[message] += found.missing.nodes
            lowest[message] = np.minimum(lowest[message], found.missing.lowest)
        has_witness |= found.witness != NEVER
    stayed = ~np.isin(ledger.first.node, list(ledger.went_down))
    return Losses(_tally(owed, missing, lowest, stayed), _tally(owed, missing, lowest, has_witness))


def owed_to(ledger: Ledger) -> Ints:
    """By published message: the number of nodes that are owed it."""
    topic, row = ledger.messages.topic[: ledger.published].astype(np.int64), ledger.first.row
    everything = ledger.broadcast_to - ledger.down
    owed = np.full(ledger.published, len(everything), np.int64)
    exact: list[tuple[int, int]] = []
    for node in ledger.subscriptions.keys() - ledger.down - everything:
        if ledger.wild(node):
            since = steady_since(ledger, node)
            assert since is not None
            owed += since[topic] < row
        else:
            exact += [(ledger.topics.code(name), opened) for name, opened in ledger.subscriptions[node].items()]
    # A topic and a row as one number, sorted: the time does not depend on the number of topics.
    stride = max([0, *[opened for _, opened in exact], int(row.max(initial=0))]) + 1
    subscriptions = np.sort(np.array([code * stride + opened for code, opened in exact], np.int64))
    begin = topic * stride
    return np.asarray(owed + np.searchsorted(subscriptions, begin + row) - np.searchsorted(subscriptions, begin))


def _steady_publishers(ledger: Ledger) -> Bools:
    """By published message: whether it is owed to its own publisher, which then has it."""
    steady = np.zeros(ledger.published, bool)
    for node in np.unique(ledger.first.node).tolist():
        if node not in ledger.down:
            mine = ledger.first_published_by(node)
            topics, which = np.unique(ledger.messages.topic[mine], return_inverse=True)
            since = [ledger.since(node, ledger.topics.names[code]) for code in topics.tolist()]
            rows = np.array([LATE if row is None else row for row in since], np.int64)
            steady[mine] = rows[which] < ledger.first.row[mine]
    return steady


def _tally(owed: Ints, missing: Ints, lowest: Ints, counts: Bools) -> Tally:
    tally = Tally(checked=int(owed[counts].sum()), violations=int(missing[counts].sum()))
    if tally.violations:
        message = int(np.argmax(counts & (missing > 0)))
        node = int(lowest[message])
        tally.violation(Example(words="", nodes=(node,), messages=(), rows=()), message, node)
    return tally
