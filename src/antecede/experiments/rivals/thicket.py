"""Thicket beside Plumtree: how evenly nodes share the forwarding of messages.

60 messages, one every 200 u.t.; hops take 100 u.t. Plumtree has one tree, on views of its usual size (5) and of
Thicket's (12); Thicket has two and four trees.

* `one-publisher`: one node publishes all messages.
* `calm`: each message is published by a node drawn at random, at intervals with that mean.
"""

from collections.abc import Mapping

from antecede.experiments.base import Axis, Experiment, Metrics, Value
from antecede.experiments.rivals.costs import LOADS, measured
from antecede.experiments.rivals.plumtree import INTERVAL, MESSAGES
from antecede.sim import RunSpec

_SYSTEMS: dict[str, tuple[str, dict[str, object]]] = {
    "plumtree": ("plumtree", {}),
    "plumtree, 12 links": ("plumtree", {"active": 12}),
    "thicket, 2 trees": ("thicket", {"trees": 2}),
    "thicket, 4 trees": ("thicket", {"trees": 4}),
}
_SHOWN = (
    "copies",
    "packets_a_delivery",
    "latency",
    "to_all",
    "violations_percent",
    "lost_percent",
    *[f"load_at_{percent}" for percent in LOADS],
)


class LoadSpread(Experiment):
    """Load by percentile of nodes."""

    name = "thicket"
    paper = "rivals"
    item = "thicket"
    title = "Thicket beside Plumtree: messages that a node sends and forwards, by percentile of nodes"
    about = (
        "60 messages, one every 200 u.t. `load_at_…` is what the node at that percentile sends and forwards, in "
        "percent of the mean of all. Means of three seeds at 64 nodes. With one publisher a quarter of Plumtree's "
        "nodes forward 24 % of the mean or less, with Thicket's four trees 50 %; the node at 90 forwards 240 and "
        "167 %. The busiest is the publisher, which roots all trees. A message is sent 1.2 times in either. "
        "Thicket's larger views cost announcements: 11 packets a delivery instead of 5; Plumtree on such views has "
        "12, and a load far more uneven (90: 279 %, busiest 889 %). With publishers drawn at random (`calm`) "
        "Plumtree's load is even by itself, since its tree changes all the time, and Thicket gains nothing but time "
        "(658 u.t. against 865)."
    )
    settings = ("one-publisher", "calm")
    sizes = (16, 64)
    full_sizes = (256,)
    axis = Axis(r"_at_(\d+)$", "percentile of nodes")

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        return {
            name: RunSpec(
                protocol=protocol,
                nodes=nodes,
                seed=seed,
                workload=f"{'one' if setting == 'one-publisher' else 'rate'}:messages={MESSAGES},interval={INTERVAL}",
                options=options,
            )
            for name, (protocol, options) in _SYSTEMS.items()
        }

    def execute(self, spec: RunSpec) -> Metrics:
        return measured(spec)

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        return [Value(name, nodes, metric, run[metric]) for name, run in metrics.items() for metric in _SHOWN]


THICKET: tuple[Experiment, ...] = (LoadSpread(),)
