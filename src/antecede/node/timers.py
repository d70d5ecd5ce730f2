"""Timers of a protocol, behind one timer of the event loop."""

import asyncio
from collections.abc import Callable, Hashable
from heapq import heappop, heappush


class Timers:
    """Calls `ring` with each timer when it is due. Protocols arm timers by the message and never cancel one."""

    def __init__(self, ring: Callable[[Hashable], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._ring = ring
        self._heap: list[tuple[float, int, Hashable]] = []
        self._order = 0
        self._alarm: asyncio.TimerHandle | None = None
        # When it rings; not asked of the handle, since those of uvloop do not all know.
        self._alarm_at = 0.0
        self._stopped = False

    def arm(self, timers: list[tuple[int, Hashable]]) -> None:
        now = self._loop.time()
        for delay_us, timer in timers:
            self._order += 1  # of two that are due together, the one armed first rings first
            heappush(self._heap, (now + delay_us / 1_000_000, self._order, timer))
        self._set_alarm()

    def stop(self) -> None:
        self._stopped = True
        self._heap.clear()
        if self._alarm is not None:
            self._alarm.cancel()

    def _set_alarm(self) -> None:
        if not self._heap or self._stopped:
            return
        when = self._heap[0][0]
        if self._alarm is not None:
            if self._alarm_at <= when:
                return
            self._alarm.cancel()
        self._alarm, self._alarm_at = self._loop.call_at(when, self._wake), when

    def _wake(self) -> None:
        self._alarm = None
        now = self._loop.time()
        while self._heap and self._heap[0][0] <= now:
            self._ring(heappop(self._heap)[2])
        self._set_alarm()
