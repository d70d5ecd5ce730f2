"""The live system from a shell: `antecede node`, `pub`, `sub`, `status`, `cert`, `token`."""

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from antecede.client.bus import Bus, parse_durability
from antecede.client.connect import connect
from antecede.client.message import Message, MessageId
from antecede.core import UsageError
from antecede.node.config import NodeConfig, load_config, make_config
from antecede.node.node import Node
from antecede.node.run import run_node
from antecede.wire.address import PORT_DEFAULT
from antecede.wire.topics import check_topic

Url = Annotated[
    str,
    typer.Option(
        "--url", "-u", envvar="ANTECEDE_URL", help="The node: antecede://host:port; several with commas, tried in turn."
    ),
]
Token = Annotated[str, typer.Option(envvar="ANTECEDE_TOKEN", help="What this client may do, where nodes ask.")]
Tls = Annotated[
    Path | None, typer.Option(envvar="ANTECEDE_TLS", help="A directory made by `antecede cert init`: use TLS.")
]
Cluster = Annotated[str, typer.Option(envvar="ANTECEDE_CLUSTER", help="The cluster's name.")]

DEFAULT_URL = f"antecede://127.0.0.1:{PORT_DEFAULT}"


def node_command(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="A TOML file; options below replace it.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Tells nodes apart. Default: host:port.")] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. Off loopback TLS and tokens are asked.")
    ] = None,
    port: Annotated[int | None, typer.Option(help=f"Port to listen on; 0: any. Default {PORT_DEFAULT}.")] = None,
    seed: Annotated[list[str] | None, typer.Option(help="host:port of a node to join through; repeat.")] = None,
    slots: Annotated[int | None, typer.Option(help="Places in the cube, the same at all nodes. Default 16.")] = None,
    overlay: Annotated[
        str | None, typer.Option(help="vcube, locamu, gossip or total, the same at all nodes. Default vcube.")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Journal and place of the node. Without: all in memory.")
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="The cluster's name. Default antecede.")] = None,
    tls: Annotated[Path | None, typer.Option(help="A directory made by `antecede cert init`.")] = None,
    certificate: Annotated[str | None, typer.Option(help="This node's certificate in it. Default node.")] = None,
    tokens: Annotated[Path | None, typer.Option(help="A file made by `antecede token`: clients and grants.")] = None,
    http_port: Annotated[int | None, typer.Option(help="Serve a page, /health, /metrics here. Default: not.")] = None,
    leave: Annotated[bool, typer.Option(help="Give the place up for good when stopped.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what goes on.")] = False,
) -> None:
    """Run a node until Ctrl-C.

    Examples:

        antecede node                                          (alone, in memory, on port 7400)

        antecede node --dir n0 --http-port 9400

        antecede node --dir n1 --port 7401 --seed 127.0.0.1:7400

        antecede node --config node.toml

    A config file holds the same names: `port = 7401`, `seeds = ["127.0.0.1:7400"]`, `directory = "n1"`.
    """
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(asctime)s %(levelname)s %(message)s"
    )
    options: dict[str, Any] = {
        "name": name,
        "host": host,
        "port": port,
        "seeds": seed or None,
        "slots": slots,
        "overlay": overlay,
        "directory": None if directory is None else directory.absolute(),
        "cluster": cluster,
        "tls": None if tls is None else tls.absolute(),
        "certificate": certificate,
        "tokens": None if tokens is None else tokens.absolute(),
        "http_port": http_port,
    }
    if config is not None:
        settings: NodeConfig = load_config(config, **options)
    else:
        settings = make_config({key: value for key, value in options.items() if value is not None})

    def ready(node: Node) -> None:
        typer.echo(f"node {node.slot} ({node.name}) of cluster {node.config.cluster} at {node.url}")
        if node.http is not None:
            typer.echo(f"a page, /health and /metrics at http://{node.config.host}:{node.http.port}/")
        if node.journal is None:
            typer.echo("in memory: what it holds is gone when it stops; --dir keeps it")

    asyncio.run(run_node(settings, ready, leave=leave))


