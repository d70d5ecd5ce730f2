"""A subscription being read: `async with bus.subscribe(...) as feed`, `async for message in feed`.

At most `queue` messages wait here; the node sends more when the reader has taken some. A message counts as *read* when
the iterator yields it; messages that this client publishes from then on follow it.

When the connection breaks, a feed waits for the next one and goes on where it was: at the same node by position, at
another by the last message it has of each source (`ReaderPosition`). Nothing is skipped and nothing comes twice (order
"causal"). If that is not possible, the reader is told (`GapError`, `LostHistoryError`).
"""

import asyncio
from collections import deque
from itertools import repeat
from typing import TYPE_CHECKING, Any

import msgspec

from antecede.client.message import Message
from antecede.client.options import Subscription
from antecede.core import AntecedeError, ProtocolError, UsageError
from antecede.core.errors import (
    ConnectionLostError,
    DeniedError,
    GapError,
    SlowReaderError,
    StoppedError,
)
from antecede.wire.cursors import ReaderPosition, parse_cursor, positions_of
from antecede.wire.envelope import unseal, unseal_all
from antecede.wire.requests import Begun, Credit, Ended, Info, Items, Subscribe, Unsubscribe

if TYPE_CHECKING:
    from antecede.client.bus import Bus


class Feed:
    """Made by `Bus.subscribe`."""

    def __init__(self, bus: "Bus", number: int, wanted: Subscription) -> None:
        #: Messages that were left out: by the policy "drop_oldest", or because they were older than `max_age_s`.
        self.dropped = 0
        self._bus = bus
        self._number = number
        self._wanted = wanted
        self._filters = wanted.filters
        self._window = wanted.queue
        self._since = None if wanted.since is None else parse_cursor(wanted.since)
        #: Messages that came. The error stands for one that cannot be opened.
        self._queue: deque[Message | ProtocolError] = deque()
        self._past = bus._frontier
        self._newly_read = bus._frontier.newly_read
        self._waiter: asyncio.Future[None] | None = None
        self._begun: asyncio.Future[None] | None = None
        self._error: AntecedeError | None = None
        self._taken = 0
        self._open = False
        self._reached = ReaderPosition()

    async def __aenter__(self) -> "Feed":
        if self._open:
            raise UsageError("feed", self._number, "is open already", "subscribe once for each reader")
        self._open = True
        self._begun = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._bus.opening_s):
                await self._bus._open_feed(self._number, self)
                await self._begun
        except TimeoutError:
            self._close()
            raise ConnectionLostError(f"no node opened the feed within {self._bus.opening_s:g} s") from None
        except BaseException:
            self._close()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._close()

    def __aiter__(self) -> "Feed":
        return self

    async def __anext__(self) -> Message:
        if not self._queue:
            await self._until_some_came()
        self._taken += 1
        if self._taken * 2 >= self._window:
            self._bus._credit(Credit(self._number, self._taken))
            self._taken = 0
        message = self._queue.popleft()
        if isinstance(message, ProtocolError):
            raise message
        # The application has read it: what is published next follows it.
        if message._deps:
            self._past.read(message.source, message.seq, message._deps)
        elif self._newly_read.get(message.source, 0) < message.seq:
            self._newly_read[message.source] = message.seq
        return message

    async def _until_some_came(self) -> None:
        if self._begun is None:
            raise UsageError("feed", list(self._filters), "is not open", "read it inside `async with`")
        if self._waiter is not None:
            raise UsageError("feed", list(self._filters), "has a reader that waits", "subscribe once for each reader")
        while not self._queue:
            if self._error is not None:
                raise self._error
            if not self._open:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    @property
    def waiting(self) -> int:
        """Messages here that the iterator has not yielded yet."""
        return len(self._queue)

    # -- what the bus tells --------------------------------------------------------------------------------------------

    def _connected(self, info: Info) -> Subscribe:
        """There is a connection: how to open this feed on it. Raises when it cannot go on there."""
        max_age_us = round((self._wanted.max_age_s or 0) * 1_000_000)
        return msgspec.structs.replace(
            self._subscription(info), over_gaps=self._wanted.over_gaps, max_age_us=max_age_us
        )

    def _subscription(self, info: Info) -> Subscribe:
        self._taken = 0
        credit = max(1, self._window - len(self._queue))
        begun = self._begun is not None and self._begun.done()
        window = self._window if begun else 0
        reached = self._reached
        since, seen = reached.go_on_at(info) if begun else reached.begin_at(info, self._since)
        order, policy = self._wanted.order, self._wanted.policy
        return Subscribe(self._number, self._filters, credit, since, order, policy, seen, window)

    def _take(self, record: Items) -> None:
        """Raises `ProtocolError` when the columns of a record do not agree."""
        positions = positions_of(record)
        count = len(positions)
        sources = [one for source, _, run in record.ids for one in repeat(source, run)]
        seqs = [one for _, first, run in record.ids for one in range(first, first + run)]
        deps, held_us, tagged = record.deps, record.held_us, frozenset(record.out_of_order)
        trail = self._reached.take(record, positions)
        columns = (
            positions,
            repeat(trail),
            range(count),
            [deps.get(index, ()) for index in range(count)] if deps else repeat(()),
            [held_us.get(index, 0) for index in range(count)] if held_us else repeat(0),
            [index in tagged for index in range(count)] if tagged else repeat(False),
        )
        try:
            self._queue += map(Message, sources, seqs, unseal_all(record.payloads), *columns)
        except ProtocolError:  # its reader is told when its turn comes; the others are sound
            for source, seq, payload, *fields in zip(sources, seqs, record.payloads, *columns, strict=False):
                self._queue.append(_opened(source, seq, payload, *fields))
        self.dropped += record.dropped
        self._wake()

    def _begin(self, record: Begun) -> None:
        """The feed is open, behind `record.position`; or, later on: it has taken everything up to there."""
        self._reached.begun(record)
        if self._begun is not None and not self._begun.done():
            self._begun.set_result(None)

    def _end(self, record: Ended) -> None:
        error: AntecedeError
        if record.kind == "gap":
            error = GapError(record.after, record.first, record.missing, text=record.text)
        elif record.kind == "slow":
            error = SlowReaderError(f"{record.text}; read faster, or use another policy")
        elif record.kind == "denied":
            error = DeniedError(record.text)
        elif record.kind == "order":
            error = UsageError(
                "order", self._wanted.order, record.text, 'set protocol = "total" on all nodes of the cluster'
            )
        elif record.kind == "age":
            error = UsageError("max_age_s", self._wanted.max_age_s, record.text, "leave it out")
        elif record.kind == "filter":
            error = UsageError("filters", self._filters, record.text, "write filters as in a/+/b or a/#")
        elif record.kind == "limit":
            error = UsageError("feed", self._number, record.text, "close some, or use wildcards")
        elif record.kind == "usage":
            error = UsageError("since", None if self._since is None else self._since.position, record.text, "check it")
        else:
            error = StoppedError(record.text)
        self._fail(error)

    def _fail(self, error: AntecedeError) -> None:
        """Messages in the queue are still read; then the reader gets the error."""
        self._error = error
        if self._begun is not None and not self._begun.done():
            self._begun.set_exception(error)
        self._wake()

    def _close(self) -> None:
        if self._open:
            self._open = False
            self._bus._close_feed(self._number, Unsubscribe(self._number) if self._error is None else None)
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _opened(source: int, seq: int, payload: bytes, *fields: Any) -> Message | ProtocolError:
    try:
        return Message(source, seq, unseal(payload), *fields)
    except ProtocolError as error:
        return error
