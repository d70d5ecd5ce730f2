"""Redialling with exponential back-off: how long to pause between attempts, and when to give up.

Pauses double from one failure to the next, up to a bound. Each is shortened at random by up to a half, so that peers
that lost the same node do not dial it in step. Randomness is an argument; time is the event loop's.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from antecede.core.errors import AntecedeError, RefusedError

T = TypeVar("T")

#: Reasons of refusals that may pass by themselves; after any other, dialling again is useless.
_PASSING: Final = frozenset(["busy", "closing", "rate"])


class Backoff:
    """Pauses that double from `first_s` to `longest_s`."""

    def __init__(self, rng: random.Random, *, first_s: float = 0.05, longest_s: float = 2.0) -> None:
        self._rng = rng
        self._first_s = first_s
        self._longest_s = longest_s

    def pause_s(self, failures: int) -> float:
        """The pause after `failures` attempts in a row have failed, one at least."""
        longest = min(self._longest_s, self._first_s * 2.0 ** min(failures - 1, 30))
        return longest * self._rng.uniform(0.5, 1.0)


def may_pass(error: Exception) -> bool:
    """Can another attempt succeed where this one failed? A refusal for good says no."""
    return not isinstance(error, RefusedError) or error.reason in _PASSING


async def redial(
    attempt: Callable[[], Awaitable[T]],
    backoff: Backoff,
    *,
    patience_s: float,
    retried: tuple[type[AntecedeError], ...],
) -> T:
    """Await `attempt()` until it succeeds, and return its answer.

    Errors of the types `retried` are tried again, with pauses, for up to `patience_s`. The last one is raised when that
    time is over, or at once when it cannot pass.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    failures = 0
    while True:
        try:
            return await attempt()
        except retried as error:
            failures += 1
            pause_s = backoff.pause_s(failures)
            if not may_pass(error) or loop.time() + pause_s > deadline:
                raise
        await asyncio.sleep(pause_s)