def pub_command(
    topic: Annotated[str, typer.Argument(help="For example rooms/42/chat.")],
    message: Annotated[str, typer.Argument(help="The message; - reads one a line from standard input.")] = "-",
    url: Url = DEFAULT_URL,
    header: Annotated[list[str] | None, typer.Option("--header", "-H", help="name=value; repeat.")] = None,
    after: Annotated[
        list[str] | None, typer.Option(help="The message it follows, by id (3.17); repeat. Default: none from here.")
    ] = None,
    durability: Annotated[
        str | None, typer.Option(help="memory, disk or replicated(k). Default: as safe as the node is by itself.")
    ] = None,
    token: Token = "",
    tls: Tls = None,
    cluster: Cluster = "antecede",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print the ids.")] = False,
) -> None:
    """Publish a message, or one for each line of standard input, and print the ids it got.

    Examples:

        antecede pub rooms/42/chat "hello"

        tail -f log | antecede pub logs/web -
    """
    check_topic(topic)
    parse_durability(durability)
    headers = dict(_pair(text) for text in header or [])
    follows = [MessageId.parse(text) for text in after or []] or None

    async def publish(bus: Bus) -> None:
        loop = asyncio.get_running_loop()
        while True:
            line = message.encode() if message != "-" else await loop.run_in_executor(None, sys.stdin.buffer.readline)
            if message == "-":
                if not line:
                    return
                line = line.rstrip(b"\r\n")
            identity = await bus.publish(topic, line, headers=headers, after=follows, durability=durability)
            if not quiet:
                typer.echo(str(identity))
            if message != "-":
                return

    asyncio.run(_with(url, token, tls, cluster, publish))


def sub_command(
    filters: Annotated[list[str], typer.Argument(help="Topic filters: + is one level, # the rest.")],
    url: Url = DEFAULT_URL,
    since: Annotated[
        str | None, typer.Option(help="A cursor to go on behind, or 0 for everything the node still has.")
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", help="Stop after so many messages; 0: never.")] = 0,
    order: Annotated[str, typer.Option(help="causal, total (clusters with that overlay), fifo or none.")] = "causal",
    policy: Annotated[str, typer.Option(help="When this reader lags: block, drop_oldest or disconnect.")] = "block",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a message.")] = False,
    token: Token = "",
    tls: Tls = None,
    cluster: Cluster = "antecede",
) -> None:
    """Print messages as they come: what follows another is printed after it.

    Examples:

        antecede sub 'questions/#' 'answers/#'

        antecede sub '#' --since 0 --json | jq .topic
    """

    async def read(bus: Bus) -> None:
        left = count
        async with bus.subscribe(*filters, since=since, order=order, policy=policy) as feed:  # type: ignore[arg-type]
            async for message in feed:
                _show(message, as_json)
                left -= 1
                if left == 0:
                    return

    try:
        asyncio.run(_with(url, token, tls, cluster, read))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # `| head` has seen enough


def status_command(
    url: Url = DEFAULT_URL,
    as_json: Annotated[bool, typer.Option("--json", help="Everything, as one JSON object.")] = False,
    token: Token = "",
    tls: Tls = None,
    cluster: Cluster = "antecede",
) -> None:
    """How a node and its cluster are: members, what it delivered, what it holds, who lags."""
    from antecede.cli.live_tables import status_tables  # noqa: PLC0415 - rich tables are for people only

    async def ask(bus: Bus) -> None:
        status = await bus.status()
        if as_json:
            typer.echo(json.dumps(status, indent=2))
        else:
            console = Console()
            for table in status_tables(status):
                console.print(table)

    asyncio.run(_with(url, token, tls, cluster, ask))


async def _with(url: str, token: str, tls: Path | None, cluster: str, do: Any) -> None:
    async with connect(url, name="command line", token=token, tls=tls, cluster=cluster) as bus:
        await do(bus)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError("--header", text, "is not name=value", "write for example --header lang=en")
    return name, value


def _show(message: Message, as_json: bool) -> None:
    if as_json:
        try:
            body: dict[str, str] = {"payload": message.payload.decode()}
        except UnicodeDecodeError:
            body = {"payload_hex": message.payload.hex()}
        typer.echo(
            json.dumps(
                {
                    "id": str(message.id),
                    "topic": message.topic,
                    **body,
                    "headers": message.headers,
                    "cursor": message.cursor,
                    "time_us": message.time_us,
                    "held_ms": message.held_ms,
                    "after": [str(one) for one in message.after],
                    "out_of_order": message.out_of_order,
                }
            )
        )
    else:
        typer.echo(f"{message.topic}\t{message.payload.decode(errors='backslashreplace')}")
    sys.stdout.flush()
