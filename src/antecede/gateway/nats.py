"""A NATS server as event service: core subjects, no streams. Needs `pip install antecede[nats]`."""

import asyncio
import logging
from typing import Any, Final
from urllib.parse import urlsplit

from antecede.core import UsageError
from antecede.gateway.service import ServiceError, Take
from antecede.loading import need_extra

_CONNECT_S: Final = 10.0
_PORT: Final = 4222
_log = logging.getLogger(__name__)


class NatsService:
    """An `EventService` over a NATS server. A topic is a subject of the same name."""

    def __init__(self, url: str = "nats://127.0.0.1:4222", **options: Any) -> None:
        """`options` as for `nats.connect`: token, tls, user_credentials, …"""
        self.url = url
        self._options = options
        self._client: Any = None
        self._subscriptions: dict[str, Any] = {}

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
        await self._client.publish(topic, data)

    async def subscribe(self, topic: str, take: Take) -> None:

        async def taken(message: Any) -> None:
            take(message.data)

        self._subscriptions[topic] = await self._client.subscribe(topic, cb=taken)
        await self._client.flush()  # the server has answered, so it has the subscription

    async def unsubscribe(self, topic: str) -> None:
        subscription = self._subscriptions.pop(topic, None)
        if subscription is not None:
            await subscription.unsubscribe()

    async def close(self) -> None:
        if self._client is not None and not self._client.is_closed:
            await self._client.close()
