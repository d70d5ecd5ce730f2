"""A broker within the process, for tests of the gateway that need no server."""

import asyncio

from antecede.core import UsageError
from antecede.gateway.service import ServiceError, Take


class Broker:
    """What the services of one system share."""

    def __init__(self) -> None:
        self.takes: dict[str, list[Take]] = {}
        #: Set: every publication fails with this.
        self.trouble: Exception | None = None


class BrokerService:
    """`EventService`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._own: dict[str, Take] = {}

    async def open(self) -> None:
        if self._broker.trouble is not None:
            raise ServiceError("memory", "does not answer")

    def check(self, topic: str) -> None:
        if not topic:
            raise UsageError("topic", topic, "is empty", "name one")

    async def publish(self, topic: str, data: bytes) -> None:
        if self._broker.trouble is not None:
            raise self._broker.trouble
        for take in self._broker.takes.get(topic, []):
            asyncio.get_running_loop().call_soon(take, data)

    async def subscribe(self, topic: str, take: Take) -> None:
        self._own[topic] = take
        self._broker.takes.setdefault(topic, []).append(take)

    async def unsubscribe(self, topic: str) -> None:
        self._broker.takes[topic].remove(self._own.pop(topic))

    async def close(self) -> None:
        for topic in list(self._own):
            await self.unsubscribe(topic)
