"""Plumtree over HyParView beside our gossip and lpbcast: copies of a message, latency, and repair after crashes.

60 messages, one every 200 u.t.; hops take 100 u.t., gossip rounds 200.

* `one-publisher`: one node publishes all of them, for which Plumtree's shared tree is made.
* `calm`: each message is published by a node drawn at random, at intervals with that mean, and nothing goes wrong.
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
        "A message every 200 u.t. `copies` is how often a node receives a message that it receives at all: a tree has "
        "1. `to_all` is the time until every node that never crashed has a message; `to_all_after_crash` is that of "
        "messages published within 1500 u.t. after a tenth of the nodes has stopped. Means of ten seeds at 64 nodes: "
        "with one publisher Plumtree sends 1.16 ± 0.05 copies, gossip-context 27.4, lpbcast 3.5, and is faster than "
        "both (360 ± 26 u.t. on average; 498 and 605). With publishers drawn at random it sends 1.73 ± 0.04 copies "
        "and is slower (828 ± 41; 590 and 711): messages under way at a time prune different links of the same cycle, "
        "the shared tree is cut, and the next message mends it by lazy links. Crashes and a loss of 5 % cost no "
        "message in these runs, and hardly any time: to_all is 1559 ± 98 before and 1462 ± 101 after the crash. In "
        "packets the systems are alike, 4.3 to 5.5 a delivery, since Plumtree's announcements are packets, too; in "
        "bytes Plumtree takes 318 a delivery, lpbcast 568, gossip-context 2249. Plumtree promises order (behind a "
        "gate) and single delivery, not that all messages arrive; under churn some do not (comparison-causal)."
    )
    settings = ("one-publisher", "calm", "loss", "crash")
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
                workload=f"{'one' if setting == 'one-publisher' else 'rate'}:messages={MESSAGES},interval={INTERVAL}",
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
