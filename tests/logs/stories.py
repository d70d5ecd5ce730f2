"""What the tests of buses over logs share: stories with a time limit, slow logs, a last message."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import antecede
from antecede.logs import Batch, LogBus, LogFeed, LogMessage

#: The names of two logs.
Logs = tuple[str, str]


def play(story: Callable[[], Coroutine[Any, Any, None]], seconds: float = 30) -> None:
    async def limited() -> None:
        async with asyncio.timeout(seconds):
            await story()

    asyncio.run(limited())


def delay(bus: LogBus, log: str, until: asyncio.Event) -> None:
    """Records of a log reach this bus only after the event: the log is slow."""
    numbers = {number for number, name in bus.names().items() if name.partition("[")[0] == log}
    assert numbers
    read = bus._adapter.read

    async def slowly(which: int, after: int, most: int) -> AsyncGenerator[Batch, None]:
        if which in numbers:
            await until.wait()
        async for batch in read(which, after, most):
            yield batch

    bus._adapter.read = slowly  # type: ignore[method-assign]


async def publish_last(bus: LogBus, topic: str) -> antecede.MessageId:
    """A message behind everything that the logs have."""
    bus._depends_on({log: (await bus._adapter.bounds(log)).last for log in bus.names()})
    return await bus.publish(topic, b"last")


async def take(feed: LogFeed, count: int) -> list[LogMessage]:
    return [await anext(feed) for _ in range(count)]
