"""Coroutines that wait until there is room, and tasks that end together."""

import asyncio
from collections.abc import Iterable
from typing import Final

_AGAIN_S: Final = 0.2


class Waiters:
    """Wakes, all together, the coroutines that wait here. Each then looks again whether it may go on."""

    __slots__ = ("_futures",)

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        """Return at the next `release`."""
        future = asyncio.get_running_loop().create_future()
        self._futures.append(future)
        await future

    def release(self) -> None:
        if not self._futures:
            return  # most often: every acknowledgement calls this
        futures, self._futures = self._futures, []
        for future in futures:
            if not future.done():
                future.set_result(None)


async def cancel_all(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel these tasks, and return when all of them have ended. Raises what one of them raised.

    A library may swallow a cancellation, when a time limit of its own runs out at the same moment. So they are
    cancelled again until they have ended.
    """
    ending = list(tasks)
    pending = set(ending)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=_AGAIN_S)
    for task in ending:
        if not task.cancelled():
            task.result()
