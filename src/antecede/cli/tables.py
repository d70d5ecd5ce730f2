"""Makes tables for a terminal: of results, and of the status of nodes."""

import time
from collections.abc import Collection, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from antecede.cli.printing import printable
from antecede.core.partitions import split_stream


def wide_console() -> Console:
    """Return a console that is wide enough for tables where the output is a file or a pipe."""
    console = Console()
    return console if console.is_terminal else Console(width=160)


def make_table(*titles: str, left: Collection[str] = (), title: str | None = None) -> Table:
    """Return a table with these columns: those in `left` begin at the left, numbers end at the right."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for one in titles:
        table.add_column(one, justify="left" if one in left else "right")
    return table


def fact_table(facts: Mapping[str, str], *, right: bool = True) -> Table:
    """Return a table to be read downwards: names, and values behind them."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(justify="right" if right else "left")
    for name, value in facts.items():
        table.add_row(name, value)
    return table


def status_tables(status: dict[str, Any]) -> list[Table]:
    """Return the tables for one node: its own state, its members, and the partitions it takes if there are several."""
    counts = status["counts"]
    facts = {}
    facts["node"] = f"{status['node']} ({cell(status['name'])}) of cluster {cell(status['cluster'])}"
    facts["journal"] = cell(status["journal"] or "none: all in memory")
    facts["delivered"] = f"{status['position']:,}, readable from {status['oldest'] + 1:,}"
    facts["sends to"] = ", ".join(map(str, status["children"])) or "no node"
    facts["held"] = f"{status['held']:,} now; {counts['held']:,} so far"
    if counts["held"]:
        facts["held"] += f", {counts['held_us'] / counts['held'] / 1000:.2f} ms each"
    lag = f", {status['behind']} behind, at most by {status['lag_max']:,}" if status["behind"] else ""
    facts["clients"] = f"{status['clients'] - 1} beside this one; feeds {status['feeds']}{lag}"
    dropped = f", dropped {counts['dropped']:,}" if counts["dropped"] else ""
    late = f", late {counts['late']:,}" if counts.get("late") else ""  # a node of an earlier version does not tell
    facts["published"] = f"{counts['published']:,}{dropped}{late}"
    facts["links"] = f"{_size(counts['bytes_sent'])} sent, {_size(counts['bytes_received'])} received"
    expires_s = status.get("certificate_expires_s")  # a node of an earlier version does not tell
    if expires_s is not None:
        facts["certificate"] = f"good until {time.strftime('%Y-%m-%d', time.gmtime(expires_s))}"
    if status["refused"]:
        facts["refused"] = ", ".join(f"{cell(reason)} {count}" for reason, count in status["refused"].items())
    titles = ("slot", "name", "address", "state", "last delivered")
    members = make_table(*titles, left=titles)
    for member in status["members"]:
        delivered = sum([seq for at, seq in status["delivered"].items() if split_stream(int(at))[1] == member["node"]])
        members.add_row(
            str(member["node"]),
            cell(member["name"]),
            cell(member["address"]),
            _colour(member["state"]),
            f"{delivered:,}",
        )
    tables = [fact_table(facts, right=False), members]
    if status.get("partitions"):  # a node of an earlier version does not tell
        columns = ("partition", "taken because", "homes", "members", "delivered", "published", "lacking")
        partitions = make_table(*columns, left=columns)
        for one in status["partitions"]:
            homes, takers = [", ".join(map(str, one[name])) for name in ("homes", "members")]
            why = ", ".join(one["why"]) or "not taken: publishes"
            figures = [f"{one.get(name, 0):,}" for name in ("delivered", "published", "lacking")]
            partitions.add_row(str(one["partition"]), why, homes, takers, *figures)
        tables.append(partitions)
    return tables


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
    """Return a table of several nodes, a row each; None as status: the node does not answer."""
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
        "clients": str(status["clients"] - 1),  # one of them is the client that asked
        "lag": f"{status['lag_max']:,}",
        "sees up": f"{up} of {len(status['members'])}",
        "restarts": str(max(0, status["incarnation"] - 1)),
    }


def cell(text: str) -> str:
    """Return text from another machine as it may stand in a table: without control characters, not as markup."""
    return escape(printable(text))


def _colour(state: str) -> str:
    return {"up": "[green]up[/]", "down": "[red]down[/]", "left": "[dim]left[/]", "here": "[bold]here[/]"}.get(
        state, cell(state)
    )


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
