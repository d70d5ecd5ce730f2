"""The base graph of a protocol that runs on one, as options: a shape by name, or edge by edge."""

from typing import Annotated, Literal

from msgspec import Meta

from antecede.core import UsageError
from antecede.overlay.graph import BaseGraph
from antecede.overlay.graph_shapes import complete_tree, from_text, line, star
from antecede.protocols.options import GroupOptions


class GraphOptions(GroupOptions, frozen=True, kw_only=True):
    """On which acyclic graph."""

    #: A complete tree, a line, a star; or "edges", which are then listed.
    graph: Literal["tree", "line", "star", "edges"] = "tree"
    #: Neighbours of a tree's inner nodes: 3 is a binary tree.
    degree: Annotated[int, Meta(ge=2)] = 3
    #: Such as 0-1;0-2;2-3
    edges: str = ""

    @property
    def across_topics(self) -> bool:
        return True

    def base_graph(self, nodes: int) -> BaseGraph:
        if (self.graph == "edges") != bool(self.edges):
            raise UsageError("edges", self.edges, f"the graph is {self.graph!r}", "list edges with graph=edges only")
        match self.graph:
            case "line":
                return line(nodes)
            case "star":
                return star(nodes)
            case "edges":
                return from_text(self.edges, nodes)
            case _:
                return complete_tree(nodes, self.degree)
