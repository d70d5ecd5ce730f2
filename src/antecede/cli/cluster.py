"""`antecede cluster`: runs several nodes on this machine and shows their state; forgets a node; advises on slots."""

import asyncio
import contextlib
import signal
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from antecede.cli.access import Access, with_access
from antecede.cli.node import former_protocol
from antecede.cli.tables import cluster_table
from antecede.client.bus import Bus
from antecede.client.connect import connect
from antecede.core import AntecedeError, UsageError
from antecede.loading import need_extra
from antecede.node.config import make_config
from antecede.node.local_cluster import NODES_MAX, LocalCluster
from antecede.wire.address import PORT_DEFAULT

app = typer.Typer(
    help="Run several nodes on this machine, forget a node, or choose slots by latency.", invoke_without_command=True
)


@app.callback()
def cluster_command(
    context: typer.Context,
    nodes: Annotated[int, typer.Option("--nodes", "-n", help="How many nodes.")] = 8,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            help="Directory for journals and logs. A directory used before continues its cluster. Default: a new one.",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(help="Port of the first node; the others take the next free ports.")
    ] = PORT_DEFAULT,
    seconds: Annotated[float, typer.Option(help="Stop after this many seconds; 0: at Ctrl-C.")] = 0.0,
    protocol: Annotated[str, typer.Option(help="How messages spread: vcube, locamu, gossip or total.")] = "vcube",
    overlay: Annotated[str | None, typer.Option(hidden=True, help="The former name of --protocol.")] = None,
    managers: Annotated[
        int, typer.Option(help="For total: how many nodes number the messages together; a minority may be down.")
    ] = 1,
) -> None:
    """Run several nodes on this machine, a process each, until Ctrl-C, and show a table of their state.

    Example, in three terminals:

        antecede cluster --nodes 4

        antecede sub '#'

        antecede pub rooms/1 hello --url antecede://127.0.0.1:7402

    The first node listens at the default address of `pub` and `sub`, the others on the next ports. Kill a node
    (`kill -9 <pid>`): the table shows when the others detect it, and `sub` reconnects to another node.
    """
    if context.invoked_subcommand is not None:
        return
    if not 1 <= nodes <= NODES_MAX:
        raise UsageError("--nodes", nodes, "is out of range", f"use 1 … {NODES_MAX}")
    settings = {"protocol": former_protocol(overlay) or protocol, "managers": managers}
    # Refuse wrong settings before anything starts.
    make_config(settings | {"slots": nodes, "port": port})
    asyncio.run(_run(directory or Path(tempfile.mkdtemp(prefix="antecede-")), nodes, port, seconds, settings))


@app.command("forget")
@with_access
def forget_command(
    name: Annotated[str, typer.Argument(help="Name of the node, as `antecede status` shows it.")],
    access: Access,
) -> None:
    """Say that a node is gone for good. The node must be down.

    Example:

        antecede cluster forget n5 --url antecede://127.0.0.1:7400

    The other nodes keep nothing for it any more, and its slot is free for another node. Messages that it published and
    that no other node has delivered are lost. Should it come back with its old directory, it is refused: start it with
    an empty one, and it joins anew. A node that can still be started should leave instead (`antecede node --leave`).
    """

    async def ask(bus: Bus) -> None:
        typer.echo(await bus.forget(name))

    access.run(ask)


@app.command("placement")
def placement_command(
    file: Annotated[
        Path, typer.Argument(help="Round-trip times in ms: a square matrix, a row a line, as `ping` measures them.")
    ],
    names: Annotated[
        str, typer.Option(help="Names of the nodes in the order of the rows: a,b,c. Default: 0, 1, …")
    ] = "",
) -> None:
    """Advise which node should take which slot, so that messages travel over short links.

    Example, with three nodes whose round-trip times were measured:

        antecede cluster placement rtt.txt --names paris,lyon,tokyo

    Each node asks for its slot when it joins (`slot = N` in its settings). A node that has joined keeps its slot. Nodes
    do not measure round-trip times themselves; slots are not changed while a cluster runs.
    """
    need_extra("lab", "cluster placement")
    from antecede.overlay.placement import mean_path_latency, place  # noqa: PLC0415 - NumPy, which a node does without
    from antecede.sim.matrix import count_rows, read_one_way  # noqa: PLC0415 - the lab

    count = count_rows(str(file))
    chosen = names.split(",") if names else [str(number) for number in range(count)]
    if len(chosen) != count:
        raise UsageError("--names", names, f"names {len(chosen)} nodes; {file} has {count} rows", "name each row once")
    one_way = read_one_way(str(file), count)
    placed = place(one_way)
    before, after = (mean_path_latency(one_way, order, range(count)) / 1e6 for order in (range(count), placed))
    for slot, row in enumerate(placed):
        typer.echo(f"slot = {slot:<4} {chosen[row]}")
    typer.echo(f"mean from a publisher to a subscriber: {after:.1f} ms; in the order of the file {before:.1f} ms")


async def _run(directory: Path, nodes: int, port: int, seconds: float, settings: dict[str, Any]) -> None:
    console = Console()
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    local = LocalCluster(directory, nodes=nodes, first_port=port, http=True, **settings)
    starting = f"starting {nodes} node{'s' if nodes > 1 else ''}, journals and logs in {directory}"
    console.print(starting, highlight=False, soft_wrap=True)
    async with local as cluster:
        for node in range(nodes):
            console.print(f"  n{node}  pid {cluster.processes[node].pid}  {cluster.url(node)}", highlight=False)
        console.print(f"status page of n0: {cluster.page}", highlight=False)
        deadline = loop.time() + seconds if seconds else None
        table = _Table(cluster)
        with Live(console=console, auto_refresh=False, transient=not console.is_terminal) as live:
            while not stopping.is_set() and (deadline is None or loop.time() < deadline):
                live.update(await table.look(console.width), refresh=True)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stopping.wait(), 1.0)
        console.print("stopping")
    console.print(f"stopped; journals are in {directory}", highlight=False, soft_wrap=True)


class _Table:
    """Asks every node for its status and computes rates between two answers."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._before: dict[str, tuple[float, int]] = {}

    async def look(self, width: int) -> Any:
        names = [f"n{node}" for node in range(self._cluster.count)]
        found = await asyncio.gather(*[self._ask(node) for node in range(self._cluster.count)])
        rates: dict[str, float] = {}
        now = time.monotonic()
        for name, status in zip(names, found, strict=True):
            if status is not None:
                then, position = self._before.get(name, (now, status["position"]))
                rates[name] = (status["position"] - position) / (now - then) if now > then else 0.0
                self._before[name] = (now, status["position"])
        return cluster_table(list(zip(names, found, strict=True)), rates, width)

    async def _ask(self, node: int) -> dict[str, Any] | None:
        try:
            async with (
                asyncio.timeout(3.0),
                connect(self._cluster.url(node), name="status", cluster=self._cluster.cluster, timeout_s=2.0) as bus,
            ):
                return await bus.status()
        except (AntecedeError, TimeoutError):
            return None
