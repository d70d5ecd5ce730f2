"""Status of nodes as tables for people."""

from typing import Any

from rich.table import Table


def status_tables(status: dict[str, Any]) -> list[Table]:
    """One node: what it is and does, and its members."""
    counts = status["counts"]
    facts = Table(show_header=False, box=None, pad_edge=False)
    facts.add_column(style="dim")
    facts.add_column()
    facts.add_row("node", f"{status['node']} ({status['name']}) of cluster {status['cluster']}")
    facts.add_row("journal", str(status["journal"] or "none: all in memory"))
    facts.add_row("delivered", f"{status['position']:,}, readable from {status['oldest'] + 1:,}")
    facts.add_row("sends to", ", ".join(map(str, status["children"])) or "nobody")
    held = f"{status['held']:,} now; {counts['held']:,} so far"
    if counts["held"]:
        held += f", {counts['held_us'] / counts['held'] / 1000:.2f} ms each"
    facts.add_row("held", held)
    lag = f", {status['behind']} behind, the last by {status['lag_max']:,}" if status["behind"] else ""
    facts.add_row("clients", f"{status['clients'] - 1} beside this one, feeds {status['feeds']}{lag}")
    facts.add_row(
        "published", f"{counts['published']:,}" + (f", dropped {counts['dropped']:,}" if counts["dropped"] else "")
    )
    facts.add_row("links", f"{_size(counts['bytes_sent'])} sent, {_size(counts['bytes_received'])} received")
    if status["refused"]:
        facts.add_row("refused", ", ".join(f"{reason} {count}" for reason, count in status["refused"].items()))
    members = Table(box=None, pad_edge=False)
    for title in ("place", "name", "address", "state", "delivered here"):
        members.add_column(title)
    for member in status["members"]:
        delivered = status["delivered"].get(str(member["node"]), 0)
        members.add_row(
            str(member["node"]), member["name"], member["address"], _colour(member["state"]), f"{delivered:,}"
        )
    return [facts, members]


#: Columns of a cluster's table, and whether they stay on a narrow terminal.
_COLUMNS = {
    "node": True,
    "state": True,
    "delivered": True,
    "a second": False,
    "held": True,
    "clients": False,
    "lag": False,
    "sees up": True,
    "restarts": False,
}
_NARROW = 76


def cluster_table(rows: list[tuple[str, dict[str, Any] | None]], rates: dict[str, float], width: int = 80) -> Table:
    """Several nodes, a line each; None for one that does not answer."""
    table = Table(box=None, pad_edge=False)
    shown = [title for title, always in _COLUMNS.items() if always or width >= _NARROW]
    for title in shown:
        table.add_column(title, justify="left" if title in ("node", "state") else "right", no_wrap=True)
    for name, status in rows:
        cells = {"node": name, "state": "[red]no answer[/]"} if status is None else _cells(name, status, rates)
        table.add_row(*(cells.get(title, "") for title in shown))
    return table


def _cells(name: str, status: dict[str, Any], rates: dict[str, float]) -> dict[str, str]:
    up = sum(member["state"] in ("up", "here") for member in status["members"])
    return {
        "node": name,
        "state": "[yellow]busy[/]" if status["busy"] else "[green]up[/]",
        "delivered": f"{status['position']:,}",
        "a second": f"{rates.get(name, 0):,.0f}",
        "held": f"{status['held']:,}",
        "clients": str(status["clients"] - 1),  # who asks is one of them
        "lag": f"{status['lag_max']:,}",
        "sees up": f"{up} of {len(status['members'])}",
        "restarts": str(max(0, status["incarnation"] - 1)),
    }


def _colour(state: str) -> str:
    return {"up": "[green]up[/]", "down": "[red]down[/]", "left": "[dim]left[/]", "here": "[bold]here[/]"}.get(
        state, state
    )


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
