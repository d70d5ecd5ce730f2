"""A cluster's table fits the terminal it is shown on."""

import io

import pytest
from rich.console import Console

from antecede.cli.tables import cluster_table

STATUS = {
    "members": [{"state": "here"}, {"state": "up"}, {"state": "down"}],
    "busy": False,
    "position": 1_234_567,
    "held": 3,
    "clients": 2,
    "lag_max": 17,
    "incarnation": 2,
}


@pytest.mark.parametrize(("width", "titles"), [(80, 9), (50, 5)])
def test_it_fits(width: int, titles: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    table = cluster_table([("n0", STATUS), ("n1", None)], {"n0": 12.0}, width)
    console.print(table)
    head, up, down = console.file.getvalue().rstrip("\n").split("\n")  # type: ignore[attr-defined]
    assert len(table.columns) == titles
    assert "…" not in head + up + down
    assert "1,234,567" in up
    assert "2 of 3" in up
    assert "no answer" in down
