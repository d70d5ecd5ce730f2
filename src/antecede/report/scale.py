"""Maps values to pixels: linear and logarithmic scales with ticks at round numbers."""

import math
from collections.abc import Sequence
from typing import NamedTuple

#: Smaller values count as zero: no metric has them, and they would lose their digits on the way to a pixel.
_TINY = 1e-9


class Scale(NamedTuple):
    """Maps [low, high] to [begin, end]."""

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            value, low, high = math.log10(value), math.log10(low), math.log10(high)
        share = (value - low) / (high - low) if high > low else 0.5
        return self.begin + share * (self.end - self.begin)


def step_for(span: float, count: int) -> float:
    """The round step (1, 2 or 5 times a power of ten) that divides `span` into at most `count` parts."""
    if span < _TINY:
        return 1.0
    rough = span / count
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if rough <= factor * power * 1.0000001)


def round_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers within [low, high]."""
    step = step_for(high - low, count)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(position * step, 12) for position in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten within [low, high], with further ticks between them if there are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1,) if len(powers) > 4 else (1, 2, 5) if len(powers) < 3 else (1, 3)
    ticks = [factor * 10.0**power for power in powers for factor in factors]
    return [tick for tick in ticks if low * 0.999999 <= tick <= high * 1.000001]


class Extent(NamedTuple):
    """What an axis must hold: values, and the ends of whiskers. Values alone decide whether it is logarithmic."""

    values: Sequence[float]
    whiskers: Sequence[float] = ()

    def __or__(self, other: "Extent") -> "Extent":
        return Extent([*self.values, *other.values], [*self.whiskers, *other.whiskers])


def value_scale(extent: Extent, begin: float, end: float) -> tuple[Scale, list[float]]:
    """A scale for the values of one metric, with its ticks: from zero, or logarithmic if they span more than 60×."""
    low, high = min(extent.values), max(extent.values)
    if low > _TINY and high / low > 60:
        scale = Scale(low / 1.3, high * 1.3, begin, end, log=True)
        return scale, log_ticks(scale.low, scale.high)
    low, high = min(low, 0.0, *extent.whiskers), max(high, 0.0, *extent.whiskers)
    if min(extent.values) >= 0:
        low = 0.0  # no value is below zero, so the axis need not be
    if high - low < _TINY:
        high = low + 1.0
    step = step_for(high - low, 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = [round(position * step, 12) for position in range(first, last + 1)]
    return Scale(ticks[0], ticks[-1], begin, end), ticks


def short(value: float) -> str:
    """A tick's label: 1,200 as 1.2k."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.6g}{letter}"
    return f"{value:.6g}".replace("-", "−")
