"""The two clocks of a node: one tells the time of day and may be wrong, the other one only counts.

Order comes from counters: positions, sequence numbers, incarnations. The time of day is written beside deliveries for
people and statistics. It may jump when the machine's clock is set; nothing is decided by it. How old something is goes
by the time that the node has been running since.
"""

import time
from collections.abc import Callable
from typing import Final, NamedTuple


def wall_us() -> int:
    """Microseconds since 1970, by the machine's clock."""
    return time.time_ns() // 1000


def elapsed_us() -> int:
    """Microseconds since some moment in the past; never set back or forward."""
    return time.monotonic_ns() // 1000


class Clock(NamedTuple):
    """Where a journal reads the time."""

    wall_us: Callable[[], int]
    elapsed_us: Callable[[], int]


SYSTEM: Final = Clock(wall_us, elapsed_us)
