"""A node's own tasks, supervised: one that fails is logged and makes the node unhealthy.

asyncio keeps the exception of a task that nothing awaits to itself. A node has tasks for its whole life (retention,
comparing rosters): without supervision one that dies leaves a node that looks well and no longer does its work.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger("antecede.node")


class SupervisedTasks:
    """Tasks by name, and those that failed."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()
        #: What each task that failed died of: the last error, by its name.
        self.failures: dict[str, str] = {}

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work`. `name` says what it does, for the log and for `/health`."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def cancel(self) -> None:
        for task in self._running:
            task.cancel()

    async def close(self) -> None:
        """Cancel all of them, and return when they have ended."""
        running = list(self._running)
        self.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            name = task.get_name()
            self.failures[name] = f"{type(error).__name__}: {error}"
            log.error("the task that %s has failed; restart the node: %s", name, error, exc_info=error)
