"""Base classes of the protocols' options: checked values that build processes."""

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, ClassVar, Literal, TypeAlias
from zlib import crc32

from msgspec import Meta

from antecede.core import Process, UsageError
from antecede.core.choices import Choice
from antecede.core.rng import MakeRng
from antecede.overlay.graph import BaseGraph
from antecede.overlay.graph_shapes import complete_tree, from_text, line, random_tree, star

#: Makes the process of one node. Called again when a node recovers.
MakeProcess: TypeAlias = Callable[[int], Process]

#: By topic: its first members, which every node knows without a packet.
Founders: TypeAlias = Mapping[str, Collection[int]]

#: Ticks (microseconds) in a unit of time. Options are in units; processes count ticks.
TICKS = 1_000_000

#: What most protocols promise. Protocols that never retransmit add `EDGES_ONCE`; protocols with one order for all nodes
#: add `TOTAL`.
PROMISES = ("causal", "fifo", "exactly-once", "no-invention", "complete", "agreement")
EDGES_ONCE = "tree-edges-once"
TOTAL = "total"


class ProtocolOptions(Choice, frozen=True, kw_only=True):
    """Options of a protocol. `build` returns the function that makes its processes."""

    #: Does every node take every message without subscribing?
    broadcast: ClassVar[bool] = True

    @property
    def across_topics(self) -> bool:
        """Does it promise causal order across all topics, or only within each topic? The audit asks."""
        return False

    @property
    def promises(self) -> tuple[str, ...]:
        """The names of the audit rules that the protocol keeps on every network it is made for."""
        return PROMISES

    def build(self, nodes: int) -> MakeProcess:
        raise NotImplementedError


class GroupOptions(ProtocolOptions, frozen=True, kw_only=True):
    """Options of a protocol with topics to subscribe to. The workload chooses the subscribers."""

    broadcast: ClassVar[bool] = False

    def build(self, nodes: int) -> MakeProcess:
        return self.build_groups(nodes, {})

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        """`build` for topics that have members when the run begins."""
        raise NotImplementedError


class TotalOrderOptions(GroupOptions, frozen=True, kw_only=True):
    """Options of a protocol that gives all nodes one order."""

    @property
    def promises(self) -> tuple[str, ...]:
        return (*PROMISES, TOTAL)


class RngOptions(GroupOptions, frozen=True, kw_only=True):
    """Options of a protocol that draws at random. The caller of `build_with_rng` gives a generator for each node."""

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        raise UsageError("protocol", type(self).__name__, "draws at random", "build it with `build_with_rng`")

    def build_with_rng(self, nodes: int, founders: Founders, make_rng: MakeRng) -> MakeProcess:
        """`build_groups` with the function that makes each node's generator."""
        raise NotImplementedError


class GraphOptions(GroupOptions, frozen=True, kw_only=True):
    """Options of a protocol on an acyclic base graph: a shape by name, or a list of edges."""

    #: The shape of the graph; "edges": the graph that `edges` lists.
    graph: Literal["tree", "line", "star", "random", "edges"] = "tree"
    #: Neighbours of an inner node of a tree; 3 gives a binary tree.
    degree: Annotated[int, Meta(ge=2)] = 3
    #: Selects the random tree.
    graph_seed: Annotated[int, Meta(ge=0)] = 1
    #: `0-1,0-2,…`; on the command line @FILE reads the edges from a file, one or more to a line.
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


def taken_by(founders: Founders) -> dict[int, frozenset[str]]:
    """By node: the topics that it takes from the beginning."""
    taken: dict[int, set[str]] = {}
    for topic, members in founders.items():
        for node in members:
            taken.setdefault(node, set()).add(topic)
    return {node: frozenset(topics) for node, topics in taken.items()}
