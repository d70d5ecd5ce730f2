"""How much a message carries and a node remembers at worst: section VI of LoCaMu's paper and its Figure 7.

Nothing is simulated. These are worst cases of the byte models by which the protocols weigh their packets
(`protocols.flooding`, `protocols.locamu.sizes`), for systems of up to 65,536 nodes. LoCaMu's need is read off a tree of
that size, at the node with the largest neighbourhood. That it does not grow with the tree is found, not assumed.
"""

from collections.abc import Mapping
from functools import cache
from math import ceil

from antecede.experiments.base import Experiment, Metrics, Value
from antecede.overlay.extended import Extended, Surroundings
from antecede.overlay.graph_shapes import complete_tree
from antecede.protocols.flooding import causal_barriers, cbcast
from antecede.protocols.flooding.process import GROUP
from antecede.protocols.locamu.sizes import Sizes, links_around
from antecede.sim import RunSpec

GROUPS = 1500
DEGREE, F = 3, 1


def memberships(nodes: int, groups: int = GROUPS) -> list[int]:
    """Members(g) = ⌈N g^−1.25 + 0.5⌉ for g = 1, 2, …; the first, which would be N + 1, as printed."""
    return [ceil(nodes * group**-1.25 + 0.5) for group in range(1, groups + 1)]


def cbcast_header(members: list[int]) -> int:
    """A full clock for each group; all but the message's own group are named."""
    return cbcast.COUNT * sum(members) + GROUP * (len(members) - 1)


def cbcast_memory(members: list[int]) -> int:
    return cbcast.COUNT * sum(members)


def barriers_header(nodes: int) -> int:
    """Every node has sent to every other: a row of N entries for each destination."""
    return causal_barriers.ENTRY * nodes**2


def barriers_memory(nodes: int) -> int:
    """The matrix, and how many of each source's messages were delivered."""
    return barriers_header(nodes) + cbcast.COUNT * nodes


@cache
def widest(nodes: int, degree: int = DEGREE, f: int = F) -> Surroundings:
    """The largest neighbourhood of a complete tree. Of each level the first node is looked at."""
    graph = Extended(complete_tree(nodes, degree), f)
    level, first = [], 0
    while first < nodes:
        level.append(first)
        first = first * (degree - 1) + 1
    return max((graph.around(node) for node in level), key=links_around)


def locamu_header(around: Surroundings) -> int:
    """All counters of the neighbourhood, and a vector of identifiers for each of 2f + 1 nodes, with all its targets."""
    sizes = Sizes()
    vector = sizes.node + sizes.length + sizes.counter * len(around.numbered)
    return sizes.counter * links_around(around) + around.window * vector


def locamu_memory(around: Surroundings) -> int:
    """P and R: what each node of the neighbourhood has sent to each, and how far that was received."""
    return 2 * Sizes().counter * links_around(around)


class _WorstCase(Experiment):
    """Worked out, not run."""

    paper = "locamu"
    settings = ("worst-case",)

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        return {setting: RunSpec(protocol="locamu", nodes=nodes, seed=seed, workload=setting)}

    def execute(self, spec: RunSpec) -> Metrics:
        members, around = memberships(spec.nodes), widest(spec.nodes)
        return {
            "cbcast_header": cbcast_header(members),
            "cbcast_header_one_group": cbcast_header([spec.nodes]),
            "cbcast_memory": cbcast_memory(members),
            "causal_barriers_header": barriers_header(spec.nodes),
            "causal_barriers_memory": barriers_memory(spec.nodes),
            "locamu_header": locamu_header(around),
            "locamu_memory": locamu_memory(around),
            "memberships": sum(members),
        }


class Figure7(_WorstCase):
    """Header and memory over the number of nodes."""

    name = "locamu-figure-7"
    item = "figure-7"
    title = "Header of a message (a) and memory of a node (b) at worst, over the number of nodes, 1,500 groups"
    about = (
        "Curves without numbers: Causal Barriers grow with the square of the nodes, CBCAST with the sum of all "
        "memberships, LoCaMu not at all. The caption says degree 2, the text degree 3; degree 3 is taken. Memory is "
        "clocks and matrices only, without messages that are kept to be sent again. LoCaMu's is the counters of P and "
        "of R; the paper's P, with an entry for each pair of nodes instead of each link, would be five times as large."
    )
    sizes = (64, 256, 1024, 4096, 16384, 65536)

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        (run,) = metrics.values()
        return [
            Value(protocol, nodes, what, run[f"{protocol.replace('-', '_')}_{what}"])
            for what in ("header", "memory")
            for protocol in ("locamu", "cbcast", "causal-barriers")
        ]


class Section6(_WorstCase):
    """The numbers in the text."""

    name = "locamu-section-6"
    item = "section-6"
    title = "Metadata of a message at worst: the numbers in the text"
    about = (
        "540 bytes for LoCaMu are met exactly by 102 counters of 4 bytes, one for each link of the extended graph in "
        "the neighbourhood of 22 nodes, and three vectors of 44 bytes; 4 KB and 8 MB follow from the text. The sum of "
        "memberships does not reproduce: the printed formula gives 260,519 for 65,536 nodes and 1,500 groups (259,019 "
        "if rounded instead); the printed 237,895 are ⌈N g^−1.25⌉ over the first 292 groups."
    )
    sizes = (1024, 65536)

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        (run,) = metrics.values()
        return [
            Value("causal-barriers", nodes, "header_worst_case", run["causal_barriers_header"]),
            Value("cbcast", nodes, "header_one_group", run["cbcast_header_one_group"]),
            Value("locamu", nodes, "header_degree_3_f_1", run["locamu_header"]),
            Value("zipf-groups", nodes, "sum_of_memberships", run["memberships"]),
        ]


METADATA: tuple[Experiment, ...] = (Figure7(), Section6())
