"""Refuses rows that cannot be judged, by number: a verdict on such a trace would be a guess.

A row is refused if it contradicts the schema or the rows before it: no topic, time that runs backwards at a node, an
act of a node that is down. A row that shows a fault of the protocol is judged by the rules and never refused here.
"""

from typing import NoReturn

from antecede.audit import wording
from antecede.audit.report import MessageKey
from antecede.audit.rules import GOES_DOWN
from antecede.audit.wording import Moment
from antecede.core.errors import UsageError
from antecede.trace import Event, Row

_NAMES_A_MESSAGE = frozenset((Event.PUBLISH, Event.DELIVER))
_NAMES_A_TOPIC = frozenset((Event.SUBSCRIBE, Event.UNSUBSCRIBE))
#: The events allowed at a node that is down: packets that reach it and are lost, and its own changes of state.
_WHILE_DOWN = frozenset((*GOES_DOWN, Event.DROP, Event.RECOVER))


class WellFormed:
    """Looks at every row once, in order, and raises `UsageError` at the first that cannot be judged."""

    def __init__(self) -> None:
        self._row = -1
        #: By node: its latest row and time.
        self._latest: dict[int, tuple[int, int]] = {}
        #: Nodes that are down, and the row since which they are.
        self._down: dict[int, int] = {}

    def check(self, row: Row) -> None:
        self._row += 1
        wrong = self._wrong_node(row)
        if wrong is not None:
            self._refuse(wrong)
        if row.event in _NAMES_A_TOPIC and not row.topic:
            self._refuse(wording.no_topic(row.event))
        if row.event in _NAMES_A_MESSAGE or names_a_message_sent(row):
            self._check_name(row, (row.topic, row.source, row.seq))
        if names_a_message_sent(row) and row.peer < 0:
            self._refuse(wording.no_peer(row.event))
        for dependency in row.deps:
            self._check_name(row, dependency, dependency=True)

    def _wrong_node(self, row: Row) -> tuple[str, str] | None:
        node = row.node
        if node < 0:
            return wording.wrong_node(row.event, node)
        latest = self._latest.get(node)
        if latest is not None and row.time_us < latest[1]:
            return wording.time_backwards(node, Moment(*latest), row.time_us)
        self._latest[node] = (self._row, row.time_us)
        if node in self._down and row.event not in _WHILE_DOWN:
            return wording.acts_while_down(row.event, node, self._down[node])
        if row.event in GOES_DOWN:
            self._down.setdefault(node, self._row)
        elif row.event is Event.RECOVER:
            self._down.pop(node, None)
        return None

    def _check_name(self, row: Row, key: MessageKey, *, dependency: bool = False) -> None:
        topic, source, seq = key
        if not topic or source < 0 or seq < 1:
            self._refuse(wording.incomplete_name(row.event, (bool(topic), source, seq), dependency=dependency))

    def _refuse(self, wrong: tuple[str, str]) -> NoReturn:
        """Raise an error for `wrong`: a problem and its remedy."""
        raise UsageError("trace row", self._row, *wrong)


def names_a_message_sent(row: Row) -> bool:
    """A send row of a message, as opposed to one of a control packet."""
    return row.event is Event.SEND and row.source != -1
