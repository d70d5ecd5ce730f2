"""`antecede node`: runs one node."""

import logging
import warnings
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from antecede.wire.address import PORT_DEFAULT, join_address

#: By setting: what listens there.
_MQTT: Final = {"mqtt_port": "MQTT", "mqtts_port": "MQTT over TLS", "ws_port": "MQTT over WebSocket"}


def node_command(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="A TOML file with settings; the options below override it.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the node, unique in its cluster. Default: host:port.")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on. Other than loopback it needs --tls and --tokens. Default 127.0.0.1."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help=f"Port to listen on; 0: any free one. Default {PORT_DEFAULT}.")
    ] = None,
    seed: Annotated[
        list[str] | None, typer.Option(help="host:port of a node to join the cluster through; may be repeated.")
    ] = None,
    slots: Annotated[
        int | None, typer.Option(help="The most nodes the cluster has at a time, equal at all nodes. Default 256.")
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(help="How messages spread: vcube, locamu, gossip or total; equal at all nodes. Default vcube."),
    ] = None,
    overlay: Annotated[str | None, typer.Option(hidden=True, help="The former name of --protocol.")] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Directory for the journal. Without it the node keeps all in memory.")
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Name of the cluster. Default antecede.")] = None,
    tls: Annotated[
        Path | None, typer.Option(help="Use TLS with the certificates in this directory (see `antecede cert init`).")
    ] = None,
    certificate: Annotated[
        str | None, typer.Option(help="Name of this node's certificate in that directory. Default node.")
    ] = None,
    cluster_key: Annotated[
        Path | None,
        typer.Option(
            help="File with the key by which nodes without TLS know each other; created if it does not exist. Default: "
            "the file that ANTECEDE_CLUSTER_KEY names, else one for all nodes of this user."
        ),
    ] = None,
    tokens: Annotated[
        Path | None, typer.Option(help="File with the clients and their grants (see `antecede token`).")
    ] = None,
    http_port: Annotated[
        int | None,
        typer.Option(
            help="Serve HTTP on this port: a status page, /health, /metrics, and topics to publish on and read "
            "(docs/http.md). Default: none."
        ),
    ] = None,
    http_host: Annotated[
        str | None,
        typer.Option(
            help="Address for that port. Other than loopback it is HTTPS, and asks for a token made with --status. "
            "Default: that of --host."
        ),
    ] = None,
    http_files: Annotated[
        Path | None, typer.Option(help="Serve the files of this directory below /app/ of the HTTP port.")
    ] = None,
    http_origin: Annotated[
        list[str] | None,
        typer.Option(
            help="A site whose pages may use HTTP and WebSocket, as https://host:port; may be repeated. "
            "Default: only pages that the node serves."
        ),
    ] = None,
    mqtt_port: Annotated[int | None, typer.Option(help="Serve MQTT clients on this port. Default: none.")] = None,
    mqtts_port: Annotated[
        int | None, typer.Option(help="Serve MQTT clients over TLS on this port; needs --tls. Default: none.")
    ] = None,
    ws_port: Annotated[
        int | None, typer.Option(help="Serve MQTT clients over WebSocket on this port. Default: none.")
    ] = None,
    leave: Annotated[
        bool,
        typer.Option(help="When it stops, leave the cluster for good: the others then keep no messages for this node."),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log informational messages too.")] = False,
) -> None:
    """Run one node until Ctrl-C.

    Examples:

        antecede node                                              (alone, in memory, on port 7400)

        antecede node --dir n0 --http-port 9400                    (with a journal, a status page and topics over HTTP)

        antecede node --mqtt-port 1883 --ws-port 9401              (for MQTT clients, over TCP and WebSocket)

        antecede node --dir n1 --port 7401 --seed 127.0.0.1:7400   (joins the node above)

        antecede node --config node.toml

    A config file has the settings by name: `port = 7401`, `seeds = ["127.0.0.1:7400"]`, `directory = "n1"`.
    """
    from antecede.node.config import load_config, make_config  # noqa: PLC0415 - a node takes a while to import
    from antecede.node.event_loop import run_on_loop  # noqa: PLC0415
    from antecede.node.run import run_node  # noqa: PLC0415

    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.captureWarnings(True)
    warnings.filterwarnings("default", "the setting ", DeprecationWarning)  # of a former name in the file
    options: dict[str, Any] = {
        "name": name,
        "host": host,
        "port": port,
        "seeds": seed or None,
        "slots": slots,
        "protocol": former_protocol(overlay) or protocol,
        "directory": None if directory is None else directory.absolute(),
        "cluster": cluster,
        "tls": None if tls is None else tls.absolute(),
        "certificate": certificate,
        "cluster_key": None if cluster_key is None else cluster_key.absolute(),
        "tokens": None if tokens is None else tokens.absolute(),
        "http_port": http_port,
        "http_host": http_host,
        "http_files": None if http_files is None else http_files.absolute(),
        "http_origins": http_origin or None,
        "mqtt_port": mqtt_port,
        "mqtts_port": mqtts_port,
        "ws_port": ws_port,
    }
    if config is not None:
        settings = load_config(config, **options)
    else:
        settings = make_config({key: value for key, value in options.items() if value is not None})
    run_on_loop(settings, run_node(settings, _print_address, leave=leave))


def former_protocol(overlay: str | None) -> str | None:
    """The value of the option's former name, which works for one version."""
    if overlay is not None:
        typer.echo("--overlay is called --protocol now; the former name goes with the next version", err=True)
    return overlay


def _print_address(node: Any) -> None:
    """Tell the user, once the node is ready, where to reach it."""
    typer.echo(f"node {node.slot} ({node.name}) of cluster {node.config.cluster} at {node.url}")
    if node.http is not None:
        typer.echo(f"page, /health, /metrics and topics over HTTP (/topics, /live, /openapi.json) at {node.http.url}")
        if node.config.http_files is not None:
            typer.echo(f"files of {node.config.http_files} at {node.http.url}app/")
    if node.mqtt is not None:
        host = node.config.host
        for name, port in node.mqtt.ports.items():
            typer.echo(f"{_MQTT[name]} at {join_address(host, port)}")
    if node.journal is None:
        typer.echo("no journal: its messages are lost when it stops; --dir keeps them")
