"""What every protocol's options have in common: they are checked values that build its processes."""

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, ClassVar, Literal, TypeAlias
from zlib import crc32

from msgspec import Meta

from antecede.core import Process, UsageError
from antecede.core.choices import Choice
from antecede.core.rng import MakeRng
from antecede.overlay.graph import BaseGraph
from antecede.overlay.graph_shapes import complete_tree, from_text, line, random_tree, star

#: Makes the process of one node; called again when a node recovers.
MakeProcess: TypeAlias = Callable[[int], Process]

#: By topic: its members from the beginning, known to every node without a packet.
Founders: TypeAlias = Mapping[str, Collection[int]]

#: Ticks, or microseconds, of a unit of time: options are in units, processes count ticks.
TICKS = 1_000_000

#: What most protocols promise. Those that never send again add `EDGES_ONCE`; those that order everything, `TOTAL`.
PROMISES = ("causal", "fifo", "exactly-once", "no-invention", "complete", "agreement")
EDGES_ONCE = "tree-edges-once"
TOTAL = "total"


class ProtocolOptions(Choice, frozen=True, kw_only=True):
    """Options of a protocol; `build` gives the maker of its processes."""

    #: Does every node take every message, without subscribing?
    broadcast: ClassVar[bool] = True

    @property
    def across_topics(self) -> bool:
        """Does it promise causal order over all topics, or within each only? What the judge asks of a run."""
        return False

    @property
    def promises(self) -> tuple[str, ...]:
        """The rules of the audit it promises to keep, by name, whatever its network does that it is made for."""
        return PROMISES

    def build(self, nodes: int) -> MakeProcess:
        raise NotImplementedError


class GroupOptions(ProtocolOptions, frozen=True, kw_only=True):
    """Options of a protocol with topics to subscribe to. Who subscribes is the workload's choice."""

    broadcast: ClassVar[bool] = False

    def build(self, nodes: int) -> MakeProcess:
        return self.build_groups(nodes, {})

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        """Like `build`, for topics that have members when the run begins."""
        raise NotImplementedError


class RngOptions(GroupOptions, frozen=True, kw_only=True):
    """Options of a protocol that draws at random: whoever builds it gives the generators, one for each node."""

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        raise UsageError("protocol", type(self).__name__, "draws at random", "build it with `build_chance`")

    def build_chance(self, nodes: int, founders: Founders, chance: MakeRng) -> MakeProcess:
        """Like `build_groups`, with where chance comes from."""
        raise NotImplementedError


class GraphOptions(GroupOptions, frozen=True, kw_only=True):
    """Options of a protocol on an acyclic base graph: a shape by name, or edge by edge."""

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


def taken_by(founders: Founders) -> dict[int, frozenset[str]]:
    """By node: the topics it takes from the beginning."""
    taken: dict[int, set[str]] = {}
    for topic, members in founders.items():
        for node in members:
            taken.setdefault(node, set()).add(topic)
    return {node: frozenset(topics) for node, topics in taken.items()}
