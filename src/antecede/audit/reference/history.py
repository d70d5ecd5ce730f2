"""Reads a trace once, row by row, into what the rules need. It judges nothing.

A node *takes* a message when it publishes or delivers it. All takes are kept in columns, about 42 bytes each, without
an object per row. Messages are numbered in the order in which the trace first mentions them, normally that of
publication.
"""

from array import array
from collections.abc import Iterable, Iterator
from itertools import starmap
from typing import Final, NamedTuple

from antecede.audit.reference.well_formed import WellFormed, names_a_message_sent
from antecede.audit.report import MessageKey
from antecede.audit.rules import GOES_DOWN, INCOMPLETE, TAGS
from antecede.audit.wording import At, Moment
from antecede.core.errors import LimitError
from antecede.trace import Event, Row

#: The causal rule keeps, for each of M messages, one bit for each message before it: at most M²/8 bytes, and half of
#: that if messages are numbered as published. 60,000 messages take some 240 MB, 450 MB at worst. Longer runs need the
#: vectorised judge.
MESSAGES_MAX: Final = 60_000


class Take(NamedTuple):
    """A publish or deliver row: the node takes the message."""

    row: int
    time_us: int
    node: int
    message: int
    published: bool
    tagged: bool
    #: Tagged as delivered without messages that it depends on.
    incomplete: bool
    #: Of the payload; −1: unknown.
    digest: int

    @property
    def moment(self) -> Moment:
        return Moment(self.row, self.time_us)


class Send(NamedTuple):
    """A send row that names a message."""

    row: int
    time_us: int
    node: int
    peer: int
    message: int

    @property
    def crossing(self) -> tuple[int, int, int]:
        return self.message, self.node, self.peer

    @property
    def moment(self) -> Moment:
        return Moment(self.row, self.time_us)


class History:
    """A trace as the rules see it. `add` rows in the order in which things happened."""

    def __init__(self, messages_max: int = MESSAGES_MAX) -> None:
        #: By number: the message's name, its first publish row (None: never published), and the dependencies
        #: recorded there.
        self.keys: list[MessageKey] = []
        self.publication: list[Take | None] = []
        self.deps: list[tuple[int, ...]] = []
        self.nodes: set[int] = set()
        #: Nodes that crashed or stopped at any time, and those down when the trace ends.
        self.went_down: set[int] = set()
        self.down: set[int] = set()
        #: Subscriptions open when the trace ends, by node: filter, and the row since which it has been open.
        self.subscriptions: dict[int, dict[str, int]] = {}
        self.subscribe_rows = 0
        self.rows = 0
        self.deliveries = 0
        self.tagged = 0
        self._messages_max = messages_max
        self._numbers: dict[MessageKey, int] = {}
        self._well_formed = WellFormed()
        self._takes = (array("q"), array("q"), array("q"), array("q"), array("b"), array("b"), array("b"), array("q"))
        self._sends = (array("q"), array("q"), array("q"), array("q"), array("q"))

    def add(self, row: Row) -> None:
        self._well_formed.check(row)
        self.nodes.add(row.node)
        match row.event:
            case Event.PUBLISH | Event.DELIVER:
                self._take(row)
            case Event.SEND if names_a_message_sent(row):
                message = self._number((row.topic, row.source, row.seq))
                _append(self._sends, (self.rows, row.time_us, row.node, row.peer, message))
            case Event.SUBSCRIBE:
                self.subscribe_rows += 1
                self.subscriptions.setdefault(row.node, {}).setdefault(row.topic, self.rows)
            case Event.UNSUBSCRIBE:
                self.subscriptions.get(row.node, {}).pop(row.topic, None)
            case event if event in GOES_DOWN:
                self.went_down.add(row.node)
                self.down.add(row.node)
            case Event.RECOVER:
                self.went_down.add(row.node)  # a trace may begin while the node is down
                self.down.discard(row.node)
        self.rows += 1

    def takes(self) -> Iterator[Take]:
        """Every publish and deliver row, in order."""
        return starmap(Take, zip(*self._takes, strict=True))

    def sends(self) -> Iterator[Send]:
        """Every send row that names a message, in order."""
        return starmap(Send, zip(*self._sends, strict=True))

    def at(self, take: Take) -> At:
        """The take as examples word it."""
        return At(take.node, self.keys[take.message], take.moment, take.published)

    def topic(self, message: int) -> str:
        return self.keys[message][0]

    def _take(self, row: Row) -> None:
        message = self._number((row.topic, row.source, row.seq))
        published = row.event is Event.PUBLISH
        tagged = not published and row.note in TAGS
        incomplete = tagged and row.note == INCOMPLETE
        take = Take(self.rows, row.time_us, row.node, message, published, tagged, incomplete, row.digest)
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
                    "use the vectorised judge (`antecede audit`), or judge a shorter run",
                )
            self.keys.append(key)
            self.publication.append(None)
            self.deps.append(())
        return number


def read_history(rows: Iterable[Row], messages_max: int = MESSAGES_MAX) -> History:
    history = History(messages_max)
    for row in rows:
        history.add(row)
    return history


def _append(columns: tuple["array[int]", ...], values: tuple[int, ...]) -> None:
    for column, value in zip(columns, values, strict=True):
        column.append(value)
