"""Divides a square area into cells that serve as topics, so that a subscription to an area is a few filters.

A cell of level 0 is the whole area. Each cell has four cells of the next level, numbered 0 to 3: west or east is the
lower bit, south or north the higher one. A cell is the path to it, coarse first, as in a geohash. Its topic has one
level of the path after the other, so that a filter on a prefix takes all cells within a larger one:

    area/2/1/3      the cell (2, 1, 3)
    area/2/#        that cell and all others in its quarter of the area

Points are pairs (x, y) from 0 to 1, x to the east and y to the north. `from_degrees` makes them from a latitude and a
longitude; there a cell is as high in degrees as half its width.

A publisher publishes on the topic of the cell it is in, at one level on which all agree. A subscriber takes the filters
of `filters`: all cells that a disc around it touches. It also gets messages of these cells from outside the disc, and
has to look at the position in the payload to leave them out (thesis 6.2.2.3).
"""

from typing import TypeAlias

from antecede.core.errors import UsageError

#: The path to a cell: for each level the quarter of the cell before.
Cell: TypeAlias = tuple[int, ...]

#: Cells of the last level are then half a metre wide where the area is the Earth.
LEVEL_MAX = 26


def cell_of(x: float, y: float, level: int) -> Cell:
    """The cell of `level` that holds the point."""
    _check(x, y, level)
    path = []
    for _ in range(level):
        x, y = 2 * x, 2 * y
        east, north = int(x >= 1), int(y >= 1)
        path.append(2 * north + east)
        x, y = x - east, y - north
    return tuple(path)


def corners(cell: Cell) -> tuple[float, float, float, float]:
    """West, south, east and north edge of a cell."""
    west, south, side = 0.0, 0.0, 1.0
    for quarter in cell:
        side /= 2
        west += side * (quarter & 1)
        south += side * (quarter >> 1)
    return west, south, west + side, south + side


def cells_touched(x: float, y: float, radius: float, level: int) -> list[Cell]:
    """The cells of `level` that a disc around the point touches, in order."""
    _check(x, y, level)
    touched: list[Cell] = [()]
    for _ in range(level):
        touched = [
            (*cell, quarter) for cell in touched for quarter in range(4) if _nearest((*cell, quarter), x, y) <= radius
        ]
    return touched


def filters(x: float, y: float, radius: float, level: int, prefix: str = "area") -> list[str]:
    """The fewest topic filters that take all cells of `level` that the disc touches, and no other cell."""
    wanted = set(cells_touched(x, y, radius, level))
    for depth in range(level - 1, -1, -1):  # four quarters are their parent
        for parent in sorted({cell[:depth] for cell in wanted if len(cell) == depth + 1}):
            quarters = {(*parent, quarter) for quarter in range(4)}
            if quarters <= wanted:
                wanted = wanted - quarters | {parent}
    return [topic_of(cell, prefix) + ("" if len(cell) == level else "/#") for cell in sorted(wanted)]


def topic_of(cell: Cell, prefix: str = "area") -> str:
    """The topic of a cell."""
    return "/".join((prefix, *map(str, cell)))


def from_degrees(latitude: float, longitude: float) -> tuple[float, float]:
    """The point of a place on the Earth: x from 180° west, y from the south pole."""
    if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
        raise UsageError(
            "position", f"{latitude}, {longitude}", "is not on the Earth", "give −90 … 90 and −180 … 180 degrees"
        )
    return (longitude + 180) / 360, (latitude + 90) / 180


def _nearest(cell: Cell, x: float, y: float) -> float:
    """The distance from the point to the nearest point of a cell."""
    west, south, east, north = corners(cell)
    across, up = max(west - x, 0.0, x - east), max(south - y, 0.0, y - north)
    return float((across * across + up * up) ** 0.5)


def _check(x: float, y: float, level: int) -> None:
    if not (0 <= x <= 1 and 0 <= y <= 1):
        raise UsageError("point", f"{x}, {y}", "is outside the area", "give numbers from 0 to 1")
    if not 0 <= level <= LEVEL_MAX:
        raise UsageError("level", level, "is out of range", f"choose 0 … {LEVEL_MAX}")
