"""Judges `no-invention` on publish rows: numbers count 1, 2, 3, …, in the node's own name, after their dependencies.

Publish rows are few beside deliver rows, so they are judged once per run. Deliver rows are judged in `survey`.
"""

import numpy as np

from antecede.audit import wording
from antecede.audit.report import Example
from antecede.audit.vectorised.columns import Ints
from antecede.audit.vectorised.ledger import NEVER, Ledger
from antecede.audit.vectorised.tally import Tally
from antecede.audit.wording import At


def judge_publications(tally: Tally, ledger: Ledger) -> None:
    """Add the publish rows to the tally of the deliver rows."""
    every = ledger.publications
    messages = ledger.messages
    tally.checked += len(every.row)
    foreign = messages.source[every.message] != every.node
    again = ledger.first.row[every.message] != every.row
    due = _due(ledger)
    skips = np.zeros(len(every.row), bool)
    skips[~again] = messages.seq[: ledger.published] != due
    there = ledger.published_at[ledger.dependency]
    early = (there == NEVER) | (there >= ledger.first.row[ledger.dependent])
    tally.violations += int(foreign.sum() + again.sum() + skips.sum() + early.sum())
    rows = [every.row[foreign | again | skips], ledger.first.row[ledger.dependent[early]]]
    wrong = np.concatenate(rows)
    if len(wrong) and tally.comes_first(int(wrong.min()), 0):
        index = int(np.searchsorted(every.row, wrong.min()))
        which = {"foreign": bool(foreign[index]), "again": bool(again[index]), "skips": bool(skips[index])}
        tally.violation(_example(ledger, index, due, **which), int(wrong.min()), 0)


def _due(ledger: Ledger) -> Ints:
    """By published message: the number its source's next message on its topic should have had."""
    stream, seq = ledger.messages.stream[: ledger.published], ledger.messages.seq[: ledger.published]
    order = np.argsort(stream, kind="stable")  # by publication within a stream
    lift = (int(seq.max()) + 1) if len(seq) else 1
    begins = np.diff(stream[order], prepend=-1) != 0
    if lift > 1 << 31 or not len(seq):  # absurd numbers would overflow below
        return _due_slowly(stream, seq)
    lifted = seq[order] + stream[order] * lift
    highest = np.maximum.accumulate(lifted) - stream[order] * lift
    due = np.empty(len(seq), np.int64)
    due[order] = np.where(begins, 0, np.concatenate([[0], highest[:-1]])) + 1
    return due


def _due_slowly(stream: Ints, seq: Ints) -> Ints:
    highest: dict[int, int] = {}
    due = []
    for its, number in zip(stream.tolist(), seq.tolist(), strict=True):
        due.append(highest.get(its, 0) + 1)
        highest[its] = max(highest.get(its, 0), number)
    return np.array(due, np.int64)


def _example(ledger: Ledger, index: int, due: Ints, *, foreign: bool, again: bool, skips: bool) -> Example:
    """The first problem of one publish row, as the reference judge words it."""
    every = ledger.publications
    message = int(every.message[index])
    key = ledger.messages.key(message, ledger.topics)
    taken = At(int(every.node[index]), key, every.moment(index), True)
    if foreign:
        return wording.invention(taken, wording.in_another_name(key[1]))
    if again:
        already = wording.published_already(int(ledger.first.node[message]), ledger.first.moment(message))
        return wording.invention(taken, already)
    if skips:
        return wording.invention(taken, wording.skipped_number((key[0], key[1], int(due[message]))))
    for number in ledger.dependency[ledger.dependent == message].tolist():
        row = int(ledger.published_at[number])
        if row == NEVER or row >= taken.moment.row:
            dependency = ledger.messages.key(number, ledger.topics)
            published = None if row == NEVER else ledger.first.moment(number)
            return wording.invention(taken, wording.early_dependency(dependency, published), dependency)
    raise AssertionError(f"message {message} depends on nothing wrong")
