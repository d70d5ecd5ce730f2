"""Small calculations that many experiments use to read values off metrics."""

from collections.abc import Mapping


def share(histogram: Mapping[str, int], low: int, high: int | None = None) -> float:
    """The percentage of a histogram with values from `low` to `high`, both included."""
    total = sum(histogram.values())
    within = sum(
        count for value, count in histogram.items() if low <= int(value) and (high is None or int(value) <= high)
    )
    return 100 * within / total if total else 0.0


def mean(histogram: Mapping[str, int]) -> float:
    return sum(int(value) * count for value, count in histogram.items()) / max(1, sum(histogram.values()))


def change(now: float, before: float) -> float:
    """By how many percent `now` exceeds `before`."""
    return 100 * (now / before - 1)
