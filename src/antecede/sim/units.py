"""Simulated time. One unit of time (u.t.) of the papers is a million ticks, so that integers stay exact."""

from typing import Final

TICKS: Final = 1_000_000


def ticks(units: float) -> int:
    """Units of time as whole ticks, never negative."""
    return max(0, round(units * TICKS))


def units(count: float) -> float:
    return count / TICKS
