"""`antecede watch`: audits nodes while they run."""

import contextlib
import json
import math
import signal
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.live import Live

from antecede.cli.printing import printable
from antecede.cli.tables import cell, make_table, wide_console
from antecede.core import UsageError

if TYPE_CHECKING:
    from antecede.spark.watching.view import View

#: The most rows of the table: a terminal cannot show a thousand topics.
_SHOWN_MAX = 20


def watch_command(
    url: Annotated[
        list[str] | None, typer.Option("--url", "-u", help="Address of a node, antecede://host:port; may be repeated.")
    ] = None,
    journal: Annotated[
        list[Path] | None,
        typer.Option("--journal", "-j", help="Directory of a node, running or stopped; may be repeated."),
    ] = None,
    topics: Annotated[
        str, typer.Option("--topics", "-t", help="Topic filters, separated by commas. Losses are found only with #.")
    ] = "#",
    since: Annotated[
        str | None,
        typer.Option(help="Start at: earliest, latest, a position or a time. Default: latest; with --once earliest."),
    ] = None,
    patience: Annotated[
        float,
        typer.Option(help="Seconds a node may take to deliver what others have delivered; then it counts as lost."),
    ] = 10.0,
    interval: Annotated[float, typer.Option(help="Seconds between two updates.")] = 1.0,
    seconds: Annotated[float, typer.Option(help="Stop after this many seconds; 0: at Ctrl-C.")] = 0.0,
    once: Annotated[bool, typer.Option("--once", help="Audit the messages that are there now, then stop.")] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Directory for a checkpoint, from which a later watch continues. Default: none.")
    ] = None,
    token: Annotated[
        str, typer.Option(envvar="ANTECEDE_TOKEN", help="Token of this client, if the nodes ask for one.")
    ] = "",
    tls: Annotated[
        Path | None, typer.Option(envvar="ANTECEDE_TLS", help="Use TLS with the certificates in this directory.")
    ] = None,
    clear_token: Annotated[
        bool, typer.Option(help="Send the token to another machine without TLS too: others on the way can read it.")
    ] = False,
    cluster: Annotated[str, typer.Option(envvar="ANTECEDE_CLUSTER", help="Name of the cluster.")] = "antecede",
    master: Annotated[str | None, typer.Option(help="Spark master, as for `antecede audit`.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line: violations, topics, sources.")
    ] = False,
) -> None:
    """Audit running nodes with a Spark streaming job: violations of order, losses, duplicates, lag and hold times.

    Each message is checked when it is delivered, against the predecessors it names; `antecede audit` checks whole
    runs. Exit code 1: a violation was seen, also after Ctrl-C.

    Examples:

        antecede watch --journal n0 --journal n1

        antecede watch --url antecede://127.0.0.1:7400 --url antecede://127.0.0.1:7401 --topics 'rooms/#'

        antecede watch --journal n0 --once --json
    """
    for name, value in (("--patience", patience), ("--interval", interval)):
        if not (math.isfinite(value) and value > 0):
            raise UsageError(name, value, "is not a length of time", "give seconds, for example 10")
    common = {"topics": topics, "since": since or ("earliest" if once else "latest")}
    clear = "true" if clear_token else ""
    access = {"token": token, "tls": str(tls or ""), "clearToken": clear, "cluster": cluster}
    access = {name: value for name, value in access.items() if value}
    places = [{**common, **access, "url": one} for one in url or []]
    places += [{**common, "journal": str(one)} for one in journal or []]

    from antecede.cli.progress import start_spark  # noqa: PLC0415
    from antecede.spark.watching.watch import Watch, name_nodes  # noqa: PLC0415

    named = name_nodes(places)
    show = _Lines() if as_json else _Screen()
    session = start_spark(master, short=True, quiet=as_json)
    until = time.monotonic() + seconds if seconds > 0 else math.inf
    made = partial(
        Watch,
        session,
        named,
        patience_s=patience,
        interval_s=interval,
        once=once,
        checkpoint=checkpoint,
        tell=show.tell,
    )
    with _until_stopped() as stopped, made() as watch:
        with show.started(watch.view, named):
            while not watch.ended() and time.monotonic() < until:
                stopped.wait(max(0.0, min(0.5, until - time.monotonic())))
                if stopped.is_set():
                    break
                show.tell([], watch.look())
        ok = watch.view.ok
    show.ended(watch.view)
    if not ok:
        raise typer.Exit(1)


@contextlib.contextmanager
def _until_stopped() -> Iterator[threading.Event]:
    """Give an event that Ctrl-C sets. An exception in the middle of a call to Spark would leave the session broken."""
    stopped = threading.Event()
    before = {number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Lines:
    """Prints JSON, an object a line."""

    def started(self, view: "View", places: dict[str, dict[str, str]]) -> "_Lines":
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

    def tell(self, rows: list[dict[str, Any]], told: list[dict[str, Any]]) -> None:
        seen = [row for row in rows if row["kind"] != "violation"]
        for row in (*told, *seen):
            sys.stdout.write(json.dumps({name: value for name, value in row.items() if value is not None}) + "\n")
        sys.stdout.flush()

    def ended(self, view: "View") -> None:
        sys.stdout.write(json.dumps({"kind": "end", "delivered": view.delivered, "violations": view.violations}) + "\n")


class _Screen:
    """Prints a line for each violation and keeps a table up to date; without a terminal the table comes at the end."""

    def __init__(self) -> None:
        self._console = wide_console()
        self._live: Live | None = None
        self._view: View | None = None

    def started(self, view: "View", places: dict[str, dict[str, str]]) -> "_Screen":
        self._view = view
        for name, place in places.items():
            self._console.print(f"{name}: {place.get('url') or place.get('journal')}", highlight=False, markup=False)
        return self

    def __enter__(self) -> None:
        if self._console.is_terminal and self._view is not None:
            self._live = Live(_tables(self._view), console=self._console, auto_refresh=False, transient=True)
            self._live.start()

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def tell(self, rows: list[dict[str, Any]], told: list[dict[str, Any]]) -> None:
        for row in told:
            line = f"{time.strftime('%H:%M:%S')} {row['rule']} violated: {printable(row['words'])}"
            self._console.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
        if self._live is not None and self._view is not None:
            self._live.update(_tables(self._view), refresh=True)

    def ended(self, view: "View") -> None:
        self._console.print(_tables(view))


def _tables(view: "View") -> Group:
    nodes = make_table("node", "delivered", "behind", left=("node",))
    for node in view.nodes:
        nodes.add_row(cell(node), f"{view.delivered[node]:,}", f"{view.behind(node):,}")
    titles = ("node", "topic", "messages", "lag ms: median", "99 %", "most", "held", "longest ms")
    topics = make_table(*titles, left=("node", "topic"))
    latest = sorted([*view.topics.items()][-_SHOWN_MAX:])
    for (node, topic), one in latest:
        times = (f"{value:,.1f}" for value in (one.lag_ms_median, one.lag_ms_p99, one.lag_ms_max))
        topics.add_row(cell(node), cell(topic), f"{one.messages:,}", *times, f"{one.held:,}", f"{one.hold_ms_max:,.1f}")
    said = ", ".join(f"{rule} {count:,}" for rule, count in view.violations.items())
    verdict = f"[bold red]violations: {said}[/]" if said else "[green]no violation[/]"
    return Group(nodes, topics, verdict)
