"""A message as it was read from a log."""

from typing import TYPE_CHECKING

from antecede.client.message import ReadMessage
from antecede.logs.contract import LogRecord
from antecede.logs.cursors import write_cursor
from antecede.wire.cursors import MessageId

if TYPE_CHECKING:
    from antecede.protocols.logs import Trail


class LogMessage(ReadMessage, frozen=True, gc=False, eq=False):
    """A message as it was read. It has the attributes of `antecede.Message`.

    `source` is the number of its log, `seq` its offset there.
    """

    _content: LogRecord
    #: By log: the offset that its writer had read or written when it published. Transitive.
    past: tuple[tuple[int, int], ...]
    #: How long ago it came here: it waited for messages it depends on, or for the application.
    held_ms: float
    #: It was in flight when this feed started, or its writer vanished: messages that follow it may have come first.
    out_of_order: bool
    #: Retention removed a message that it depends on.
    incomplete: bool
    _trail: "Trail"
    _index: int

    @property
    def log(self) -> int:
        return self.source

    @property
    def offset(self) -> int:
        return self.seq

    @property
    def payload(self) -> bytes:
        return self._content.payload

    @property
    def after(self) -> tuple[MessageId, ...]:
        """What it depends on: in each log, the last record that its writer had read or written."""
        return tuple([MessageId(*entry) for entry in self.past])

    @property
    def cursor(self) -> str:
        """The cursor right behind it: `subscribe(…, since=cursor)` goes on there."""
        return write_cursor(self._trail.cursor(self._index))
