"""`antecede cert` and `antecede token`: what nodes and clients show each other."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Certificates for a cluster.")


@app.command("init")
def cert_init_command(
    directory: Annotated[Path, typer.Argument(help="Where to put them. Must not have an authority yet.")],
    cluster: Annotated[str, typer.Option(help="The cluster's name.")] = "antecede",
    node: Annotated[list[str] | None, typer.Option(help="Name of a node's certificate; repeat.")] = None,
    host: Annotated[
        list[str] | None, typer.Option(help="Name or address by which clients reach nodes; repeat. Loopback is in.")
    ] = None,
    days: Annotated[int, typer.Option(help="How long they are valid.")] = 825,
) -> None:
    """Make an authority and a certificate for each node: a working set.

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
    typer.echo("keep authority.key off the nodes; each node needs authority.pem, its NAME.pem and its NAME.key")


@app.command("issue")
def cert_issue_command(
    directory: Annotated[Path, typer.Argument(help="Where the authority is.")],
    name: Annotated[str, typer.Argument(help="Of the new node.")],
    host: Annotated[list[str] | None, typer.Option(help="Name or address by which clients reach it; repeat.")] = None,
    days: Annotated[int, typer.Option(help="How long it is valid.")] = 825,
) -> None:
    """Sign a certificate for one more node."""
    from antecede.wire.security import issue  # noqa: PLC0415 - cryptography is slow to load
    from antecede.wire.security.certificates import LOCAL_HOSTS  # noqa: PLC0415

    for path in issue(directory, name, role="node", hosts=(*LOCAL_HOSTS, *(host or [])), days=days):
        typer.echo(str(path))


def token_command(
    file: Annotated[Path, typer.Argument(help="The token file of the nodes; made if need be.")],
    name: Annotated[str, typer.Argument(help="Of the client.")],
    publish: Annotated[list[str] | None, typer.Option(help="Topic filter it may publish on; repeat.")] = None,
    subscribe: Annotated[list[str] | None, typer.Option(help="Topic filter it may read; repeat.")] = None,
    status: Annotated[bool, typer.Option(help="May it ask `antecede status`?")] = False,
) -> None:
    """Make a token for a client and print it: it is stored nowhere else.

    Example:

        antecede token tokens.json carol --publish 'answers/#' --subscribe '#'
    """
    from antecede.wire.security import new_token  # noqa: PLC0415 - cryptography is slow to load

    typer.echo(new_token(file, name, publish=tuple(publish or ()), subscribe=tuple(subscribe or ()), status=status))
