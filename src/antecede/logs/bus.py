"""Publish and subscribe over several logs of one system, without a server of ours.

The records a client has read are its past (`protocols.logs.Writer`). A publication states that past in a header, and
readers hold it until its past is settled (`protocols.logs.Reader`).
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from antecede.client.base import BaseBus
from antecede.client.message import ReadMessage
from antecede.client.options import PUBLISH_TIMEOUT_S, After, Headers, Subscription, checked_timeout
from antecede.core.errors import ConnectionLostError, LimitError, StoppedError, UsageError
from antecede.logs.contract import LogAdapter
from antecede.logs.cursors import write_cursor
from antecede.logs.cutting import consistent_cut
from antecede.logs.feed import LogFeed
from antecede.logs.message import LogMessage
from antecede.logs.publishing import PENDING_MAX, Past, Publisher
from antecede.protocols.logs import LogCursor, LogsCursor
from antecede.wire.cursors import MessageId
from antecede.wire.envelope import BODY_BYTES_MAX, HEADER_BYTES_MAX, HEADERS_MAX
from antecede.wire.requests import parse_durability
from antecede.wire.topics import check_topic

_AGAIN_S: Final = 0.25

T = TypeVar("T")


class LogBus(BaseBus[LogFeed]):
    """A connection to a log system. `async with` opens it."""

    def __init__(self, adapter: LogAdapter, *, patience_s: float) -> None:
        #: How long a broken connection, or a number that does not come, is waited for.
        self.patience_s = patience_s
        #: Records whose header is not ours or not whole. They are read in the order of their log.
        self.malformed = 0
        self._adapter = adapter
        self._publisher = Publisher(adapter)
        self._names: dict[int, str] = {}
        self._feeds: set[LogFeed] = set()
        self._state = "new"

    async def __aenter__(self) -> "LogBus":
        if self._state != "new":
            raise UsageError("bus", self._adapter.where, "is open already", "connect again for another one")
        self._names = await self._patiently(self._adapter.open)
        self._state = "open"
        self._publisher.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait a little for acknowledgements, and close the connection."""
        if self._state == "open":
            self._state = "closed"
            stopped = StoppedError(f"this connection to {self._adapter.where} is closed")
            await self._publisher.close(stopped)
            for feed in list(self._feeds):
                feed._fail(stopped)
                await feed._close()
            await self._adapter.close()

    # -- what the calls of every bus ask -------------------------------------------------------------------------------

    def _must_wait(self) -> bool:
        return self._publisher.waiting >= PENDING_MAX

    async def _until_ready(self, timeout_s: float) -> None:
        await self._publisher.room(timeout_s)

    def _submit(
        self, topic: str, payload: bytes, headers: Headers, after: After, durability: str | None, timeout_s: float
    ) -> "asyncio.Future[MessageId]":
        adapter = self._opened()
        if timeout_s != PUBLISH_TIMEOUT_S:
            checked_timeout(timeout_s)
        log = adapter.log_of(check_topic(topic))
        if durability is not None:
            parse_durability(durability)
            adapter.check_durability(log, durability)
        if type(payload) is not bytes:
            if not isinstance(payload, bytearray | memoryview):
                raise UsageError("payload", type(payload).__name__, "is not bytes", "encode it, e.g. with str.encode()")
            payload = bytes(payload)
        if len(payload) > BODY_BYTES_MAX:
            raise LimitError("the payload in bytes", len(payload), BODY_BYTES_MAX, "send it in pieces, or a reference")
        if headers:
            _check_headers(headers)
        past = None if after is None else self._named(after)
        return self._publisher.submit(log, topic, payload, headers, past, timeout_s)

    def _feed(self, wanted: Subscription) -> LogFeed:
        if wanted.order != "causal":
            raise UsageError(
                "order", wanted.order, "is not made over logs", 'use "causal", or a log client of your own'
            )
        if wanted.policy != "block":
            raise UsageError("policy", wanted.policy, "is not made over logs", 'use "block": the logs keep what waits')
        if wanted.max_age_s is not None:
            raise UsageError("max_age_s", wanted.max_age_s, "is not made over logs", "leave it out")
        return LogFeed(self, wanted)

    # -- questions -----------------------------------------------------------------------------------------------------

    async def cut(self) -> str:
        """A consistent cut over all logs, for `since=`: whatever a record in it depends on is in it too."""
        adapter = self._opened()
        ends = await self._patiently(lambda: consistent_cut(adapter, sorted(self._names)))
        return write_cursor(LogsCursor({log: LogCursor(offset) for log, offset in ends.items()}))

    async def status(self) -> dict[str, Any]:
        """What each log has, and what this bus holds."""
        adapter = self._opened()
        logs = {name: (await adapter.bounds(log))._asdict() for log, name in self._names.items()}
        return {
            "where": adapter.where,
            "logs": logs,
            "held": sum(feed.held for feed in self._feeds),
            "unacknowledged": self._publisher.waiting,
            "malformed": self.malformed,
        }

    def names(self) -> dict[int, str]:
        """The logs: by number, the name."""
        return dict(self._names)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _opened(self) -> LogAdapter:
        if self._state == "closed":
            raise StoppedError(f"this connection to {self._adapter.where} is closed")
        if self._state != "open":
            raise UsageError("bus", self._adapter.where, "is not open", "use it inside `async with`")
        return self._adapter

    async def _patiently(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Ask until there is an answer: a cluster that elects a leader has none for a while."""
        deadline = time.monotonic() + self.patience_s
        while True:
            try:
                return await ask()
            except ConnectionLostError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_AGAIN_S)

    def _read(self, log: int, offset: int, past: Past) -> None:
        """The application was given a record."""
        self._publisher.writer.observe(log, offset, past)
        self._publisher.remember(MessageId(log, offset), past)

    def _depends_on(self, frontier: dict[int, int]) -> None:
        """An earlier session of this client had read this much."""
        for log, offset in frontier.items():
            self._publisher.writer.observe(log, offset)

    def _named(self, after: Iterable[MessageId | ReadMessage]) -> Past:
        """The past of a message that depends on `after` alone."""
        past: dict[int, int] = {}
        for one in after:
            named = one.id if isinstance(one, ReadMessage) else one
            if not (isinstance(named, tuple) and len(named) == 2):
                raise UsageError("after", one, "is not a message", "name messages or their ids")
            known = one.past if isinstance(one, LogMessage) else self._publisher.past_of(named)
            if known is None:
                remedy = "name the message itself, which says what it depends on"
                raise UsageError("after", str(named), "was not read or published here lately", remedy)
            for log, offset in (*known, named):
                past[log] = max(offset, past.get(log, -1))
        return tuple(sorted(past.items()))


def _check_headers(headers: dict[str, str]) -> None:
    if len(headers) > HEADERS_MAX:
        raise LimitError("the number of headers", len(headers), HEADERS_MAX, "put the rest into the payload")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise UsageError("header", name, "is not text", "names and values of headers are str")
        if len(name) > HEADER_BYTES_MAX or len(value) > HEADER_BYTES_MAX:
            raise LimitError("a header's length", max(len(name), len(value)), HEADER_BYTES_MAX, "use the payload")
