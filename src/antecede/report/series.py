"""Compares series of measured values: which is lowest, and where two of them cross.

Two values count as different only if they differ by more than their spread over seeds and by more than a hundredth.
Smaller differences are chance: they make no series lowest, and lines that lie on each other do not cross.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

from antecede.report import theme
from antecede.report.wording import listed


class Point(NamedTuple):
    """One value. `spread`: the standard deviation over seeds. `published`: the value in print, if there is one."""

    x: float
    ours: float
    spread: float | None
    published: float | None


class Series(NamedTuple):
    """The values of one protocol. `position` decides its colour and marker, the same in every panel of a figure."""

    label: str
    position: int
    points: Sequence[Point]

    @property
    def hue(self) -> str:
        return theme.hue(self.position)


class Crossing(NamedTuple):
    """The lines of two series cross at about (x, y), between two sizes at which their values differ."""

    one: str
    other: str
    x: float
    y: float


def crossings(series: Sequence[Series]) -> list[Crossing]:
    """Find where lines of ours cross. Sizes double, so the distance between two is measured on a logarithmic axis."""
    found = []
    for one, other in combinations(series, 2):
        mine, theirs = ({point.x: point for point in each.points} for each in (one, other))
        apart = [x for x in sorted(mine.keys() & theirs.keys()) if _apart(mine[x], theirs[x])]
        for left, right in pairwise(apart):
            before, after = mine[left].ours - theirs[left].ours, mine[right].ours - theirs[right].ours
            if before * after >= 0:
                continue
            share = before / (before - after)
            if left > 0:
                x = math.exp(math.log(left) + share * (math.log(right) - math.log(left)))
            else:
                x = left + share * (right - left)
            y = mine[left].ours + share * (mine[right].ours - mine[left].ours)
            found.append(Crossing(one.label, other.label, x, y))
    return found


def in_words(series: Sequence[Series], axis: str = "N") -> str:
    """Say which series is lowest, by how much, and whether that changes. The reader knows whether low is good.

    `axis`: what the horizontal axis is called.
    """
    sizes = sorted(set.intersection(*({point.x for point in one.points} for one in series))) if series else []
    if len(series) < 2 or not sizes:
        return ""
    at = {size: {one.label: _point(one, size) for one in series} for size in sizes}
    leader = {size: _lowest(at[size]) for size in sizes}
    led = [size for size in sizes if leader[size]]
    if not led:
        return f"{listed([one.label for one in series])} lie within their spread of each other."
    crossed, last = crossings(series), led[-1]
    ahead = f"{leader[last]} is lowest"
    gap = _gap(at[last])
    if crossed:
        where = listed([f"{cross.one} and {cross.other} near {axis} = {cross.x:,.0f}" for cross in crossed[:4]])
        more = f" (and {len(crossed) - 4} more)" if len(crossed) > 4 else ""
        return f"Lines cross: {where}{more}. At {axis} = {last:,.0f}, {ahead}{gap}."
    if len({leader[size] for size in led}) > 1:
        return f"At {axis} = {last:,.0f}, {ahead}{gap}."
    if led == sizes:
        return (
            f"{ahead} at every {'size' if axis == 'N' else 'point'}{gap} at {axis} = {last:,.0f}."
            if len(sizes) > 1
            else f"{ahead}{gap}."
        )
    return f"{ahead} at {axis} = {listed([f'{size:,.0f}' for size in led])}{gap}; elsewhere within the spread."


def _apart(one: Point, other: Point) -> bool:
    noise = math.hypot(one.spread or 0.0, other.spread or 0.0)
    return abs(one.ours - other.ours) > max(noise, 0.01 * max(abs(one.ours), abs(other.ours)))


def _point(series: Series, size: float) -> Point:
    return next(point for point in series.points if point.x == size)


def _lowest(points: Mapping[str, Point]) -> str:
    """The series that is clearly below all others; "" if two are about equal."""
    (label, low), (_, second), *_ = sorted(points.items(), key=lambda item: item[1].ours)
    return label if _apart(low, second) else ""


def _gap(points: Mapping[str, Point]) -> str:
    (_, low), *_, (label, high) = sorted(points.items(), key=lambda item: item[1].ours)
    if low.ours < 0 or high.ours <= 0:
        return ""
    if low.ours and high.ours / low.ours >= 10:
        return f", {high.ours / low.ours:,.0f} times below {label}"
    return f", {100 * (1 - low.ours / high.ours):.0f} % below {label}"
