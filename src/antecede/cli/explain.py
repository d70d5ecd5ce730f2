"""`antecede explain`: draws the trees that messages take, and says where a topic lives."""

from typing import Annotated, Any

import typer

from antecede.cli.access import Access, with_access
from antecede.client.bus import Bus
from antecede.core import UsageError
from antecede.core.partitions import Partitions, homes
from antecede.overlay.vcube import VCube
from antecede.wire.topics import check_topic

app = typer.Typer(help="Draw the tree that a node's messages take, or where a topic lives.", no_args_is_help=True)


@app.command("partition")
@with_access
def partition_command(
    topic: Annotated[str, typer.Argument(help="A topic, for example rooms/42/chat.")],
    access: Access,
) -> None:
    """Say in which partition of a running cluster a topic is, where that is kept, and who takes it now.

    Example:

        antecede explain partition rooms/42/chat
    """
    check_topic(topic)
    found: dict[str, Any] = {}

    async def ask(bus: Bus) -> None:
        found.update(await bus.status())

    access.run(ask)
    settings = found["partitioning"]
    number = Partitions(settings["partitions"], settings["levels"], "main").of(topic)
    typer.echo(f"{topic} is in partition {number} of {settings['partitions']}")
    if settings["partitions"] == 1:
        typer.echo("every node takes it")
        return
    members = {one["node"]: one for one in found["members"] if one["state"] not in ("left", "forgotten")}
    kept_at = homes(number, members, settings["replicas"])
    home = next((slot for slot in kept_at if members[slot]["state"] in ("here", "up")), None)
    for slot in kept_at:
        typer.echo(f"home: {slot} ({members[slot]['name']}, {members[slot]['address']}, {members[slot]['state']})")
    if home is None:
        typer.echo("none of its homes is up: who takes it is not known")
        return
    if members[home]["state"] != "here":
        access._replace(url=f"antecede://{members[home]['address']}").run(ask)
    takers: list[int] = next((one["members"] for one in found["partitions"] if one["partition"] == number), [])
    typer.echo(f"taken by: {', '.join(map(str, takers))}; messages published at node {home} go this way:")
    slots = found["slots"]
    typer.echo("\n".join(draw(VCube(slots, set(range(slots)) - {home, *takers}), home)))


@app.command("tree")
def tree_command(
    nodes: Annotated[int, typer.Option("--nodes", "-n", help="How many nodes.")] = 8,
    root: Annotated[int, typer.Option(help="The node whose tree is drawn.")] = 0,
    down: Annotated[str, typer.Option(help="Nodes that are down, for example 2,4,6.")] = "",
) -> None:
    """Draw the spanning tree of VCube that a node's messages take (thesis, Figure 2.8).

    Example:

        antecede explain tree --nodes 8 --root 0 --down 2,4,6
    """
    cube = VCube(nodes, _numbers(down))
    slots = 1 << cube.dimension
    if slots != nodes:
        typer.echo(f"{nodes} nodes in a cube of {slots} slots: {slots - nodes} stay empty")
    typer.echo("\n".join(draw(cube, root)))


def draw(cube: VCube, root: int) -> list[str]:
    """Return the tree as lines of text."""
    tree = cube.tree(root)
    lines = [str(root)]

    def below(node: int, indent: str) -> None:
        children = tree[node]
        for position, child in enumerate(children):
            last = position == len(children) - 1
            lines.append(f"{indent}{'└─' if last else '├─'} {child}")
            below(child, indent + ("   " if last else "│  "))

    below(root, "")
    return lines


def _numbers(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",") if word.strip()]
    except ValueError:
        raise UsageError("--down", text, "is not a list of node numbers", "write for example 2,4,6") from None
