"""Refuses rows that cannot mean anything, by number: a verdict on such a trace would be a guess.

Rules of this file: it refuses what contradicts the schema or itself (no topic, time running backwards at a node, a
crashed node that acts), never what a protocol did wrong; that is what the rules are for.
"""

from typing import NoReturn

from antecede.audit.report import MessageKey
from antecede.core.errors import UsageError
from antecede.trace import Event, Row

_NAMES_A_MESSAGE = frozenset((Event.PUBLISH, Event.DELIVER))
_NAMES_A_TOPIC = frozenset((Event.SUBSCRIBE, Event.UNSUBSCRIBE))
#: What may stand at a node that is down: packets lost on its doorstep, and its own coming and going.
_WHILE_DOWN = frozenset((Event.DROP, Event.CRASH, Event.RECOVER))


class WellFormed:
    """Looks at every row once, in order, and raises `UsageError` at the first that makes no sense."""

    def __init__(self) -> None:
        self._row = -1
        #: By node: its latest time, and the row that said so.
        self._latest: dict[int, tuple[int, int]] = {}
        #: Nodes that are down, and the row since which they are.
        self._down: dict[int, int] = {}

    def check(self, row: Row) -> None:
        self._row += 1
        self._check_node(row)
        if row.event in _NAMES_A_TOPIC and not row.topic:
            self._refuse(f"{_a(row)} without a topic", "record the topic or filter")
        if row.event in _NAMES_A_MESSAGE or names_a_message_sent(row):
            self._check_message(row, (row.topic, row.source, row.seq))
        if names_a_message_sent(row) and row.peer < 0:
            self._refuse(f"{_a(row)} without a peer", "record where the packet goes")
        for dependency in row.deps:
            self._check_message(row, dependency, "a dependency on ")

    def _check_node(self, row: Row) -> None:
        node = row.node
        if node < 0:
            self._refuse(f"{_a(row)} at node {node}", "node numbers count from 0")
        time_us, at_row = self._latest.get(node, (row.time_us, self._row))
        if row.time_us < time_us:
            self._refuse(
                f"time at node {node} goes backwards, from {time_us} (row {at_row}) to {row.time_us}",
                "give the rows of a node in the order in which they happened",
            )
        self._latest[node] = (row.time_us, self._row)
        if node in self._down and row.event not in _WHILE_DOWN:
            self._refuse(
                f"{_a(row)} at node {node}, which crashed at row {self._down[node]}",
                "record a recover row when a node comes back",
            )
        if row.event is Event.CRASH:
            self._down.setdefault(node, self._row)
        elif row.event is Event.RECOVER:
            self._down.pop(node, None)

    def _check_message(self, row: Row, key: MessageKey, where: str = "") -> None:
        topic, source, seq = key
        if topic and source >= 0 and seq >= 1:
            return
        lack = "topic" if not topic else f"source (it says {source})" if source < 0 else f"seq (it says {seq})"
        self._refuse(f"{where}{_a(row)} without a {lack}", "a message is named by topic, source and seq (from 1)")

    def _refuse(self, problem: str, remedy: str) -> NoReturn:
        raise UsageError("trace row", self._row, problem, remedy)


def names_a_message_sent(row: Row) -> bool:
    """A send row of a message, as opposed to a control packet."""
    return row.event is Event.SEND and row.source != -1


def _a(row: Row) -> str:
    word = row.event.name.lower()
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word} row"
