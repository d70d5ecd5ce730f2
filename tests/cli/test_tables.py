"""A cluster's table fits the terminal it is shown on."""

import io

import pytest
from rich.console import Console

from antecede.cli.tables import cluster_table, status_tables

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


def test_a_member_cannot_put_markup_or_control_characters_into_the_table() -> None:
    console = Console(file=io.StringIO(), width=120)
    member = {"node": 1, "name": "[red]n1\x1b[2J", "address": "10.0.0.1:7400", "state": "up"}
    counts = {"held": 0, "held_us": 0, "published": 0, "dropped": 0, "bytes_sent": 0, "bytes_received": 0}
    status = STATUS | {
        **{"node": 0, "name": "n0", "cluster": "antecede", "journal": None, "oldest": 0, "children": [], "behind": 0},
        **{"feeds": 0, "refused": {}, "delivered": {}, "counts": counts, "members": [member]},
        "certificate_expires_s": 1_800_000_000.0,
    }
    for table in status_tables(status):
        console.print(table)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert r"[red]n1\x1b[2J" in said
    assert "\x1b" not in said
    assert "good until 2027-01-15" in said
