"""`antecede cert` and `antecede token`: makes the certificates and tokens of a cluster."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Make certificates for a cluster.")


@app.command("init")
def cert_init_command(
    directory: Annotated[
        Path, typer.Argument(help="Directory for the certificates. It must not have an authority yet.")
    ],
    cluster: Annotated[str, typer.Option(help="Name of the cluster.")] = "antecede",
    node: Annotated[
        list[str] | None, typer.Option(help="Name of a node to make a certificate for; may be repeated. Default node.")
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(help="Host name or address at which clients reach the nodes, beside loopback; may be repeated."),
    ] = None,
    days: Annotated[int, typer.Option(help="Days for which the certificates are valid.")] = 825,
) -> None:
    """Make an authority, and a certificate for each node that it signs.

    Examples:

        antecede cert init certs --node n0 --node n1 --host db.example.org

        antecede node --host 0.0.0.0 --tls certs --certificate n0 --tokens tokens.json

        antecede pub greetings hello --url antecede://db.example.org --tls certs --token …
    """
    from antecede.wire.security import init_certificates  # noqa: PLC0415 - cryptography is slow to load

    written = init_certificates(
        directory, cluster=cluster, nodes=node or ["node"], clients=(), hosts=host or [], days=days
    )
    for path in written:
        typer.echo(str(path))
    typer.echo("each node needs authority.pem, its NAME.pem and its NAME.key; keep authority.key off the nodes")


@app.command("issue")
def cert_issue_command(
    directory: Annotated[Path, typer.Argument(help="Directory of the authority.")],
    name: Annotated[str, typer.Argument(help="Name of the new node or client.")],
    host: Annotated[
        list[str] | None, typer.Option(help="Host name or address at which clients reach it; may be repeated.")
    ] = None,
    client: Annotated[
        bool, typer.Option("--client", help="For an MQTT client, which has the grants of this name in the token file.")
    ] = False,
    days: Annotated[int, typer.Option(help="Days for which the certificate is valid.")] = 825,
) -> None:
    """Make a certificate for one more node or client, signed by an authority that exists.

    Example:

        antecede cert issue certs n2 --host db2.example.org
    """
    from antecede.wire.security import issue  # noqa: PLC0415 - cryptography is slow to load
    from antecede.wire.security.certificates import LOCAL_HOSTS  # noqa: PLC0415

    if client:
        written = issue(directory, name, role="client", hosts=tuple(host or ()), days=days)
    else:
        written = issue(directory, name, role="node", hosts=(*LOCAL_HOSTS, *(host or [])), days=days)
    for path in written:
        typer.echo(str(path))


def token_command(
    file: Annotated[Path, typer.Argument(help="The token file of the nodes; created if it does not exist.")],
    name: Annotated[str, typer.Argument(help="Name of the client.")],
    publish: Annotated[
        list[str] | None, typer.Option(help="Topic filter that the client may publish on; may be repeated.")
    ] = None,
    subscribe: Annotated[
        list[str] | None, typer.Option(help="Topic filter that the client may read; may be repeated.")
    ] = None,
    status: Annotated[bool, typer.Option(help="Allow `antecede status` too.")] = False,
    operate: Annotated[bool, typer.Option(help="Allow `antecede cluster forget` too.")] = False,
    days: Annotated[
        int | None, typer.Option(help="Days for which the token is good. Default: until its entry is removed.")
    ] = None,
) -> None:
    """Make a token for a client and print it. The file has only its hash, so it cannot be printed again.

    Running nodes read the file again when it changes. Remove an entry to end its token and its connections.

    Example:

        antecede token tokens.json carol --publish 'answers/#' --subscribe '#'
    """
    from antecede.wire.security import new_token  # noqa: PLC0415 - cryptography is slow to load

    token = new_token(
        file,
        name,
        publish=tuple(publish or ()),
        subscribe=tuple(subscribe or ()),
        status=status,
        operate=operate,
        days=days,
    )
    typer.echo(token)
