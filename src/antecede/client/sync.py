"""The bus for scripts without asyncio: an event loop runs in a thread of its own, and calls block.

    with antecede.connect_sync("antecede://127.0.0.1:7400") as bus:
        bus.publish("greetings", b"hello")
        with bus.subscribe("greetings") as feed:
            for message in feed: ...

Use a bus from one thread. What it publishes follows what it has read; with several threads that order is undefined.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar, Unpack

from antecede.client.bus import Bus
from antecede.client.connect import connect
from antecede.client.feed import Feed
from antecede.client.message import Message
from antecede.client.options import ConnectOptions, PublishOptions, SubscribeOptions
from antecede.core import UsageError
from antecede.core.errors import StoppedError
from antecede.wire.cursors import MessageId

T = TypeVar("T")


class SyncFeed:
    """A feed whose reads block. Made by `SyncBus.subscribe`."""

    def __init__(self, bus: "SyncBus", feed: Feed) -> None:
        self._bus = bus
        self._feed = feed

    def __enter__(self) -> "SyncFeed":
        self._bus._run(self._feed.__aenter__())
        return self

    def __exit__(self, *exception: object) -> None:
        self._bus._run(self._feed.__aexit__(*exception))

    def __iter__(self) -> "SyncFeed":
        return self

    def __next__(self) -> Message:
        try:
            return self._bus._run(self._feed.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def next(self, timeout_s: float | None = None) -> Message | None:
        """The next message; None if none comes within `timeout_s`."""

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
    """A bus whose calls block. Made by `connect_sync`."""

    def __init__(self, url: str, options: ConnectOptions) -> None:
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

    def __exit__(self, *exception: object) -> None:
        try:
            self._run(self._opened().close())
        finally:
            self._stop()

    def publish(self, topic: str, payload: bytes, **options: Unpack[PublishOptions]) -> MessageId:
        """Publish, and return the message's id once it is safe; options as for `Bus.publish`."""
        return self._run(self._opened().publish(topic, payload, **options))

    def subscribe(self, *filters: str, **options: Unpack[SubscribeOptions]) -> SyncFeed:
        """A feed of the topics that any of `filters` takes; options as for `Bus.subscribe`."""
        return SyncFeed(self, self._opened().subscribe(*filters, **options))

    def cut(self) -> str:
        """A consistent cut over all logs, for `since=`; for buses over logs (`antecede.logs`)."""
        bus: Any = self._opened()
        if not hasattr(bus, "cut"):
            raise UsageError("bus", self._url, "is not over logs", "use message.cursor")
        cut: str = self._run(bus.cut())
        return cut

    def status(self) -> dict[str, Any]:
        """What the node says of itself: members, positions, counts."""
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


def connect_sync(url: str, **options: Unpack[ConnectOptions]) -> SyncBus:
    """`connect` for scripts: use it with `with`; options as for `connect`."""
    return SyncBus(url, options)
