"""Options of LoCaMu: the base graph, how many faults it bears, and how long things wait."""

from typing import Annotated, Literal
from zlib import crc32

from msgspec import Meta

from antecede.overlay.extended import Extended
from antecede.overlay.graph import BaseGraph
from antecede.overlay.graph_shapes import complete_tree, from_text, line, random_tree, star
from antecede.protocols.locamu.conversations import Timing
from antecede.protocols.locamu.node import LoCaMu
from antecede.protocols.options import TICKS, Founders, GroupOptions, MakeProcess


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

    def base_graph(self, nodes: int) -> BaseGraph:
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


class LoCaMuOptions(GraphOptions, frozen=True, kw_only=True):
    """LoCaMu: causal multicast in which a node knows only its neighbourhood."""

    #: Nodes that may be down at once on any path of 2f + 1.
    f: Annotated[int, Meta(ge=0)] = 1
    #: How long an acknowledgement waits for company, in units of time.
    ack: Annotated[float, Meta(gt=0)] = 20.0
    #: After how long something is sent again. More than a way there and back, and an acknowledgement's wait.
    retry: Annotated[float, Meta(gt=0)] = 1000.0
    #: Let names of open messages travel, so that nobody waits for a relay that never comes back. The paper does not.
    records: bool = True

    @property
    def across_topics(self) -> bool:
        return True

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        graph = Extended(self.base_graph(nodes), self.f)
        founding = {topic: graph.base.directions(members) for topic, members in founders.items()}
        timing = Timing(ack_us=round(self.ack * TICKS), ack_every=64, retry_us=round(self.retry * TICKS))
        return lambda node: LoCaMu(graph.around(node), founding, timing, records=self.records)
