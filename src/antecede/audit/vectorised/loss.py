"""Judges `complete` and `agreement` for a whole run, from what its buckets lack and have.

What is owed follows from the ledger alone: the number of steady subscribers of a message's topic when it was published.
Buckets say which of that never came, and which messages some node has.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from antecede.audit.report import Example
from antecede.audit.vectorised.columns import Bools, Ints
from antecede.audit.vectorised.ledger import LATE, Ledger, steady_since
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
    lowest = np.full(published, np.iinfo(np.int32).max)
    has_witness = _steady_publishers(ledger)
    for found in surveys:
        if found.missing is not None:
            missing += found.missing
            lowest = np.minimum(lowest, found.missing_node)
        has_witness |= found.witness != LATE
    stayed = ~np.isin(ledger.first.node, list(ledger.went_down))
    return Losses(_tally(owed, missing, lowest, stayed), _tally(owed, missing, lowest, has_witness))


def owed_to(ledger: Ledger) -> Ints:
    """By published message: the number of nodes that are owed it."""
    owed = np.zeros(ledger.published, np.int64)
    topic = ledger.messages.topic[: ledger.published]
    for code in np.unique(topic).tolist():
        since = np.sort([row for _, row in ledger.steady(ledger.topics.names[code])])
        owed[topic == code] = np.searchsorted(since, ledger.first.row[topic == code])
    return owed


def _steady_publishers(ledger: Ledger) -> Bools:
    """By published message: whether it is owed to its own publisher, which then has it."""
    steady = np.zeros(ledger.published, bool)
    topic = ledger.messages.topic[: ledger.published]
    for node in np.unique(ledger.first.node).tolist():
        since = steady_since(ledger, node)
        if since is not None:
            mine = ledger.first.node == node
            steady[mine] = since[topic[mine]] < ledger.first.row[mine]
    return steady


def _tally(owed: Ints, missing: Ints, lowest: Ints, counts: Bools) -> Tally:
    tally = Tally(checked=int(owed[counts].sum()), violations=int(missing[counts].sum()))
    if tally.violations:
        message = int(np.argmax(counts & (missing > 0)))
        node = int(lowest[message])
        tally.violation(Example(words="", nodes=(node,), messages=(), rows=()), message, node)
    return tally
