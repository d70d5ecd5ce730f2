"""Builds base graphs: trees of a given degree, lines, stars, random trees, and graphs listed edge by edge.

Node 0 is the root of a tree, the hub of a star, the first node of a line. A shape depends on its arguments alone; the
random tree is given the function it draws with.
"""

from collections.abc import Callable

from antecede.core.errors import UsageError
from antecede.overlay.graph import BaseGraph, Edge


def complete_tree(nodes: int, degree: int = 3) -> BaseGraph:
    """A tree filled level by level. Inner nodes have `degree` neighbours (the root one less); 3 gives a binary tree."""
    if degree < 2:
        raise UsageError("degree", degree, "an inner node needs two neighbours", "choose 2 or more")
    arity = degree - 1
    return BaseGraph(nodes, [((node - 1) // arity, node) for node in range(1, nodes)])


def line(nodes: int) -> BaseGraph:
    return BaseGraph(nodes, [(node - 1, node) for node in range(1, nodes)])


def star(nodes: int) -> BaseGraph:
    return BaseGraph(nodes, [(0, node) for node in range(1, nodes)])


def random_tree(nodes: int, draw: Callable[[int], int]) -> BaseGraph:
    """Join each node to a random earlier one; `draw(n)` returns one of 0 … n − 1, as `Random.randrange` does."""
    return BaseGraph(nodes, [(draw(node), node) for node in range(1, nodes)])


def named(text: str, nodes: int, degree: int) -> BaseGraph:
    """The graph that a configuration names: a shape, or else a list of edges."""
    match text:
        case "tree":
            return complete_tree(nodes, degree)
        case "line":
            return line(nodes)
        case "star":
            return star(nodes)
    return from_text(text, nodes)


def from_text(text: str, nodes: int | None = None) -> BaseGraph:
    """The graph with the edges listed in `text`: `0-1` or `0 1`, separated by commas, semicolons or line breaks.

    A # starts a comment. Without `nodes`, the highest number named is the last node.
    """
    edges: list[Edge] = []
    for number, line_ in enumerate(text.splitlines(), 1):
        for part in line_.partition("#")[0].replace(";", ",").split(","):
            words = part.replace("-", " ").split()
            if not words:
                continue
            if len(words) != 2 or not all(word.isdecimal() and len(word) < 10 for word in words):
                raise UsageError("edges", part.strip(), f"line {number} is not an edge", "write for example 0-1, 0-2")
            edges.append((int(words[0]), int(words[1])))
    if not edges and nodes != 1:
        raise UsageError("edges", text[:40], "lists no edge", "write for example 0-1, 0-2")
    return BaseGraph(nodes if nodes is not None else 1 + max(map(max, edges), default=0), edges)
