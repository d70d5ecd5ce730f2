"""Gathers what every bucket must know of its run, from the few rows that say it: publications, subscriptions, downtime.

Messages are numbered: first the published ones, in the order of their first publish rows; then those that are only
named as dependencies. A second publish row of a message is kept as a take of its node, which has the message from then
on; rule `no-invention` reports it.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from antecede.audit.filters import matches
from antecede.audit.rules import GOES_DOWN
from antecede.audit.vectorised.columns import Dependencies, Ints, Topics, columns, dependencies
from antecede.audit.vectorised.messages import Messages, distinct
from antecede.audit.vectorised.refusals import first_refusal
from antecede.audit.wording import At, Moment
from antecede.trace import Event

#: A row that does not exist, and a row after all others.
NEVER: Final = -1
#: The digest of an unknown content.
UNKNOWN: Final = -1
LATE: Final = np.iinfo(np.int64).max


class Publications(NamedTuple):
    """Publish rows in order: row, time, node, message and digest of the payload."""

    row: Ints
    time: Ints
    node: Ints
    message: Ints
    digest: Ints

    def moment(self, index: int) -> Moment:
        return Moment(int(self.row[index]), int(self.time[index]))


class Ledger:
    """The facts of one run that all its buckets share."""

    def __init__(self, table: pa.Table, broadcast_to: Collection[int] = ()) -> None:
        self.topics = Topics()
        self.events = columns(table, self.topics)
        self.named = dependencies(table, self.topics)
        #: Whether some of these rows cannot be judged. A bucket, which has all rows of a node, tells which and why.
        self.malformed = first_refusal(self.events, self.named) is not None
        self.broadcast_to = frozenset(broadcast_to)
        #: The nodes of these rows.
        self.seen: set[int] = set(np.unique(self.events.node).tolist())
        #: Graphs made from this ledger (`verdict.recorded_graph`).
        self.graphs: dict[bool, Any] = {}
        #: Nodes that crashed or stopped at any time, and those down when the trace ends.
        self.went_down: set[int] = set()
        self.down: set[int] = set()
        #: Subscriptions open when the trace ends, by node: filter, and the row since which it has been open.
        self.subscriptions: dict[int, dict[str, int]] = {}
        #: The filters with wildcards among them, by node.
        self._wild: dict[int, list[str]] = {}
        self._taken_by: dict[str, Ints] = {}
        self.subscribe_rows = 0
        self.messages = Messages(*(np.zeros(0, np.int64),) * 3)
        self.published_at: Ints = np.zeros(0, np.int64)
        if not self.malformed:
            self._read_membership()
            self._read_publications(self.named)

    @property
    def published(self) -> int:
        """The number of published messages; they have the lowest numbers."""
        return len(self.first.row)

    def since(self, node: int, topic: str) -> int | None:
        """The row since which `node` subscribes to `topic` until the end; None if it does not."""
        opened = self.subscriptions.get(node, {})
        since = [opened[topic]] if topic in opened else []
        since += [opened[pattern] for pattern in self._wild.get(node, ()) if matches(pattern, topic)]
        if node in self.broadcast_to:
            since.append(-1)
        return min(since) if since else None

    def wild(self, node: int) -> bool:
        """Does `node` subscribe with wildcards?"""
        return bool(self._wild.get(node))

    def taken_by(self, pattern: str) -> Ints:
        """The topics that a filter takes."""
        found = self._taken_by.get(pattern)
        if found is None:
            codes = [self.topics.code(pattern)]
            if _is_wild(pattern):
                codes = [code for code, name in enumerate(self.topics.names) if matches(pattern, name)]
            found = self._taken_by[pattern] = np.array(codes, np.int64)
        return found

    def published_by(self, node: int) -> tuple[Ints, Ints]:
        """Rows and messages of the node's publish rows, in order."""
        return self._published_by.get(node, self._nothing)

    def first_published_by(self, node: int) -> Ints:
        """Messages whose first publish row is at `node`, in order."""
        row, message = self.published_by(node)
        return np.asarray(message[self.first.row[message] == row])

    def content_at(self, message: int) -> At:
        """The publish row that decides the content of a message."""
        index = int(self._content_row[message])
        key = self.messages.key(message, self.topics)
        return At(int(self.publications.node[index]), key, self.publications.moment(index), True)

    def add_strangers(self, keys: Sequence[tuple[str, int, int]]) -> None:
        """Number messages that only deliver rows name, after all others."""
        topic, source, seq = ([self.topics.code(key[0]) for key in keys], [k[1] for k in keys], [k[2] for k in keys])
        self.messages = self.messages.extended(*(np.array(column, np.int64) for column in (topic, source, seq)))
        self.published_at = np.append(self.published_at, np.full(len(keys), NEVER, np.int64))
        self.graphs.clear()
        self._taken_by.clear()

    # -- reading ------------------------------------------------------------------------------------------------

    def _read_membership(self) -> None:
        events = self.events
        for at in np.flatnonzero(events.event != int(Event.PUBLISH)).tolist():
            node, row = int(events.node[at]), int(events.row[at])
            match Event(int(events.event[at])):
                case Event.SUBSCRIBE:
                    self.subscribe_rows += 1
                    topic = self.topics.names[int(events.topic[at])]
                    self.subscriptions.setdefault(node, {}).setdefault(topic, row)
                case Event.UNSUBSCRIBE:
                    self.subscriptions.get(node, {}).pop(self.topics.names[int(events.topic[at])], None)
                case event if event in GOES_DOWN:
                    self.went_down.add(node)
                    self.down.add(node)
                case Event.RECOVER:
                    self.went_down.add(node)  # a trace may begin while the node is down
                    self.down.discard(node)
        for node, opened in self.subscriptions.items():
            self._wild[node] = list(filter(_is_wild, opened))

    def _read_publications(self, named: Dependencies) -> None:
        is_publish = self.events.event == int(Event.PUBLISH)
        rows = self.events.take(is_publish)
        firsts = distinct(rows.topic, rows.source, rows.seq)
        messages = Messages(rows.topic[firsts], rows.source[firsts], rows.seq[firsts])
        number = messages.find(rows.topic, rows.source, rows.seq)
        #: Every publish row, and the first of each message.
        self.publications = Publications(rows.row, rows.time, rows.node, number, rows.digest)
        self.first = Publications(
            rows.row[firsts], rows.time[firsts], rows.node[firsts], np.arange(len(firsts)), rows.digest[firsts]
        )
        # Of several publish rows, the first with a digest decides the content.
        known = np.flatnonzero(rows.digest != UNKNOWN)[::-1]
        self._content_row = np.full(len(firsts), -1, np.int64)
        self._content_row[number[known]] = known
        #: By published message: the digest of its content, or UNKNOWN.
        self.content: Ints = np.where(self._content_row < 0, UNKNOWN, rows.digest[self._content_row])

        by_node = np.argsort(rows.node, kind="stable")
        bounds = np.flatnonzero(np.diff(rows.node[by_node], prepend=-2, append=-2))
        self._nothing = (rows.row[:0], number[:0])
        self._published_by = {
            int(rows.node[by_node[begin]]): (rows.row[by_node[begin:end]], number[by_node[begin:end]])
            for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        }

        # Only the dependencies of a message's first publish row count.
        index_of = np.full(len(is_publish), -1)
        index_of[np.flatnonzero(is_publish)[firsts]] = np.arange(len(firsts))
        dependent = index_of[named.at]
        named = Dependencies(*[column[dependent >= 0] for column in named])
        self.dependent: Ints = dependent[dependent >= 0]
        found = messages.find(named.topic, named.source, named.seq)
        strangers = Dependencies(*[column[found < 0] for column in named])
        new = distinct(strangers.topic, strangers.source, strangers.seq)
        self.messages = messages.extended(strangers.topic[new], strangers.source[new], strangers.seq[new])
        if len(new):
            found = self.messages.find(named.topic, named.source, named.seq)
        #: `dependent[i]` names `dependency[i]`, in the order of rows and then of the list.
        self.dependency: Ints = found
        #: By message: its first publish row, or NEVER.
        self.published_at = np.full(len(self.messages), NEVER, np.int64)
        self.published_at[: len(firsts)] = self.first.row


def steady_since(ledger: Ledger, node: int) -> Ints | None:
    """By topic: the row since which `node` subscribes to it until the end, or LATE. None: it subscribes to nothing."""
    if node in ledger.down or not (ledger.subscriptions.get(node) or node in ledger.broadcast_to):
        return None
    since = np.full(len(ledger.topics.names), -1 if node in ledger.broadcast_to else LATE, np.int64)
    for pattern, row in ledger.subscriptions.get(node, {}).items():
        topics = ledger.taken_by(pattern)
        since[topics] = np.minimum(since[topics], row)
    return since


def _is_wild(pattern: str) -> bool:
    return "+" in pattern or "#" in pattern
