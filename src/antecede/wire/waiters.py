"""Coroutines that wait until there is room."""

import asyncio


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
        futures, self._futures = self._futures, []
        for future in futures:
            if not future.done():
                future.set_result(None)
