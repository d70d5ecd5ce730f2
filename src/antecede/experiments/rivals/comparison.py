"""Every protocol of the simulator that orders messages causally, or nearly, under the same loads.

A topic that all nodes take; 100 messages of 50 bytes, one every 20 u.t. on average, each by a node drawn at random. A
hop takes 100 u.t. on average, drawn for each packet, so that packets overtake each other.

* `calm`: nothing goes wrong.
* `loss`: a packet in twenty is lost. Protocols made for links that lose nothing are left out.
* `churn`: half of the nodes are members, and every 200 u.t. on average one leaves and another joins. Protocols with
  fixed groups are left out.

Four compared protocols promise less than causal order: `probabilistic-clocks`; `delta-neighbourhood` and JEDI without
FIFO links, which keep the order of each source; `lpbcast`, which keeps none. The audit counts violations for all.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from antecede.experiments.base import Experiment, Metrics, Value
from antecede.experiments.rivals.costs import measured
from antecede.protocols.registry import options
from antecede.sim import RunSpec

MESSAGES, INTERVAL = 100, 20
CHANGE = 200


class _Compared(NamedTuple):
    protocol: str
    settings: tuple[str, ...]
    options: Mapping[str, object] = MappingProxyType({})


_CALM, _LOSS, _ALL = ("calm",), ("calm", "loss"), ("calm", "loss", "churn")

COMPARED: dict[str, _Compared] = {
    "vcube-ps": _Compared("vcube-ps", _ALL),
    "causal-aggregation": _Compared("causal-aggregation", _CALM),
    "timer-bundling": _Compared("timer-bundling", _CALM, {"wait": 20}),
    "timer-bundling, adaptive": _Compared("timer-bundling", _CALM, {"wait": 20, "adaptive": True}),
    "hybrid-bundling": _Compared("hybrid-bundling", _CALM, {"wait": 20}),
    "srpt-s": _Compared("srpt-s", ("calm", "churn")),
    "locamu": _Compared("locamu", _ALL),
    "cbcast": _Compared("cbcast", _CALM),
    "causal-barriers": _Compared("causal-barriers", _CALM),
    "jedi": _Compared("jedi", _CALM),
    "safe-links": _Compared("safe-links", _CALM),
    "safe-links, forgetting": _Compared("safe-links", _CALM, {"forget": True}),
    "vector-clocks": _Compared("probabilistic-clocks", _CALM, {"entries": 0}),
    "message-history": _Compared("message-history", _LOSS),
    "delta-causal": _Compared("delta-causal", _LOSS, {"horizon": 5000.0}),
    "gossip-context": _Compared("gossip-context", _LOSS),
    "gossip-rounds": _Compared("gossip-rounds", _LOSS),
    "plumtree": _Compared("plumtree", _ALL),
    "thicket": _Compared("thicket", _ALL),
    "probabilistic-clocks": _Compared("probabilistic-clocks", _CALM, {"entries": 16, "keys": 2}),
    "jedi, links reorder": _Compared("jedi", _CALM, {"fifo": False}),
    "delta-neighbourhood": _Compared("delta-neighbourhood", _CALM),
    "lpbcast": _Compared("lpbcast", _LOSS),
}

_SHOWN = (
    "header_bytes",
    "packets_a_delivery",
    "bytes_a_delivery",
    "copies",
    "latency",
    "latency_max",
    "hold",
    "violations_percent",
    "lost_percent",
    "state",
    "state_of_one",
)


class CausalComparison(Experiment):
    """Costs, times and violations of every causal protocol."""

    name = "comparison-causal"
    paper = "rivals"
    item = "comparison-causal"
    title = "Every causal protocol under the same load: bytes, packets, latency, hold, memory, violations"
    about = (
        "One topic, 100 messages of 50 bytes, one every 20 u.t. on average; hops of 100 u.t. that reorder; options "
        "and timers at their defaults. Protocols stand in the settings they are made for: of those left out of "
        "`loss`, a lost packet would block readers for ever, and those left out of `churn` have fixed groups. Bytes "
        "follow each protocol's own byte model. `promises_causal_order` and `promises_every_message` are 1 or 0: "
        "what the audit holds a run to. Violations and losses are counted for all, also where they are allowed. "
        "vector-clocks, probabilistic-clocks (16 entries, 2 keys) and message-history send directly to every node: "
        "one hop, and a wire that is busy for as many packets as there are nodes; trees take several hops. The "
        "causal information of message-history is other messages: it shows in bytes and copies, not in the header. "
        "`state` counts entries of clocks, names of messages and messages, the mean of all nodes at its highest, "
        "`state_of_one` the most of one node. docs/rivals.md has the table for 64 nodes."
    )
    settings = _ALL
    sizes = (16, 64)
    full_sizes = (256, 1024)

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        workload = f"rate:messages={MESSAGES},interval={INTERVAL}"
        if setting == "churn":
            size = nodes // 2
            session = size * CHANGE
            workload = f"churn:size={size},messages={MESSAGES},interval={INTERVAL},session={session}"
        return {
            name: RunSpec(
                protocol=compared.protocol,
                nodes=nodes,
                seed=seed,
                workload=workload,
                faults=("loss:share=0.05",) if setting == "loss" else (),
                options=dict(compared.options),
            )
            for name, compared in COMPARED.items()
            if setting in compared.settings
        }

    def execute(self, spec: RunSpec) -> Metrics:
        promised = options(spec.protocol, spec.options).promises
        return {
            **measured(spec),
            "promises_causal_order": float("causal" in promised),
            "promises_every_message": float("complete" in promised),
        }

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        return [
            Value(name, nodes, metric, run[metric])
            for metric in (*_SHOWN, "promises_causal_order", "promises_every_message")
            for name, run in metrics.items()
        ]


COMPARISON: tuple[Experiment, ...] = (CausalComparison(),)
