"""`antecede watch`: audits nodes while they run, and judges brokers of others (`watch_logs`)."""

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
from antecede.cli.watch_logs import Broker, is_broker, watch_broker, with_streams
from antecede.core import UsageError
from antecede.loading import need_extra
from antecede.logs.dependencies import HeaderNames

if TYPE_CHECKING:
    from antecede.spark.watching.view import View

#: The most rows of the table: a terminal cannot show a thousand topics.
_SHOWN_MAX = 20


_NODES = "Nodes of antecede"
_BROKERS = "Brokers of others"


def watch_command(
    target: Annotated[
        list[str] | None,
        typer.Argument(
            help="A broker to judge: nats://host:4222, redis://host:6379, kafka://host:9092. A node:"
            " antecede://host:port.",
            metavar="[URL]...",
        ),
    ] = None,
    streams: Annotated[
        str,
        typer.Option(
            help="Streams or Kafka topics to read, separated by commas; or ?streams=a,b in the url.",
            rich_help_panel=_BROKERS,
        ),
    ] = "",
    own_id: Annotated[
        list[str] | None,
        typer.Option(
            "--id", help="Header with a record's own id, e.g. Nats-Msg-Id; may be repeated.", rich_help_panel=_BROKERS
        ),
    ] = None,
    cause: Annotated[
        list[str] | None,
        typer.Option(
            help="Header with the ids of the records that a record answers: a causation id, an id of a request, links"
            " to spans. May be repeated.",
            rich_help_panel=_BROKERS,
        ),
    ] = None,
    correlation: Annotated[
        list[str] | None,
        typer.Option(
            help="Header that all records of a conversation share, e.g. correlation-id or traceparent. Needs --flow.",
            rich_help_panel=_BROKERS,
        ),
    ] = None,
    flow: Annotated[
        str,
        typer.Option(
            help="Topic filters in the order of a conversation, e.g. 'orders/#,payments/#,shipping/#'.",
            rich_help_panel=_BROKERS,
        ),
    ] = "",
    levels: Annotated[
        int, typer.Option(help="Count topics by their first levels; 0: by whole topics.", rich_help_panel=_BROKERS)
    ] = 1,
    diagram: Annotated[
        Path | None,
        typer.Option(
            help="File for a space-time diagram (SVG) of the earliest answer. Needs the extra lab.",
            rich_help_panel=_BROKERS,
        ),
    ] = None,
    url: Annotated[
        list[str] | None,
        typer.Option(
            "--url", "-u", help="Address of a node, antecede://host:port; may be repeated.", rich_help_panel=_NODES
        ),
    ] = None,
    journal: Annotated[
        list[Path] | None,
        typer.Option(
            "--journal",
            "-j",
            help="Directory of a node, running or stopped; may be repeated.",
            rich_help_panel=_NODES,
        ),
    ] = None,
    topics: Annotated[
        str,
        typer.Option(
            "--topics",
            "-t",
            help="Topic filters, separated by commas. Losses are found only with #.",
            rich_help_panel=_NODES,
        ),
    ] = "#",
    since: Annotated[
        str | None,
        typer.Option(
            help="Start at: earliest, latest; of a node a position or a time; of a broker a cursor or cut. Default:"
            " latest; with --once earliest."
        ),
    ] = None,
    patience: Annotated[
        float,
        typer.Option(
            help="Seconds a node may take to deliver what others have delivered; then it counts as lost.",
            rich_help_panel=_NODES,
        ),
    ] = 10.0,
    interval: Annotated[float, typer.Option(help="Seconds between two updates.")] = 1.0,
    seconds: Annotated[float, typer.Option(help="Stop after this many seconds; 0: at Ctrl-C.")] = 0.0,
    once: Annotated[bool, typer.Option("--once", help="Audit the messages that are there now, then stop.")] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Directory for a checkpoint, from which a later watch continues. Default: none.",
            rich_help_panel=_NODES,
        ),
    ] = None,
    token: Annotated[
        str, typer.Option(envvar="ANTECEDE_TOKEN", help="Token of this client, if the servers ask for one.")
    ] = "",
    tls: Annotated[
        Path | None,
        typer.Option(
            envvar="ANTECEDE_TLS", help="Use TLS with the certificates in this directory.", rich_help_panel=_NODES
        ),
    ] = None,
    clear_token: Annotated[
        bool,
        typer.Option(
            help="Send the token to another machine without TLS too: others on the way can read it.",
            rich_help_panel=_NODES,
        ),
    ] = False,
    cluster: Annotated[
        str, typer.Option(envvar="ANTECEDE_CLUSTER", help="Name of the cluster.", rich_help_panel=_NODES)
    ] = "antecede",
    master: Annotated[
        str | None, typer.Option(help="Spark master, as for `antecede audit`.", rich_help_panel=_NODES)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line: violations, then what was seen.")
    ] = False,
) -> None:
    """Audit nodes or a broker while they run.

    **A broker** (NATS JetStream, Redis Streams, Kafka) is only read. Counted is how often a plain reader of several
    streams is shown an answer before its question, by pair of topics. Which record answers which is taken from
    antecede's header, and from headers of your own: with --id and --cause a record names those it answers; with
    --correlation and --flow records share an id, and their topics have an order.

    **Nodes** are audited by a Spark streaming job (extra spark): violations of order, losses, duplicates, lag and hold
    times. Each message is checked when it is delivered; `antecede audit` checks whole runs.

    Ctrl-C ends it with a summary. Exit code 1: a violation was seen.

    Examples:

        antecede watch nats://127.0.0.1:4222 --streams orders,shipping

        antecede watch kafka://127.0.0.1:9092 --streams orders,shipping --id message-id --cause causation-id --once

        antecede watch redis://127.0.0.1:6379 --streams orders,shipping --correlation traceparent
        --flow 'orders/#,shipping/#' --diagram early.svg

        antecede watch --journal n0 --journal n1

        antecede watch antecede://127.0.0.1:7400 antecede://127.0.0.1:7401 --topics 'rooms/#'
    """
    for name, value in (("--patience", patience), ("--interval", interval)):
        if not (math.isfinite(value) and value > 0):
            raise UsageError(name, value, "is not a length of time", "give seconds, for example 10")
    start = since or ("earliest" if once else "latest")
    brokers = [one for one in target or [] if is_broker(one)]
    nodes = [one for one in [*(target or []), *(url or [])] if one not in brokers]
    if brokers:
        if len(brokers) > 1 or nodes or journal:
            raise UsageError("url", brokers[-1], "stands beside others", "watch one broker at a time, without nodes")
        names = HeaderNames(
            tuple(own_id or ()), tuple(cause or ()), tuple(correlation or ()), tuple(filter(None, flow.split(",")))
        )
        if not watch_broker(
            Broker(
                url=with_streams(brokers[0], streams),
                names=names,
                since=start,
                token=token,
                once=once,
                seconds=seconds,
                interval_s=interval,
                levels=levels,
                diagram=diagram,
                as_json=as_json,
            )
        ):
            raise typer.Exit(1)
        return
    need_extra("spark", "antecede watch")
    common = {"topics": topics, "since": start}
    clear = "true" if clear_token else ""
    access = {"token": token, "tls": str(tls or ""), "clearToken": clear, "cluster": cluster}
    access = {name: value for name, value in access.items() if value}
    places = [{**common, **access, "url": one} for one in nodes]
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
