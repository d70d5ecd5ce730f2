"""Reads a trace once, row by row, into what the rules need; refuses rows that make no sense.

Rules of this file: it judges nothing. It raises only where a row cannot mean anything (no topic, time running
backwards at a node, a crashed node that acts), never where a protocol did wrong.

Messages get small numbers in the order in which the trace first mentions them, normally that of publication. What a
node *took* is one column-wise list of its publish and deliver rows: about 34 bytes a row, no object a row.
"""

from array import array
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from antecede.audit.report import MessageKey
from antecede.core.errors import LimitError, UsageError
from antecede.trace import Event, Row

#: The causal rule keeps, for each of M messages, the set of those before it as one bit each: at most M²/8 bytes, and
#: half of that when messages are numbered as published. 60,000 messages are then some 240 MB, 450 MB at worst; beyond
#: that a judge in one process is the wrong tool.
MESSAGES_MAX: Final = 60_000

#: The note by which a protocol says of a delivery that it could not be given in order (DESIGN, guarantee 5).
OUT_OF_ORDER: Final = "out_of_order"

_NAMES_A_MESSAGE = frozenset((Event.PUBLISH, Event.DELIVER))
_NAMES_A_TOPIC = frozenset((Event.SUBSCRIBE, Event.UNSUBSCRIBE))
#: What may stand at a node that is down: packets lost on its doorstep, and its own coming and going.
_WHILE_DOWN = frozenset((Event.DROP, Event.CRASH, Event.RECOVER))


class Take(NamedTuple):
    """A node took a message: it published it, or was given it."""

    row: int
    time_us: int
    node: int
    message: int
    published: bool
    tagged: bool

    @property
    def when(self) -> str:
        return f"row {self.row}, time_us {self.time_us}"


class Send(NamedTuple):
    row: int
    time_us: int
    node: int
    peer: int
    message: int


class History:
    """A trace as the rules see it. `add` rows in the order in which things happened."""

    def __init__(self, messages_max: int = MESSAGES_MAX) -> None:
        #: By number: the message's name, its first publish row (None: never published), who wrote that row, and the
        #: dependencies recorded on it.
        self.keys: list[MessageKey] = []
        self.publication: list[Take | None] = []
        self.deps: list[tuple[int, ...]] = []
        self.nodes: set[int] = set()
        #: Nodes that crashed at any time, and those down when the trace ends.
        self.crashed: set[int] = set()
        self.down: set[int] = set()
        #: Subscriptions open when the trace ends, by node: filter, and the row since which it has been open.
        self.subscriptions: dict[int, dict[str, int]] = {}
        self.subscribe_rows = 0
        self.rows = 0
        self.deliveries = 0
        self.tagged = 0
        self._messages_max = messages_max
        self._numbers: dict[MessageKey, int] = {}
        self._latest: dict[int, tuple[int, int]] = {}
        self._takes = (array("q"), array("q"), array("q"), array("q"), array("b"), array("b"))
        self._sends = (array("q"), array("q"), array("q"), array("q"), array("q"))

    def add(self, row: Row) -> None:
        self._check(row)
        match row.event:
            case Event.PUBLISH | Event.DELIVER:
                self._take(row)
            case Event.SEND if row.source != -1:  # the others are control packets
                message = self._number((row.topic, row.source, row.seq))
                _append(self._sends, (self.rows, row.time_us, row.node, row.peer, message))
            case Event.SUBSCRIBE:
                self.subscribe_rows += 1
                self.subscriptions.setdefault(row.node, {}).setdefault(row.topic, self.rows)
            case Event.UNSUBSCRIBE:
                self.subscriptions.get(row.node, {}).pop(row.topic, None)
            case Event.CRASH:
                self.crashed.add(row.node)
                self.down.add(row.node)
            case Event.RECOVER:
                self.crashed.add(row.node)  # a trace may begin after the crash
                self.down.discard(row.node)
        self.rows += 1

    def takes(self) -> Iterator[Take]:
        """Every publish and deliver row, in order."""
        for row, time_us, node, message, published, tagged in zip(*self._takes, strict=True):
            yield Take(row, time_us, node, message, bool(published), bool(tagged))

    def sends(self) -> Iterator[Send]:
        for values in zip(*self._sends, strict=True):
            yield Send(*values)

    def name(self, message: int) -> str:
        topic, source, seq = self.keys[message]
        return f"{topic}/{source}.{seq}"

    def topic(self, message: int) -> str:
        return self.keys[message][0]

    def _take(self, row: Row) -> None:
        message = self._number((row.topic, row.source, row.seq))
        published = row.event is Event.PUBLISH
        tagged = not published and row.note == OUT_OF_ORDER
        take = Take(self.rows, row.time_us, row.node, message, published, tagged)
        _append(self._takes, take)
        self.deliveries += not published
        self.tagged += tagged
        if published and self.publication[message] is None:
            self.publication[message] = take
            self.deps[message] = tuple(self._number(dependency) for dependency in row.deps)

    def _number(self, key: MessageKey) -> int:
        number = self._numbers.setdefault(key, len(self.keys))
        if number == len(self.keys):
            if number >= self._messages_max:
                raise LimitError(
                    "the number of messages in the trace",
                    number + 1,
                    self._messages_max,
                    "use the Spark audit (`antecede audit`), or judge a shorter run",
                )
            self.keys.append(key)
            self.publication.append(None)
            self.deps.append(())
        return number

    def _check(self, row: Row) -> None:
        if row.node < 0:
            self._refuse(f"a {_word(row)} row at node {row.node}", "node numbers count from 0")
        time_us, at_row = self._latest.get(row.node, (row.time_us, self.rows))
        if row.time_us < time_us:
            self._refuse(
                f"time at node {row.node} goes backwards, from {time_us} (row {at_row}) to {row.time_us}",
                "give the rows of a node in the order in which they happened",
            )
        self._latest[row.node] = (row.time_us, self.rows)
        self.nodes.add(row.node)
        if row.node in self.down and row.event not in _WHILE_DOWN:
            self._refuse(
                f"a {_word(row)} row at node {row.node}, which has crashed and not recovered",
                "record a recover row when a node comes back",
            )
        if row.event in _NAMES_A_TOPIC and not row.topic:
            self._refuse(f"a {_word(row)} row without a topic", "record the topic or filter")
        is_message = row.event in _NAMES_A_MESSAGE or (row.event is Event.SEND and row.source != -1)
        if is_message:
            self._check_message(_word(row), (row.topic, row.source, row.seq))
        if is_message and row.event is Event.SEND and row.peer < 0:
            self._refuse("a send row without a peer", "record where the packet goes")
        for dependency in row.deps:
            self._check_message("dependency on a " + _word(row), dependency)

    def _check_message(self, word: str, key: MessageKey) -> None:
        topic, source, seq = key
        if not topic or source < 0 or seq < 1:
            what = "topic" if not topic else f"source (it says {source})" if source < 0 else f"seq (it says {seq})"
            self._refuse(f"a {word} row without a {what}", "a message is named by topic, source and seq (from 1)")

    def _refuse(self, problem: str, remedy: str) -> None:
        raise UsageError("trace row", self.rows, problem, remedy)


def read_history(rows: Iterable[Row], messages_max: int = MESSAGES_MAX) -> History:
    history = History(messages_max)
    for row in rows:
        history.add(row)
    return history


def _append(columns: tuple["array[int]", ...], values: tuple[int, ...]) -> None:
    for column, value in zip(columns, values, strict=True):
        column.append(value)


def _word(row: Row) -> str:
    return row.event.name.lower()
