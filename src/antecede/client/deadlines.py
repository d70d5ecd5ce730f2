"""Deadlines of publications whose node stays silent.

The node keeps the deadline of a publication and fails it in time, with the reason. This is for a node that does not
answer at all: stopped, cut off, or overloaded. Publications are counted by runs, as they travel, and looked at a few
times a second: a publication costs nothing here.

If the application held up the event loop, answers may have come meanwhile that nothing has read yet. So nothing expires
then; the next look decides.
"""

import asyncio
from collections.abc import Callable
from typing import Final

#: Added to every deadline, so that a node that does answer is heard first.
_GRACE_S: Final = 0.5
_SWEEP_S: Final = 0.25


class Deadlines:
    """Calls `expire` with the number of each publication that is pending when its time is over."""

    def __init__(self, pending: Callable[[int], bool], expire: Callable[[int, float], None]) -> None:
        self._pending = pending
        self._expire = expire
        #: When, the number of the first, how many, and the time they were given.
        self._runs: list[tuple[float, int, int, float]] = []
        self._timer: asyncio.TimerHandle | None = None
        #: The last look came late.
        self._was_late = False

    def add(self, first: int, count: int, timeout_s: float) -> None:
        """Publications numbered from `first` on were sent, to be answered within `timeout_s`."""
        loop = asyncio.get_running_loop()
        self._runs.append((loop.time() + timeout_s + _GRACE_S, first, count, timeout_s))
        if self._timer is None:
            self._timer = loop.call_later(_SWEEP_S, self._sweep)

    def clear(self) -> None:
        """Nothing is pending any more."""
        self._runs.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        assert self._timer is not None
        late = now - self._timer.when() > _SWEEP_S and not self._was_late
        self._was_late = late
        if late:
            self._timer = loop.call_later(_SWEEP_S, self._sweep)
            return
        self._timer = None
        left = []
        for run in self._runs:
            when, first, count, timeout_s = run
            waiting = [number for number in range(first, first + count) if self._pending(number)]
            if when > now:
                if waiting:
                    left.append(run)
                continue
            for number in waiting:
                self._expire(number, timeout_s)
        self._runs = left
        if left:
            self._timer = loop.call_later(_SWEEP_S, self._sweep)
