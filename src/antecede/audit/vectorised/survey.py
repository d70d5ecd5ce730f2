"""Judges one bucket of a run by all rules that need its nodes alone, and gathers what the run needs for the others.

A bucket hands on what it cannot judge: edges of the graph that only its publishers' deliveries show (`extra`), which
messages its nodes delivered (`witness`) and lack (`missing`), and messages met before they were published (`mentions`,
by which examples number messages as the reference judge does).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np

from antecede.audit import wording
from antecede.audit.report import MessageKey
from antecede.audit.vectorised.causal import CausalJudge
from antecede.audit.vectorised.columns import Columns, Ints, Topics
from antecede.audit.vectorised.content import Contents, judge_deliveries
from antecede.audit.vectorised.edges import judge_edges, names_a_message_sent
from antecede.audit.vectorised.ledger import NEVER, Ledger, steady_since
from antecede.audit.vectorised.messages import Messages, distinct
from antecede.audit.vectorised.nodes import Node, Streams, make_node, out_of_turn
from antecede.audit.vectorised.refusals import Refusal, first_refusal, plainly_fine
from antecede.audit.vectorised.tally import Tally
from antecede.audit.wording import At


class Missing(NamedTuple):
    """The published messages that some nodes were owed and never took: how many such nodes, and the lowest of them."""

    message: Ints
    nodes: Ints
    lowest: Ints


class Survey(msgspec.Struct, kw_only=True):
    """The findings of one bucket, with NumPy arrays. It travels by pickle; the driver holds those of all buckets."""

    refusal: Refusal | None = None
    tallies: dict[str, Tally] = {}
    nodes: int = 0
    deliveries: int = 0
    tagged: int = 0
    #: By published message: the first row at which a node up at the end, other than the publisher, delivered it.
    witness: Any = None
    missing: "Missing | None" = None
    #: Edges (from, to) of the graph; `strangers` names the messages of `from` that the ledger does not have.
    extra: Any = None
    strangers: list[MessageKey] = []
    #: Nodes with an edge of the recorded graph out of order.
    doubtful: set[int] = set()
    #: Deliver rows of messages whose publish row has no digest, by digest.
    contents: Contents = {}
    #: By name: the lowest row of this bucket that names a message before it was published.
    mentions: dict[MessageKey, int] = {}

    def causal(self) -> "CausalSoFar":
        return CausalSoFar(self.doubtful, self.tallies["causal"].checked)


class CausalSoFar(NamedTuple):
    """What the causal rule need not find again if the graph turns out to be incomplete."""

    #: The nodes that must be judged again in any case.
    doubtful: set[int]
    checked: int


class Bucket(NamedTuple):
    """All rows of some nodes as arrays; deliveries are sorted by node and row."""

    nodes: list[int]
    deliveries: Columns
    packets: Columns
    topics: Topics
    #: The messages of the ledger, and those that only these rows name.
    messages: Messages
    #: By deliver row: its message.
    message: Ints

    def each(self, ledger: Ledger) -> Iterator[Node]:
        """Every node with its deliveries."""
        rows = self.deliveries
        bounds = np.searchsorted(rows.node, [[node, node + 1] for node in self.nodes]).reshape(-1, 2)
        for node, (begin, end) in zip(self.nodes, bounds.tolist(), strict=True):
            yield make_node(
                node,
                rows.row[begin:end],
                rows.time[begin:end],
                self.message[begin:end],
                rows.tagged[begin:end],
                rows.incomplete[begin:end],
                ledger.published_by(node),
                len(self.messages),
            )

    def key(self, message: int) -> MessageKey:
        return self.messages.key(message, self.topics)


def make_bucket(ledger: Ledger, deliveries: Columns, packets: Columns, topics: Topics, nodes: list[int]) -> Bucket:
    """Number the messages of these rows. `nodes`: the nodes of the bucket that have rows or are owed something."""
    sent = packets.take(names_a_message_sent(packets))
    message = ledger.messages.find(deliveries.topic, deliveries.source, deliveries.seq)
    named = ledger.messages.find(sent.topic, sent.source, sent.seq)
    messages = ledger.messages
    if (message < 0).any() or (named < 0).any():
        unknown = [
            np.concatenate([own[message < 0], other[named < 0]])
            for own, other in zip(
                (deliveries.topic, deliveries.source, deliveries.seq), (sent.topic, sent.source, sent.seq), strict=True
            )
        ]
        new = distinct(*unknown)
        messages = messages.extended(*(column[new] for column in unknown))
        strange = np.flatnonzero(message < 0)
        message[strange] = messages.find(deliveries.topic[strange], deliveries.source[strange], deliveries.seq[strange])
    return Bucket(nodes, deliveries, packets, topics, messages, message)


def refuse(ledger: Ledger, deliveries: Columns, packets: Columns, bucket: int, buckets: int) -> Refusal | None:
    """The first row of this bucket that cannot be judged."""
    if plainly_fine(ledger.events, deliveries, packets, malformed=ledger.malformed):
        return None
    here = np.flatnonzero(ledger.events.node % buckets == bucket)
    index = np.full(ledger.events.size, -1)
    index[here] = np.arange(len(here))
    named = ledger.named
    at = index[named.at]
    named = type(named)(at[at >= 0], *(column[at >= 0] for column in named[1:]))
    parts = (ledger.events.take(here), deliveries, packets)
    rows = Columns(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return first_refusal(rows, named)


def survey(bucket: Bucket, ledger: Ledger, causal: CausalJudge | None, rules: frozenset[str]) -> Survey:
    """Judge a bucket without refused rows."""
    found = Survey(
        nodes=len(bucket.nodes),
        deliveries=bucket.deliveries.size,
        tagged=int(bucket.deliveries.tagged.sum()),
        tallies={rule: Tally() for rule in rules},
    )
    published = ledger.published
    rows_of = bucket.deliveries.row.dtype
    published_at = np.full(len(bucket.messages), NEVER, rows_of)
    published_at[: len(ledger.messages)] = ledger.published_at
    streams = _streams(bucket.messages)
    witness = np.full(published, NEVER, rows_of)
    lacking, lowest = np.zeros(published, np.int32), np.zeros(published, np.int64)
    for node in bucket.each(ledger):
        if "exactly-once" in rules:
            _exactly_once(found.tallies["exactly-once"], bucket, node)
        if "fifo" in rules:
            _fifo(found.tallies["fifo"], bucket, node, streams)
        _invented(found, bucket, node, published_at, ledger)
        if "complete" in rules or "agreement" in rules:
            if node.node not in ledger.down:
                seen = node.delivered[:published].copy()
                seen[ledger.first_published_by(node.node)] = NEVER
                np.minimum(_unsigned(witness), _unsigned(seen), out=_unsigned(witness))
            lacks = _lacks(ledger, node)
            lowest[lacks] = np.where(lacking[lacks], np.minimum(lowest[lacks], node.node), node.node)
            lacking[lacks] += 1
        if causal is not None:
            causal.look_at(node)
    found.witness = witness
    message = np.flatnonzero(lacking)
    found.missing = Missing(message, lacking[message], lowest[message]) if len(message) else None
    if causal is not None:
        found.tallies["causal"] = causal.result()
        found.extra, found.strangers = causal.extra(bucket)
        found.doubtful = causal.doubtful
    if "same-content" in rules:
        found.contents = judge_deliveries(found.tallies["same-content"], bucket, ledger)
    judge_edges(found.tallies.get("tree-edges-once"), found.mentions, bucket, published_at)
    return found


# -- rules of one node ------------------------------------------------------------------------------------------------


def _exactly_once(tally: Tally, bucket: Bucket, node: Node) -> None:
    tally.checked += len(node.row)
    again = node.again
    if not again.any():
        return
    tally.violations += int(again.sum())
    at = int(np.argmax(again))
    row = int(node.row[at])
    if tally.comes_first(row):
        message = int(node.message[at])
        first = int(np.argmax(node.message == message))
        tally.violation(wording.repeated(node.node, bucket.key(message), node.moment(first), node.moment(at)), row)


def _fifo(tally: Tally, bucket: Bucket, node: Node, streams: Streams) -> None:
    checked, late = out_of_turn(node, streams)
    tally.checked += checked
    if not len(late):
        return
    tally.violations += len(late)
    rows = node.delivered_in_order()
    message = int(late[np.argmin(rows[late])])
    row = int(rows[message])
    if tally.comes_first(row):
        messages = bucket.messages
        earlier = np.flatnonzero((messages.stream == messages.stream[message]) & (rows != NEVER) & (rows < row))
        before = int(earlier[np.argmax(messages.seq[earlier])])
        example = wording.out_of_turn(_at(bucket, node, before, int(rows[before])), _at(bucket, node, message, row))
        tally.violation(example, row)


def _invented(found: Survey, bucket: Bucket, node: Node, published_at: Ints, ledger: Ledger) -> None:
    tally = found.tallies.get("no-invention", Tally())
    tally.checked += len(node.row)
    wrong = _unsigned(published_at.take(node.message)) > _unsigned(node.row)
    if not wrong.any():
        return
    tally.violations += int(wrong.sum())
    for index in np.flatnonzero(wrong & ~node.again).tolist():
        key = bucket.key(int(node.message[index]))
        found.mentions[key] = min(int(node.row[index]), found.mentions.get(key, int(node.row[index])))
    index = int(np.argmax(wrong))
    row, message = int(node.row[index]), int(node.message[index])
    if tally.comes_first(row, 0):
        problem = wording.never_published()
        if published_at[message] != NEVER:
            problem = wording.published_later(ledger.first.moment(message))
        tally.violation(wording.invention(_at(bucket, node, message, row), problem), row, 0)


def _lacks(ledger: Ledger, node: Node) -> Ints:
    """The published messages that the node was owed and never took."""
    published = ledger.published
    never = node.taken[:published] == NEVER
    since = steady_since(ledger, node.node) if never.any() else None
    if since is None:
        return np.zeros(0, np.int64)
    return np.flatnonzero(never & (since[ledger.messages.topic[:published]] < ledger.first.row))


def _at(bucket: Bucket, node: Node, message: int, row: int) -> At:
    return At(node.node, bucket.key(message), node.moment(int(np.searchsorted(node.row, row))))


def _streams(messages: Messages) -> Streams:
    order = np.lexsort((messages.seq, messages.stream))
    stream = messages.stream[order]
    return Streams(order, stream, stream[1:] != stream[:-1])


def _unsigned(rows: Ints) -> Ints:
    """The same rows as unsigned numbers: NEVER is then higher than all of them."""
    return rows.view(np.dtype(f"u{rows.dtype.itemsize}"))
