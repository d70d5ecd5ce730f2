"""`antecede explain`: draws the trees that messages take."""

from typing import Annotated

import typer

from antecede.core import UsageError
from antecede.overlay.vcube import VCube

app = typer.Typer(help="Draw the tree that a node's messages take.", no_args_is_help=True)


@app.callback()
def _explain() -> None:
    """Keeps `tree` a subcommand while it is the only one."""


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
