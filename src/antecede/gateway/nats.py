"""A NATS server as event service. Needs `pip install antecede[nats]`.

A topic is a subject of the same name. Where a JetStream stream takes the subject, events go through the stream. An
event counts as published when the stream has stored it, and a reader whose connection breaks reads on where it was.
Other subjects, and what modules say to each other (subjects that begin with `_`), go through core NATS.
"""

import asyncio
import contextlib
import json
import logging
import secrets
from typing import Any, Final
from urllib.parse import urlsplit

from antecede.core import UsageError
from antecede.core.errors import ConnectionLostError
from antecede.gateway.service import ServiceError, Take
from antecede.loading import need_extra
from antecede.logs.connect import connect_adapter
from antecede.logs.contract import LogAdapter
from antecede.logs.jetstream import close_client
from antecede.logs.subjects import to_topic
from antecede.wire.waiters import cancel_all

_CONNECT_S: Final = 10.0
_PORT: Final = 4222
#: How long a stream may leave an event unacknowledged before it is sent again, and how often it is sent.
_ACK_S: Final = 2.0
_TRIES_MAX: Final = 15
_AGAIN_S: Final = 0.2
_BATCH: Final = 256
_log = logging.getLogger(__name__)


class NatsService:
    """An `EventService` over a NATS server."""

    def __init__(self, url: str = "nats://127.0.0.1:4222", *, jetstream: bool = True, **options: Any) -> None:
        """`jetstream`: use streams where there are any. `options` as for `nats.connect`: token, tls, …"""
        self.url = url
        self._jetstream = jetstream
        self._options = options
        self._client: Any = None
        self._subscriptions: dict[str, Any] = {}
        #: By subject: the stream that takes it, or "".
        self._stream_of: dict[str, str] = {}
        self._streams: dict[str, _StreamReader] = {}
        self._session = secrets.token_hex(8)
        self._sent = 0

    async def open(self) -> None:
        need_extra("nats", "NatsService")
        import nats  # noqa: PLC0415 - only a gateway over NATS needs it

        try:
            # The library dials a server that does not answer again and again, and prints each time; so dial first.
            async with asyncio.timeout(_CONNECT_S):
                where = urlsplit(self.url)
                _, writer = await asyncio.open_connection(where.hostname, where.port or _PORT)
                writer.close()
                self._client = await nats.connect(self.url, **{"error_cb": self._told, **self._options})
        except Exception as error:  # the library's own errors, and those of the operating system
            reason = str(error) or type(error).__name__
            raise ServiceError(
                self.url, f"no NATS server answers ({reason}); start one (nats-server), or give the url of yours"
            ) from None

    async def _told(self, error: Exception) -> None:
        _log.warning("%s: %s", self.url, error or type(error).__name__)

    def check(self, topic: str) -> None:
        if not topic or any(mark in topic for mark in " \t\r\n*>") or "" in topic.split("."):
            raise UsageError("topic", topic, "is not a subject of NATS", "use words joined by dots, without * and >")

    async def publish(self, topic: str, data: bytes) -> None:
        stream = await self._stream(topic)
        if not stream:
            await self._client.publish(topic, data)
            return
        self._sent += 1
        # The stream drops copies by this name.
        headers = {"Nats-Msg-Id": f"{self._session}.{self._sent}", "Nats-Expected-Stream": stream}
        for _ in range(_TRIES_MAX):
            try:
                await self._client.jetstream().publish(topic, data, timeout=_ACK_S, headers=headers)
            except Exception as error:  # no acknowledgement, no leader, a broken connection: the library's own errors
                reason = str(error) or type(error).__name__
                _log.debug("%s: stream %s: %s", self.url, stream, reason)
                await asyncio.sleep(_AGAIN_S)
            else:
                return
        raise ServiceError(self.url, f"stream {stream} did not take an event ({reason}); see whether it has a leader")

    async def subscribe(self, topic: str, take: Take) -> None:
        stream = await self._stream(topic)
        if stream:
            if stream not in self._streams:
                self._streams[stream] = _StreamReader(self._adapter(stream))
            await self._streams[stream].add(topic, take)
            return

        async def taken(message: Any) -> None:
            take(message.data)

        self._subscriptions[topic] = await self._client.subscribe(topic, cb=taken)
        await self._client.flush()  # the server has answered, so it has the subscription

    async def unsubscribe(self, topic: str) -> None:
        for reader in self._streams.values():
            reader.remove(topic)
        subscription = self._subscriptions.pop(topic, None)
        if subscription is not None:
            await subscription.unsubscribe()

    async def close(self) -> None:
        for reader in self._streams.values():
            await reader.close()
        if self._client is not None and not self._client.is_closed:
            await close_client(self._client)

    async def _stream(self, topic: str) -> str:
        """The stream that takes a subject; empty if there is none. Remembered: streams come and go rarely."""
        if not self._jetstream or topic.startswith("_"):
            return ""
        known = self._stream_of.get(topic)
        if known is None:
            known = ""
            with contextlib.suppress(Exception):  # a server without JetStream does not answer
                asked = json.dumps({"subject": topic}).encode()
                answer = await self._client.request("$JS.API.STREAM.NAMES", asked, timeout=_ACK_S)
                known = (json.loads(answer.data).get("streams") or [""])[0]
            self._stream_of[topic] = known
        return known

    def _adapter(self, stream: str) -> LogAdapter:
        url = f"{self.url.partition('?')[0]}?streams={stream}"
        return connect_adapter(url, token=self._options.get("token") or "", tls=self._options.get("tls"))


class _StreamReader:
    """Reads one stream for all topics that were subscribed to, from when each was."""

    def __init__(self, adapter: LogAdapter) -> None:
        self._adapter = adapter
        #: By topic: the last offset before the subscription, and where events go.
        self._takes: dict[str, tuple[int, Take]] = {}
        self._log = -1
        self._task: asyncio.Task[None] | None = None

    async def add(self, topic: str, take: Take) -> None:
        if self._task is None:
            (self._log,) = await self._adapter.open()
        last = (await self._adapter.bounds(self._log)).last
        self._takes[to_topic(topic)] = (last, take)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._read(last))

    def remove(self, topic: str) -> None:
        self._takes.pop(to_topic(topic), None)

    async def close(self) -> None:
        if self._task is not None:
            await cancel_all([self._task])
        await self._adapter.close()

    async def _read(self, after: int) -> None:
        while True:
            try:
                async for batch in self._adapter.read(self._log, after, _BATCH):
                    for record in batch.records:
                        before, take = self._takes.get(record.topic, (record.offset, None))
                        if take is not None and record.offset > before:
                            take(record.payload)
                    after = batch.upto
            except ConnectionLostError as error:
                _log.debug("%s", error)
                await asyncio.sleep(_AGAIN_S)
