"""A subscription being read: `async with bus.subscribe(...) as feed`, `async for message in feed`.

At most `queue` messages wait here; the node sends more when the reader has taken some. A message counts as *read* when
the iterator yields it, and from then on what this client publishes follows it.

When the connection breaks, a feed waits for the next one and goes on where it was: at the same node by position, at
another by the numbers of what it has. Nothing is skipped and nothing comes twice (order "causal"); should that not be
possible, the reader is told (`GapError`, `LostHistoryError`).
"""

import asyncio
from collections import deque
from itertools import repeat
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec

from antecede.client.message import Message, parse_cursor
from antecede.core import AntecedeError, ProtocolError, UsageError
from antecede.core.errors import (
    ConnectionLostError,
    DeniedError,
    GapError,
    LostHistoryError,
    SlowReaderError,
    StoppedError,
)
from antecede.wire.envelope import unseal
from antecede.wire.requests import Begun, Credit, Ended, Info, Items, Order, Policy, Subscribe, Unsubscribe

if TYPE_CHECKING:
    from antecede.client.bus import Bus


class Feed:
    """Made by `Bus.subscribe`."""

    def __init__(
        self,
        bus: "Bus",
        number: int,
        filters: tuple[str, ...],
        *,
        since: str | None,
        order: Order,
        policy: Policy,
        queue: int,
        over_gaps: bool = False,
    ) -> None:
        #: Messages that were left out by the policy "drop_oldest".
        self.dropped = 0
        self._bus = bus
        self._number = number
        self._filters = filters
        self._order = order
        self._policy = policy
        self._window = queue
        self._over_gaps = over_gaps
        self._since_node, self._since = (-1, -1) if since is None else parse_cursor(since)
        #: What came: position, source, seq, payload, deps, held_us, out of order?
        self._queue: deque[tuple[int, int, int, bytes, tuple[tuple[int, int], ...], int, bool]] = deque()
        self._read = bus._frontier.read
        self._node = -1
        self._waiter: asyncio.Future[None] | None = None
        self._begun: asyncio.Future[None] | None = None
        self._error: AntecedeError | None = None
        self._taken = 0
        self._open = False
        # Where the feed is, in the two ways a node may be asked to go on.
        self._info: Info | None = None
        self._position = -1
        self._seen: dict[int, int] | None = None

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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def __aiter__(self) -> "Feed":
        return self

    async def __anext__(self) -> Message:
        if self._queue:
            return self._next()
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
        return self._next()

    def _next(self) -> Message:
        position, source, seq, payload, deps, held_us, tagged = self._queue.popleft()
        self._taken += 1
        if self._taken * 2 >= self._window:
            self._bus._credit(Credit(self._number, self._taken))
            self._taken = 0
        message = Message(source, seq, self._node, position, unseal(payload), deps, held_us, tagged)
        # The application has read it: what is published next follows it.
        self._read(source, seq, deps)
        return message

    @property
    def waiting(self) -> int:
        """Messages here that the iterator has not yielded yet."""
        return len(self._queue)

    # -- what the bus tells --------------------------------------------------------------------------------------------

    def _connected(self, info: Info) -> Subscribe:
        """There is a connection: how to open this feed on it. Raises when it cannot go on there."""
        return msgspec.structs.replace(self._subscription(info), over_gaps=self._over_gaps)

    def _subscription(self, info: Info) -> Subscribe:
        before, self._info = self._info, info
        self._node = info.node
        self._taken = 0
        credit = max(1, self._window - len(self._queue))
        base = (self._number, self._filters, credit)
        if before is None:
            if self._since_node not in (-1, info.node):
                problem = f"belongs to node {self._since_node}, this is node {info.node}"
                raise UsageError("cursor", f"{self._since_node}:{self._since}", problem, "connect to that node")
            return Subscribe(*base, self._since, self._order, self._policy)
        if before.node == info.node and before.epoch == info.epoch:
            return Subscribe(*base, self._position, self._order, self._policy, (), self._window)
        if before.node == info.node or self._seen is None:
            raise LostHistoryError("the node does not remember this feed; open it again to read on from now")
        if not self._seen:
            self._seen[info.node] = 0  # an empty list would mean: not roaming
        return Subscribe(*base, 0, self._order, self._policy, tuple(self._seen.items()), self._window)

    def _take(self, record: Items) -> None:
        """Raises `ProtocolError` when the columns of a record do not agree."""
        count = len(record.payloads)
        placed, named = sum([place[1] for place in record.positions]), sum([name[2] for name in record.ids])
        if not placed == named == count:
            raise ProtocolError(f"{count} messages came with {placed} positions and {named} names")
        positions = [
            one for first, run in record.positions for one in (range(first, first + run) if first else [0] * run)
        ]
        sources = [one for source, _, run in record.ids for one in repeat(source, run)]
        seqs = [one for _, first, run in record.ids for one in range(first, first + run)]
        deps, held_us, tagged = record.deps, record.held_us, frozenset(record.out_of_order)
        self._queue.extend(
            zip(
                positions,
                sources,
                seqs,
                record.payloads,
                [deps.get(index, ()) for index in range(count)] if deps else repeat(()),
                [held_us.get(index, 0) for index in range(count)] if held_us else repeat(0),
                [index in tagged for index in range(count)] if tagged else repeat(False),
                strict=False,
            )
        )
        self.dropped += record.dropped
        self._position = max(self._position, max(positions, default=0))
        if self._seen is not None and tagged:
            # Of its source an earlier one may follow: what was tagged rather comes again than that one never.
            for index, (source, seq) in enumerate(zip(sources, seqs, strict=True)):
                if index not in tagged:
                    self._seen[source] = seq
        elif self._seen is not None:
            for source, first, run in record.ids:
                self._seen[source] = first + run - 1
        self._wake()

    def _begin(self, record: Begun) -> None:
        if self._position < 0:
            self._position = record.position
            self._seen = dict(record.counts) if record.counts or not record.position else None
        if self._begun is not None and not self._begun.done():
            self._begun.set_result(None)

    def _end(self, record: Ended) -> None:
        error: AntecedeError
        if record.kind == "gap":
            error = GapError(record.after, record.first, text=record.text)
        elif record.kind == "slow":
            error = SlowReaderError(f"{record.text}; read faster, or use another policy")
        elif record.kind == "denied":
            error = DeniedError(record.text)
        elif record.kind == "order":
            error = UsageError("order", self._order, record.text, 'set overlay = "total" on all nodes of the cluster')
        elif record.kind == "filter":
            error = UsageError("filters", self._filters, record.text, "write filters as in a/+/b or a/#")
        elif record.kind == "limit":
            error = UsageError("feed", self._number, record.text, "close some, or use wildcards")
        elif record.kind == "usage":
            error = UsageError("since", self._since, record.text, "use a cursor of this node")
        else:
            error = StoppedError(record.text)
        self._fail(error)

    def _fail(self, error: AntecedeError) -> None:
        """What is queued is still read; then the reader gets the error."""
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
