"""Reads a square matrix of round-trip times in milliseconds, as measurement projects publish them.

One row a line, values separated by white space or commas, a zero diagonal. One millisecond counts as one unit of time,
and a packet takes half the round trip.
"""

from pathlib import Path

from antecede.core import UsageError
from antecede.sim.units import TICKS


def read_one_way(path: str, nodes: int) -> list[list[int]]:
    """One-way propagation times in ticks between the first `nodes` nodes of the file."""
    lines = _lines(path)
    if len(lines) < nodes:
        raise UsageError(
            "matrix file",
            path,
            f"has {len(lines)} rows, {nodes} nodes were asked for",
            f"use at most {len(lines)} nodes",
        )
    rows: list[list[int]] = []
    for number, line in enumerate(lines[:nodes], start=1):
        if len(line) < nodes:
            raise UsageError(
                "matrix file", path, f"row {number} has {len(line)} values, {nodes} are needed", "use a square matrix"
            )
        try:
            rtts = [float(value) for value in line[:nodes]]
        except ValueError as error:
            raise UsageError("matrix file", path, f"row {number}: {error}", "every value must be a number") from None
        bad = next((value for value in rtts if not 0 <= value < float("inf")), None)
        if bad is not None:
            raise UsageError("matrix file", path, f"row {number} has the value {bad}", "times are 0 or more")
        rows.append([round(value / 2 * TICKS) for value in rtts])
    return rows


def count_rows(path: str) -> int:
    """How many nodes the file has."""
    return len(_lines(path))


def _lines(path: str) -> list[list[str]]:
    try:
        text = Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not plain text"
        raise UsageError("matrix file", path, f"cannot be read ({reason})", "name a text file of numbers") from None
    return [line.replace(",", " ").split() for line in text.splitlines() if line.strip()]
