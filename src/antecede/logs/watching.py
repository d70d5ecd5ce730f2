"""Reads logs as a plain reader does, for a judge: each log in its order, all logs side by side, nothing held.

It only reads. Records are handed over in the order in which they reach this process, with what they depend on
(`dependencies`). A log is read on after a lost connection.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Final, NamedTuple

from antecede.core.errors import ConnectionLostError, UsageError
from antecede.logs.contract import Batch, LogAdapter, LogRecord
from antecede.logs.cursors import read_cursor
from antecede.logs.dependencies import Dependencies, DependencyReader
from antecede.logs.reading import read_until
from antecede.wire.waiters import cancel_all

#: Records of one batch. A plain reader is shown a batch of one log, then of another.
_BATCH: Final = 100
_RETRY_S: Final = (0.1, 2.0)


class Observed(NamedTuple):
    """A record as it reached this process."""

    log: int
    record: LogRecord
    shown_us: int
    dependencies: Dependencies


class LogWatch:
    """`open`, then `run` once."""

    def __init__(self, adapter: LogAdapter, dependencies: DependencyReader, *, patience_s: float = 30.0) -> None:
        self._adapter = adapter
        self._dependencies = dependencies
        self._patience_s = patience_s
        self._ends: dict[int, int] = {}
        #: By log: its name, and the last offset that was read.
        self.names: dict[int, str] = {}
        self.positions: dict[int, int] = {}
        #: Offsets that retention removed before they were read.
        self.removed = 0

    async def open(self, since: str) -> None:
        """Connect. `since`: "earliest", "latest", or a cursor or cut of these logs."""
        cursor = None if since in ("earliest", "latest") else read_cursor(since)
        self.names = await self._adapter.open()
        bounds = {log: await self._adapter.bounds(log) for log in self.names}
        self._ends = {log: at.last for log, at in bounds.items()}
        if cursor is not None:
            missing = sorted(self.names[log] for log in self.names.keys() - cursor.logs.keys())
            if missing:
                problem = f"is a cursor without {', '.join(missing)}"
                raise UsageError("--since", since[:40], problem, "leave these out, or use earliest or latest")
            self.positions = {log: cursor.logs[log].low for log in self.names}
        elif since == "latest":
            self.positions = dict(self._ends)
        else:
            self.positions = {log: at.first - 1 for log, at in bounds.items()}

    async def run(self, take: Callable[[Observed], None], *, once: bool) -> None:
        """Read until it is cancelled; with `once` up to the ends that the logs had when it was opened."""
        tasks = [asyncio.ensure_future(self._read(log, take, once)) for log in self.names]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            await cancel_all(tasks)

    async def close(self) -> None:
        await self._adapter.close()

    async def _read(self, log: int, take: Callable[[Observed], None], once: bool) -> None:
        pause_s, lost_at = _RETRY_S[0], 0.0
        while not once or self.positions[log] < self._ends[log]:
            after = self.positions[log]
            reading = (
                read_until(self._adapter, log, after, self._ends[log], _BATCH)
                if once
                else self._adapter.read(log, after, _BATCH)
            )
            try:
                async with aclosing(reading):
                    async for batch in reading:
                        self._hand_over(log, batch, take)
                        pause_s, lost_at = _RETRY_S[0], 0.0
                if once:
                    return
            except ConnectionLostError:
                now = time.monotonic()
                lost_at = lost_at or now
                if now - lost_at > self._patience_s:
                    raise
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _RETRY_S[1])

    def _hand_over(self, log: int, batch: Batch, take: Callable[[Observed], None]) -> None:
        if batch.first > self.positions[log] + 1:
            self.removed += batch.first - 1 - self.positions[log]
        for record in batch.records:
            if record.offset > self.positions[log]:
                self.positions[log] = record.offset
                found = self._dependencies.read(log, record, self.positions)
                take(Observed(log, record, time.time_ns() // 1000, found))
        self.positions[log] = max(self.positions[log], batch.upto)
