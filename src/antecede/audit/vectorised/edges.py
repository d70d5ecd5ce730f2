"""Rule `tree-edges-once` in a bucket: a message crosses an edge, from one node to another, at most once."""

from typing import TYPE_CHECKING

import numpy as np

from antecede.audit.report import Example, MessageKey
from antecede.audit.vectorised.columns import Bools, Columns, Ints
from antecede.audit.vectorised.ledger import NEVER
from antecede.audit.vectorised.tally import Offence, Tally
from antecede.trace import Event

if TYPE_CHECKING:
    from antecede.audit.vectorised.survey import Bucket


def names_a_message_sent(packets: Columns) -> Bools:
    """Send rows of a message, as opposed to control packets, and to what arrives: nobody checks its name."""
    return np.asarray((packets.event == int(Event.SEND)) & (packets.source != -1))


def judge_edges(tally: Tally | None, mentions: dict[MessageKey, int], bucket: "Bucket", published_at: Ints) -> None:
    """Count crossings, and note messages that were sent before they were published."""
    packets = bucket.packets
    sends = packets.take(names_a_message_sent(packets))
    if not sends.size:
        return
    message = bucket.messages.find(sends.topic, sends.source, sends.seq)
    at = published_at[message]
    early = np.flatnonzero((at == NEVER) | (at > sends.row))
    for place in early.tolist():
        key = bucket.key(int(message[place]))
        mentions[key] = min(int(sends.row[place]), mentions.get(key, int(sends.row[place])))
    if tally is None:
        return
    tally.checked += sends.size
    first, again = _crossings(sends, message)
    tally.violations += len(again)
    if len(again):
        place = int(np.argmin(sends.row[again]))
        tally.offence(_offence(bucket, sends, int(message[again[place]]), int(first[place]), int(again[place])))


def _crossings(sends: Columns, message: Ints) -> tuple[Ints, Ints]:
    """The rows (by place) that repeat a crossing, and for each the row that made it first."""
    order = np.lexsort((sends.row, message, sends.peer, sends.node))
    names = np.stack([sends.node[order], sends.peer[order], message[order]])
    new = np.ones(len(order), bool)
    new[1:] = (names[:, 1:] != names[:, :-1]).any(axis=0)
    begin = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    return order[begin[~new]], order[~new]


def _offence(bucket: "Bucket", sends: Columns, message: int, first: int, again: int) -> Offence:
    node, peer = int(sends.node[again]), int(sends.peer[again])
    rows = int(sends.row[first]), int(sends.row[again])
    example = Example(
        words=f"{bucket.name(message)} crossed the edge from node {node} to node {peer} twice, "
        f"first at row {rows[0]}, time_us {sends.time[first]}, again at row {rows[1]}, time_us {sends.time[again]}",
        nodes=(node, peer),
        messages=(bucket.key(message),),
        rows=rows,
    )
    return Offence(order=(rows[1],), example=example)
