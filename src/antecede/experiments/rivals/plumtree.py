"""Plumtree over HyParView beside our gossip and lpbcast: copies of a message, latency, and repair after crashes.

Every node publishes and reads; 60 messages, one every 200 u.t. on average; hops take 100 u.t., gossip rounds 200.

* `calm`: nothing goes wrong.
* `loss`: a packet in twenty is lost.
* `crash`: a tenth of the nodes stops at 6000 u.t., and the others' failure detectors notice it 400 u.t. later.
"""

import random
from collections.abc import Mapping

from antecede.experiments.base import Experiment, Metrics, Value
from antecede.experiments.rivals.costs import measured
from antecede.sim import RunSpec

MESSAGES, INTERVAL = 60, 200
CRASH_AT, NOTICED = 6000, 400
#: Messages published so long before and after the crash are compared.
AROUND = 1500

_SYSTEMS: dict[str, tuple[str, dict[str, object]]] = {
    "plumtree": ("plumtree", {}),
    "plumtree, no order": ("plumtree", {"order": "none"}),
    "gossip-context": ("gossip-context", {}),
    "lpbcast": ("lpbcast", {}),
}
_SHOWN = ("copies", "packets_a_delivery", "bytes_a_delivery", "latency", "to_all", "violations_percent", "lost_percent")


class PlumtreeBesideGossip(Experiment):
    """A tree with lazy repair beside gossip."""

    name = "plumtree"
    paper = "rivals"
    item = "plumtree"
    title = "Plumtree over HyParView beside gossip: copies of a message, latency, repair"
    about = (
        "Every node publishes and reads; a message every 200 u.t. on average. `copies` is how often a node receives a "
        "message that it receives at all: a tree would have 1. `to_all` is the time until every node that never "
        "crashed has a message; `to_all_after_crash` is that of messages published within 1500 u.t. after a tenth of "
        "the nodes has stopped. Plumtree promises order (behind a gate) and single delivery, not that all messages "
        "arrive; the audit counts those that do not."
    )
    settings = ("calm", "loss", "crash")
    sizes = (16, 64)
    full_sizes = (256, 1024)

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        faults: tuple[str, ...] = ()
        if setting == "loss":
            faults = ("loss:share=0.05",)
        elif setting == "crash":
            down = random.Random(f"{seed}/crashes").sample(range(nodes), max(1, nodes // 10))
            faults = tuple([f"crash:node={node},at={CRASH_AT},noticed={NOTICED}" for node in sorted(down)])
        return {
            name: RunSpec(
                protocol=protocol,
                nodes=nodes,
                seed=seed,
                workload=f"rate:messages={MESSAGES},interval={INTERVAL}",
                faults=faults,
                options=options,
            )
            for name, (protocol, options) in _SYSTEMS.items()
        }

    def execute(self, spec: RunSpec) -> Metrics:
        if not any(fault.startswith("crash") for fault in spec.faults):
            return measured(spec)
        before, after = (CRASH_AT - AROUND, CRASH_AT), (CRASH_AT, CRASH_AT + AROUND)
        return measured(spec, {"to_all_before_crash": before, "to_all_after_crash": after})

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        return [
            Value(name, nodes, metric, run[metric])
            for name, run in metrics.items()
            for metric in (*_SHOWN, "to_all_before_crash", "to_all_after_crash")
            if metric in run
        ]


PLUMTREE: tuple[Experiment, ...] = (PlumtreeBesideGossip(),)
