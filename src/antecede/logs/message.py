"""A message as it was read from a log."""

from typing import TYPE_CHECKING

from antecede.client.message import MessageId
from antecede.logs.contract import LogRecord

if TYPE_CHECKING:
    from antecede.logs.trail import Trail


class LogMessage:
    """A message as it was read. It has the attributes of `antecede.Message`."""

    __slots__ = ("_index", "_record", "_trail", "held_ms", "incomplete", "log", "out_of_order", "past")

    def __init__(
        self,
        log: int,
        record: LogRecord,
        past: tuple[tuple[int, int], ...],
        held_ms: float,
        out_of_order: bool,
        incomplete: bool,
        trail: "Trail",
        index: int,
    ) -> None:
        #: The number of its log.
        self.log = log
        #: By log: the offset that its writer had read or written when it published. Transitive.
        self.past = past
        #: How long ago it came here: it waited for messages it depends on, or for the application.
        self.held_ms = held_ms
        #: It was in flight when this feed started, or its writer vanished: messages that follow it may have come first.
        self.out_of_order = out_of_order
        #: Retention removed a message that it depends on.
        self.incomplete = incomplete
        self._record = record
        self._trail = trail
        self._index = index

    @property
    def id(self) -> MessageId:
        """The number of its log, and its offset there."""
        return MessageId(self.log, self._record.offset)

    @property
    def source(self) -> int:
        return self.log

    @property
    def seq(self) -> int:
        return self._record.offset

    @property
    def offset(self) -> int:
        return self._record.offset

    @property
    def topic(self) -> str:
        return self._record.topic

    @property
    def payload(self) -> bytes:
        return self._record.payload

    @property
    def headers(self) -> dict[str, str]:
        return self._record.headers

    @property
    def time_us(self) -> int:
        """When the log stored it, by the server's clock: microseconds since 1970. Not for ordering."""
        return self._record.time_us

    @property
    def after(self) -> tuple[MessageId, ...]:
        """What it depends on: in each log, the last record that its writer had read or written."""
        return tuple([MessageId(*entry) for entry in self.past])

    @property
    def cursor(self) -> str:
        """The cursor right behind it: `subscribe(…, since=cursor)` goes on there."""
        return self._trail.cursor(self._index)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogMessage) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        body = self.payload if len(self.payload) <= 40 else self.payload[:40] + b"..."
        return f"LogMessage({self.id}, {self.topic!r}, {body!r})"
