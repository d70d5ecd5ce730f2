"""The same bus for scripts without asyncio: an event loop in a thread of its own, and calls that wait.

    with antecede.connect_sync("antecede://127.0.0.1:7400") as bus:
        bus.publish("greetings", b"hello")
        with bus.subscribe("greetings") as feed:
            for message in feed: ...

Use a bus from one thread: what it publishes follows what it has read, and that is a story with one teller.
"""

import asyncio
import ssl
import threading
from collections.abc import Coroutine, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from antecede.client.bus import QUEUE_MESSAGES, Bus
from antecede.client.connect import connect
from antecede.client.feed import Feed
from antecede.client.message import Message, MessageId
from antecede.core import UsageError
from antecede.core.errors import StoppedError
from antecede.wire.requests import Order, Policy

T = TypeVar("T")


class SyncFeed:
    """A feed that blocks. `timeout_s` of `next` bounds the wait."""

    def __init__(self, bus: "SyncBus", feed: Feed) -> None:
        self._bus = bus
        self._feed = feed

    def __enter__(self) -> "SyncFeed":
        self._bus._run(self._feed.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bus._run(self._feed.__aexit__(kind, error, trace))

    def __iter__(self) -> "SyncFeed":
        return self

    def __next__(self) -> Message:
        try:
            return self._bus._run(self._feed.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def next(self, timeout_s: float | None = None) -> Message | None:
        """The next message; None when none came in time."""

        async def wait() -> Message | None:
            try:
                async with asyncio.timeout(timeout_s):
                    return await self._feed.__anext__()
            except (TimeoutError, StopAsyncIteration):
                return None

        return self._bus._run(wait())

    @property
    def dropped(self) -> int:
        return self._feed.dropped


class SyncBus:
    """A bus that blocks. Made by `connect_sync`."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self._url = url
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._bus: Bus | None = None

    def __enter__(self) -> "SyncBus":
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="antecede", daemon=True)
        self._thread.start()
        try:
            self._bus = connect(self._url, **self._options)
            self._run(self._bus.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._run(self._opened().close())
        finally:
            self._stop()

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        headers: dict[str, str] | None = None,
        after: Iterable[MessageId | Message] | None = None,
        durability: str | None = None,
    ) -> MessageId:
        """See `Bus.publish`."""
        return self._run(self._opened().publish(topic, payload, headers=headers, after=after, durability=durability))

    def subscribe(
        self,
        *filters: str,
        since: str | None = None,
        order: Order = "causal",
        policy: Policy = "block",
        queue: int = QUEUE_MESSAGES,
    ) -> SyncFeed:
        """See `Bus.subscribe`."""
        return SyncFeed(self, self._opened().subscribe(*filters, since=since, order=order, policy=policy, queue=queue))

    def status(self) -> dict[str, Any]:
        """See `Bus.status`."""
        return self._run(self._opened().status())

    def _opened(self) -> Bus:
        if self._bus is None:
            raise UsageError("bus", self._url, "is not open", "use it inside `with`")
        return self._bus

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        if self._loop.is_closed():
            work.close()
            raise StoppedError(f"this connection to {self._url} is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C while waiting
            raise

    def _stop(self) -> None:
        loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


def connect_sync(
    url: str,
    *,
    name: str = "",
    token: str = "",
    tls: ssl.SSLContext | Path | str | None = None,
    cluster: str = "antecede",
    timeout_s: float = 5.0,
    patience_s: float = 30.0,
) -> SyncBus:
    """`connect`, for scripts: `with`, not `async with`."""
    options = {
        "name": name,
        "token": token,
        "tls": tls,
        "cluster": cluster,
        "timeout_s": timeout_s,
        "patience_s": patience_s,
    }
    return SyncBus(url, options)
