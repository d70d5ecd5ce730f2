"""A subscription being read: `async with bus.subscribe(...) as feed`, `async for message in feed`.

At most `queue` messages wait here; the node sends more when the reader has taken some. A message counts as *read* when
the iterator yields it; messages that this client publishes from then on follow it.

When the connection breaks, a feed waits for the next one and goes on where it was: at the same node by position, at
another by the last message it has of each source (`_seen`). Nothing is skipped and nothing comes twice (order
"causal"). If that is not possible, the reader is told (`GapError`, `LostHistoryError`).
"""

import asyncio
from collections import deque
from itertools import repeat
from typing import TYPE_CHECKING

import msgspec

from antecede.client.message import Message, Trail, parse_cursor
from antecede.client.options import Subscription
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
from antecede.wire.requests import Begun, Credit, Ended, Info, Items, Subscribe, Unsubscribe

if TYPE_CHECKING:
    from antecede.client.bus import Bus


class Feed:
    """Made by `Bus.subscribe`."""

    def __init__(self, bus: "Bus", number: int, wanted: Subscription) -> None:
        #: Messages that were left out by the policy "drop_oldest".
        self.dropped = 0
        self._bus = bus
        self._number = number
        self._wanted = wanted
        self._filters = wanted.filters
        self._window = wanted.queue
        self._since = None if wanted.since is None else parse_cursor(wanted.since)
        #: Messages that came: position, source, seq, payload, deps, held_us, out of order?, trail, index in it.
        self._queue: deque[tuple[int, int, int, bytes, tuple[tuple[int, int], ...], int, bool, Trail, int]] = deque()
        self._read = bus._frontier.read
        self._waiter: asyncio.Future[None] | None = None
        self._begun: asyncio.Future[None] | None = None
        self._error: AntecedeError | None = None
        self._taken = 0
        self._open = False
        # Where the feed is, in the two ways a node may be asked to go on. A position holds at one node only.
        self._info: Info | None = None
        self._position = -1
        self._seen: dict[int, int] | None = None
        # The feed has gone on at another node.
        self._moved = False
        # A subscription was sent, and the node has not said yet where it begins.
        self._opening = False

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
        position, source, seq, payload, deps, held_us, tagged, trail, index = self._queue.popleft()
        self._taken += 1
        if self._taken * 2 >= self._window:
            self._bus._credit(Credit(self._number, self._taken))
            self._taken = 0
        message = Message(source, seq, unseal(payload), position, trail, index, deps, held_us, tagged)
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
        return msgspec.structs.replace(self._subscription(info), over_gaps=self._wanted.over_gaps)

    def _subscription(self, info: Info) -> Subscribe:
        before, self._info = self._info, info
        self._taken = 0
        self._opening = True
        credit = max(1, self._window - len(self._queue))
        begun = before is not None and self._begun is not None and self._begun.done()
        window = self._window if begun else 0
        since, seen = self._go_on_at(info, before) if begun and before is not None else self._begin_at(info)
        order, policy = self._wanted.order, self._wanted.policy
        return Subscribe(self._number, self._filters, credit, since, order, policy, seen, window)

    def _begin_at(self, info: Info) -> tuple[int, tuple[tuple[int, int], ...]]:
        """Where a new feed begins: the position, or what was read before."""
        cursor = self._since
        if cursor is None:
            return -1, ()
        if cursor.node not in (-1, info.node):
            if cursor.seen is None:
                problem = f"belongs to node {cursor.node}, this is node {info.node}"
                where = f"{cursor.node}:{cursor.position}"
                raise UsageError("cursor", where, problem, "connect to that node, or use a newer cursor")
            self._seen = dict(cursor.seen)
            self._moved = True
            return 0, self._seen_for(info)
        if cursor.node == info.node and cursor.epoch not in (None, info.epoch):
            raise LostHistoryError(f"node {info.node} has no journal, and was started anew since; read on from now")
        if cursor.seen is None:
            return cursor.position, ()
        self._seen = dict(cursor.seen)
        self._moved = True
        return cursor.position, self._seen_for(info)

    def _go_on_at(self, info: Info, before: Info) -> tuple[int, tuple[tuple[int, int], ...]]:
        """Where a feed goes on whose connection broke."""
        here = before.node == info.node and before.epoch == info.epoch
        if here and self._position >= 0:
            # This node may yet deliver messages that the reader had at another one, or may have got from there.
            return self._position, self._seen_for(info) if self._moved or self._seen else ()
        if self._seen is None or (before.node == info.node and not here):
            raise LostHistoryError("the node does not remember this feed; open it again to read on from now")
        self._position = -1
        self._moved = True
        return 0, self._seen_for(info)

    def _seen_for(self, info: Info) -> tuple[tuple[int, int], ...]:
        assert self._seen is not None
        # An empty list would mean that the feed does not come from another node.
        return tuple(self._seen.items()) or ((info.node, 0),)

    def _take(self, record: Items) -> None:
        """Raises `ProtocolError` when the columns of a record do not agree."""
        count = len(record.payloads)
        placed, named = sum([run[1] for run in record.positions]), sum([run[2] for run in record.ids])
        if not placed == named == count:
            raise ProtocolError(f"{count} messages came with {placed} positions and {named} ids")
        positions = [
            one for first, run in record.positions for one in (range(first, first + run) if first else [0] * run)
        ]
        sources = [one for source, _, run in record.ids for one in repeat(source, run)]
        seqs = [one for _, first, run in record.ids for one in range(first, first + run)]
        deps, held_us, tagged = record.deps, record.held_us, frozenset(record.out_of_order)
        assert self._info is not None
        trail = Trail(self._info.node, self._info.epoch, self._seen, record.ids, tagged)
        self._queue.extend(
            zip(
                positions,
                sources,
                seqs,
                record.payloads,
                [deps.get(index, ()) for index in range(count)] if deps else repeat(()),
                [held_us.get(index, 0) for index in range(count)] if held_us else repeat(0),
                [index in tagged for index in range(count)] if tagged else repeat(False),
                repeat(trail),
                range(count),
                strict=False,
            )
        )
        self.dropped += record.dropped
        self._position = max(self._position, max(positions, default=0))
        if self._seen is not None and tagged:
            # A message that came out of order may be followed by an earlier one of its source. It is not counted: after
            # a move it comes again, and the earlier one is not missed.
            for index, (source, seq) in enumerate(zip(sources, seqs, strict=True)):
                if index not in tagged:
                    self._seen[source] = seq
        elif self._seen is not None:
            for source, first, run in record.ids:
                self._seen[source] = first + run - 1
        self._wake()

    def _begin(self, record: Begun) -> None:
        """The feed is open, behind `record.position`; or, later on: it has taken everything up to there."""
        if self._opening:
            self._opening = False
            self._position = record.position
            if self._seen is None and (record.counts or not record.position):
                self._seen = {}
        else:
            self._position = max(self._position, record.position)
        if self._seen is not None:
            for source, seq in record.counts:
                self._seen[source] = max(seq, self._seen.get(source, 0))
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
