"""The base graph of a protocol that runs on one, as options: a shape by name, or edge by edge."""

from typing import Annotated, Literal
from zlib import crc32

from msgspec import Meta

from antecede.core import UsageError
from antecede.overlay.graph import BaseGraph
from antecede.overlay.graph_shapes import complete_tree, from_text, line, random_tree, star
from antecede.protocols.options import GroupOptions


class GraphOptions(GroupOptions, frozen=True, kw_only=True):
    """An acyclic base graph."""

    #: Its shape. "edges": as `edges` lists it.
    graph: Literal["tree", "line", "star", "random", "edges"] = "tree"
    #: Of an inner node of a tree: 3 is a binary tree.
    degree: Annotated[int, Meta(ge=2)] = 3
    #: Which random tree.
    graph_seed: Annotated[int, Meta(ge=0)] = 1
    #: `0-1,0-2,…`; on the command line @FILE reads them from a file, one or more a line.
    edges: str = ""

    @property
    def across_topics(self) -> bool:
        return True

    def base_graph(self, nodes: int) -> BaseGraph:
        if self.edges and self.graph != "edges":
            raise UsageError("edges", self.edges, f"the graph is {self.graph!r}", "list edges with graph=edges only")
        match self.graph:
            case "tree":
                return complete_tree(nodes, self.degree)
            case "line":
                return line(nodes)
            case "star":
                return star(nodes)
            case "random":
                return random_tree(nodes, lambda n: crc32(f"{self.graph_seed}/{n}".encode()) % n)
            case "edges":
                return from_text(self.edges, nodes)
