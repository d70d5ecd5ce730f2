"""Judges `same-content`: a message has one content, wherever it is published or delivered.

The ledger has the content of every message whose publish row has a digest, and a bucket compares its deliver rows with
that. For other messages the first deliver row of the whole run decides: a bucket counts their rows by digest, and the
buckets are compared at the end. Such messages are few: their publisher's journal is missing, or retention removed them.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from antecede.audit import wording
from antecede.audit.report import MessageKey
from antecede.audit.vectorised.ledger import UNKNOWN, Ledger
from antecede.audit.vectorised.tally import Tally
from antecede.audit.wording import At, Moment

if TYPE_CHECKING:
    from antecede.audit.vectorised.survey import Bucket


class Copies(NamedTuple):
    """Deliver rows of one message with one digest: how many, and the first of them."""

    row: int
    time_us: int
    node: int
    digest: int
    rows: int

    def at(self, key: MessageKey) -> At:
        return At(self.node, key, Moment(self.row, self.time_us))


#: By message without a published content: its deliver rows, one entry for each digest.
Contents: TypeAlias = dict[MessageKey, list[Copies]]


def judge_deliveries(tally: Tally, bucket: "Bucket", ledger: Ledger) -> Contents:
    """Compare the deliver rows of a bucket with what was published. Returns those that cannot be compared here."""
    rows = bucket.deliveries
    digest = rows.digest
    known = int(np.count_nonzero(digest != UNKNOWN))
    tally.checked += known
    if not known:
        return {}
    content = np.full(len(bucket.messages), UNKNOWN, np.int64)
    content[: ledger.published] = ledger.content
    expected = content[bucket.message]
    differs = (digest != expected) & (digest != UNKNOWN)
    wrong = np.flatnonzero(differs & (expected != UNKNOWN))
    tally.violations += len(wrong)
    if len(wrong):
        index = int(wrong[np.argmin(rows.row[wrong])])
        message = int(bucket.message[index])
        delivered = At(int(rows.node[index]), bucket.key(message), rows.moment(index))
        tally.violation(wording.two_contents(ledger.content_at(message), delivered), delivered.moment.row)
    return _copies(bucket, np.flatnonzero(differs & (expected == UNKNOWN)))


def judge_publications(tally: Tally, ledger: Ledger, surveyed: Iterable[Contents]) -> None:
    """Add the publish rows, and the deliver rows that buckets could not compare, to the tally of the buckets."""
    every = ledger.publications
    tally.checked += int((every.digest != UNKNOWN).sum())
    wrong = np.flatnonzero((every.digest != UNKNOWN) & (every.digest != ledger.content[every.message]))
    tally.violations += len(wrong)
    if len(wrong):
        index = int(wrong[0])
        message = int(every.message[index])
        key = ledger.messages.key(message, ledger.topics)
        again = At(int(every.node[index]), key, every.moment(index), True)
        tally.violation(wording.two_contents(ledger.content_at(message), again), again.moment.row)
    merged: Contents = {}
    for contents in surveyed:
        for key, copies in contents.items():
            merged.setdefault(key, []).extend(copies)
    for key, copies in merged.items():
        first = min(copies)
        others = [one for one in copies if one.digest != first.digest]
        tally.violations += sum(one.rows for one in others)
        if others and tally.comes_first(min(others).row):
            tally.violation(wording.two_contents(first.at(key), min(others).at(key)), min(others).row)


def _copies(bucket: "Bucket", rows: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Contents:
    """Count these deliver rows by message and digest."""
    found: Contents = {}
    deliveries = bucket.deliveries.take(rows)
    message = bucket.message[rows]
    order = np.lexsort((deliveries.row, deliveries.digest, message))
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(message[order]) != 0) | (np.diff(deliveries.digest[order]) != 0)
    starts = np.flatnonzero(new)
    counts = np.diff(starts, append=len(order))
    for index, count in zip(order[starts].tolist(), counts.tolist(), strict=True):
        row, time_us = deliveries.moment(index)
        copies = Copies(row, time_us, int(deliveries.node[index]), int(deliveries.digest[index]), count)
        found.setdefault(bucket.key(int(message[index])), []).append(copies)
    return found
