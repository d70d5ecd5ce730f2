"""The writer of a client: it numbers records and states their past.

State: the frontier (for each log, the highest offset read or written), and the records without an acknowledgement.

1. The application is given a record: the frontier rises to the record's past and to its offset. An append is
   acknowledged: the frontier rises to its offset.
2. A record may be published while others of *its own channel* are unacknowledged: its number orders it behind them.
   While records of another channel are unacknowledged it must wait, since their offsets are not known yet. A record
   whose past the application narrowed does not wait: it depends on no record without an offset.
3. A retry has the same header, and says that it is one. A record that is given up is replaced by a tombstone with its
   number, because readers wait for numbers.

A channel is a log, or a key within a log where readers may filter by key at the server (a subject of JetStream).
Numbers count within a channel, so that a filtered reader sees no holes.

A record does not name the offsets of its writer's earlier records on the same channel: its number says as much. So a
writer that stays on one channel and reads nothing states the same past again and again, and its bytes are made once.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from antecede.core.errors import UsageError
from antecede.protocols.logs.header import Header

#: A log and a key within it; "" where the log has no keys.
Channel: TypeAlias = tuple[int, str]
Past: TypeAlias = tuple[tuple[int, int], ...]


class Writer:
    """Makes headers. Its client appends the records and reports the outcome."""

    def __init__(self, writer: int, frontier: Mapping[int, int] | None = None) -> None:
        """`writer` is 64 random bits, new for each session. `frontier` is where an earlier session stopped."""
        self.writer = writer
        self._frontier: dict[int, int] = dict(frontier or {})
        #: The last offset of this writer's own records, for the channels that the frontier does not cover yet.
        self._own: dict[Channel, int] = {}
        #: The frontier as a past; None after it has risen.
        self._past: Past | None = None
        self._numbers: dict[Channel, int] = {}
        self._pending: dict[Channel, dict[int, Header]] = {}

    @property
    def frontier(self) -> dict[int, int]:
        """By log: the highest offset that this client has read or written."""
        found = dict(self._frontier)
        for (log, _), offset in self._own.items():
            found[log] = max(offset, found.get(log, -1))
        return found

    def observe(self, log: int, offset: int, past: Iterable[tuple[int, int]] = ()) -> None:
        """The application was given the record at `offset` of `log`: whatever it publishes next depends on it."""
        self._raise(log, offset)
        for other, reached in past:
            self._raise(other, reached)

    def publish(self, log: int, key: str = "", *, past: Past | None = None) -> Header | None:
        """The header of the next record on this channel; None while another channel has unacknowledged records.

        `past`: what the record depends on, where the application narrowed it.
        """
        channel = (log, key)
        if past is None:
            if len(self._pending) > (channel in self._pending):
                return None
            past = self._stamp(channel)
        number = self._numbers[channel] = self._numbers.get(channel, 0) + 1
        header = Header(self.writer, number, past)
        self._pending.setdefault(channel, {})[number] = header
        return header

    def acknowledged(self, log: int, key: str, number: int, offset: int) -> None:
        """The log has stored the record, or its tombstone, at `offset`. A second acknowledgement changes nothing."""
        channel = (log, key)
        if self._own.get(channel, -1) < offset:
            self._own[channel] = offset
        self._forget(channel, number)

    def retry(self, log: int, key: str, number: int) -> Header | None:
        """The header with which to send a record again; None if it was acknowledged meanwhile."""
        header = self._pending.get((log, key), {}).get(number)
        return None if header is None else header._replace(retry=True)

    def give_up(self, log: int, key: str, number: int) -> Header:
        """The header of the tombstone for a record that the client gives up. It must be appended in its place."""
        header = self._pending.get((log, key), {}).get(number)
        if header is None:
            raise UsageError("number", number, "is not in flight", "give up a record only before it is acknowledged")
        return header._replace(tombstone=True, retry=True)

    def withdraw(self, log: int, key: str, number: int) -> bool:
        """Take back the last number of a channel: the log refused its record for certain. False: it is not the last."""
        channel = (log, key)
        if self._numbers.get(channel) != number or number not in self._pending.get(channel, {}):
            return False
        self._numbers[channel] = number - 1
        self._forget(channel, number)
        return True

    def abandon(self, log: int, key: str, number: int) -> None:
        """Leave a hole: the log takes not even a tombstone. Readers give the number up after a while."""
        self._forget((log, key), number)

    def _stamp(self, channel: Channel) -> Past:
        if len(self._own) > (channel in self._own):
            for other in [other for other in self._own if other != channel]:
                self._raise(other[0], self._own.pop(other))
        if self._past is None:
            self._past = tuple(sorted(self._frontier.items()))
        return self._past

    def _forget(self, channel: Channel, number: int) -> None:
        pending = self._pending.get(channel)
        if pending is not None:
            pending.pop(number, None)
            if not pending:
                del self._pending[channel]

    def _raise(self, log: int, offset: int) -> None:
        if self._frontier.get(log, -1) < offset:
            self._frontier[log] = offset
            self._past = None
