"""Judges `tree-edges-once` in a bucket: a message crosses an edge, from one node to another, at most once."""

from typing import TYPE_CHECKING

import numpy as np

from antecede.audit import wording
from antecede.audit.report import MessageKey
from antecede.audit.vectorised.columns import Bools, Columns, Ints
from antecede.audit.vectorised.ledger import NEVER
from antecede.audit.vectorised.tally import Tally
from antecede.trace import Event

if TYPE_CHECKING:
    from antecede.audit.vectorised.survey import Bucket


def names_a_message_sent(packets: Columns) -> Bools:
    """Which rows are send rows of a message, as opposed to control packets and to receive rows."""
    return np.asarray((packets.event == int(Event.SEND)) & (packets.source != -1))


def judge_edges(tally: Tally | None, mentions: dict[MessageKey, int], bucket: "Bucket", published_at: Ints) -> None:
    """Count crossings, and add to `mentions` the messages that were sent before they were published."""
    packets = bucket.packets
    sends = packets.take(names_a_message_sent(packets))
    if not sends.size:
        return
    message = bucket.messages.find(sends.topic, sends.source, sends.seq)
    at = published_at[message]
    early = np.flatnonzero((at == NEVER) | (at > sends.row))
    for index in early.tolist():
        key = bucket.key(int(message[index]))
        mentions[key] = min(int(sends.row[index]), mentions.get(key, int(sends.row[index])))
    if tally is None:
        return
    tally.checked += sends.size
    first, again = _crossings(sends, message)
    tally.violations += len(again)
    if len(again):
        index = int(np.argmin(sends.row[again]))
        before, after = (sends.moment(int(rows[index])) for rows in (first, again))
        node, peer = int(sends.node[again[index]]), int(sends.peer[again[index]])
        key = bucket.key(int(message[again[index]]))
        tally.violation(wording.crossed_twice(key, node, peer, before, after), after.row)


def _crossings(sends: Columns, message: Ints) -> tuple[Ints, Ints]:
    """For each row that repeats a crossing: the index of the row that made it first, and its own index."""
    order = np.lexsort((sends.row, message, sends.peer, sends.node))
    names = np.stack([sends.node[order], sends.peer[order], message[order]])
    new = np.ones(len(order), bool)
    new[1:] = (names[:, 1:] != names[:, :-1]).any(axis=0)
    begin = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    return order[begin[~new]], order[~new]
