"""Rule `no-invention` for publish rows: numbers count 1, 2, 3, …, in one's own name, after what was there.

Publish rows are few beside deliveries, so they are judged once a run, and one by one where anything is wrong.
"""

import numpy as np

from antecede.audit.report import Example, MessageKey
from antecede.audit.vectorised.columns import Ints
from antecede.audit.vectorised.ledger import NEVER, Ledger
from antecede.audit.vectorised.tally import Offence, Tally


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
        place = int(np.searchsorted(every.row, wrong.min()))
        _describe(tally, ledger, place, due, bool(foreign[place]), bool(again[place]), bool(skips[place]))


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


def _describe(tally: Tally, ledger: Ledger, place: int, due: Ints, foreign: bool, again: bool, skips: bool) -> None:
    """The first thing that is wrong with a publish row, as `audit` would say it."""
    every = ledger.publications
    message, row, node = int(every.message[place]), int(every.row[place]), int(every.node[place])
    key = ledger.messages.key(message, ledger.topics)
    topic, source, _ = key
    about: tuple[MessageKey, ...] = (key,)
    if foreign:
        how = f"in the name of node {source}"
    elif again:
        first = ledger.first
        when = f"row {first.row[message]}, time_us {first.time[message]}"
        how = f"which was already published by node {first.node[message]} ({when})"
    elif skips:
        how = f"where {topic}/{source}.{due[message]} was due: numbers count from 1 without holes"
    else:
        how, dependency = _early_dependency(ledger, message)
        about = (ledger.messages.key(dependency, ledger.topics), key)
    example = Example(
        words=f"node {node} published {_name(key)} (row {row}, time_us {every.time[place]}), {how}",
        nodes=(node,),
        messages=about,
        rows=(row,),
    )
    tally.offence(Offence(order=(row, 0), example=example))


def _early_dependency(ledger: Ledger, message: int) -> tuple[str, int]:
    row = ledger.first.row[message]
    for dependency in ledger.dependency[ledger.dependent == message].tolist():
        there = ledger.published_at[dependency]
        if there == NEVER or there >= row:
            state = "was never published"
            if there != NEVER:
                when = f"row {there}, time_us {ledger.first.time[dependency]}"
                state = f"was not published before ({when})"
            return f"depending on {_name(ledger.messages.key(dependency, ledger.topics))}, which {state}", dependency
    raise AssertionError(f"message {message} depends on nothing wrong")


def _name(key: MessageKey) -> str:
    return f"{key[0]}/{key[1]}.{key[2]}"
