"""Running coroutines in tests: with a deadline, so that a failing test ends."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

from antecede import Feed, Message

P = ParamSpec("P")

#: Ends a test that hangs, in order: its processes are stopped. It is no bound on speed, and below the limit of pytest
#: (300 s). A test with five processes needs three seconds of processor time, which take a minute on a busy machine.
DEADLINE_S = 240.0


def awaited(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that is a coroutine."""

    @wraps(test)
    def run(*args: P.args, **more: P.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(DEADLINE_S):
                await test(*args, **more)

        asyncio.run(bounded())

    return run


async def take(feed: Feed, count: int) -> list[Message]:
    """The next `count` messages."""
    return [await anext(feed) for _ in range(count)]


async def until(condition: Callable[[], bool], within_s: float = 30.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.005)


def bodies(messages: list[Message]) -> list[bytes]:
    return [message.payload for message in messages]
