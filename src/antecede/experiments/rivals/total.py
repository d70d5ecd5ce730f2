"""Every protocol of the simulator that gives messages one order at all nodes, or nearly, under the same loads.

100 messages of 50 bytes, one every 20 u.t. on average. A hop takes 100 u.t. on average, drawn for each packet.

* `one-topic`: all nodes take one topic.
* `overlapping`: eight topics, of which each node takes four, drawn at random. The topic of a message is drawn, too, and
  its publisher is one of the subscribers.
* `loss`: the same, and a packet in twenty is lost. Protocols made for links that lose nothing are left out.
* `churn`: half of the nodes take one topic, and every 200 u.t. on average one leaves and another joins. Protocols with
  fixed groups are left out.

`pabcast` promises no order, which is likely only; its votes order each topic for itself. The audit counts for all.
"""

from collections.abc import Mapping
from typing import NamedTuple

from antecede.experiments.base import Experiment, Metrics, Value
from antecede.experiments.rivals.comparison import CHANGE, INTERVAL, MESSAGES
from antecede.experiments.rivals.costs import measured
from antecede.protocols.options import TOTAL
from antecede.protocols.registry import options
from antecede.sim import RunSpec

TOPICS, TAKEN = 8, 4


class _Compared(NamedTuple):
    protocol: str
    settings: tuple[str, ...]
    options: dict[str, object]


_FIXED = ("one-topic", "overlapping")
_LOSS = (*_FIXED, "loss")
_ALL = (*_LOSS, "churn")

COMPARED: dict[str, _Compared] = {
    "tno": _Compared("tno", _ALL, {}),
    "tno, one at a time": _Compared("tno", _ALL, {"window": 1}),
    "sequencer": _Compared("sequencer", _ALL, {}),
    "sequencing-atoms": _Compared("sequencing-atoms", _FIXED, {}),
    "propagation-tree": _Compared("propagation-tree", _FIXED, {}),
    "pabcast": _Compared("pabcast", _LOSS, {}),
}

_SHOWN = (
    "header_bytes",
    "packets_a_delivery",
    "bytes_a_delivery",
    "copies",
    "latency",
    "latency_max",
    "hold",
    "state",
    "state_of_one",
    "disagreeing_percent",
    "tagged_percent",
    "violations_percent",
    "lost_percent",
    "promises_one_order",
    "promises_causal_order",
    "promises_every_message",
)


class TotalComparison(Experiment):
    """Costs, times and violations of every protocol with one order for all."""

    name = "comparison-total"
    paper = "rivals"
    item = "comparison-total"
    title = "Every protocol with total order under the same load: bytes, packets, latency, hold, memory, violations"
    about = (
        "100 messages of 50 bytes, one every 20 u.t. on average; hops of 100 u.t. that reorder; options and timers at "
        "their defaults; `tno, one at a time` has window=1, which makes it causal across topics. Protocols stand in "
        "the settings they are made for. `disagreeing_percent` is the share of pairs of nodes that delivered two "
        "messages in different orders; `tagged_percent` the deliveries that the protocol tags as out of order, which "
        "the audit does not judge; `violations_percent` the deliveries out of causal order across all topics, which "
        "only some promise. The three values `promises_…` are 1 or 0. `state` counts entries of clocks, names and "
        "messages, the mean of all nodes at its highest, and `state_of_one` the most that one node has. docs/rivals.md "
        "has the table for 64 nodes."
    )
    settings = _ALL
    sizes = (16, 64)
    full_sizes = (256, 1024)

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        load = f"messages={MESSAGES},interval={INTERVAL}"
        size = nodes // 2
        workload = {
            "one-topic": f"rate:{load}",
            "churn": f"churn:size={size},{load},session={size * CHANGE}",
        }.get(setting, f"overlapping:count={TOPICS},taken={TAKEN},{load}")
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
        chosen = options(spec.protocol, spec.options)
        across = chosen.across_topics or "overlapping" not in spec.workload
        return {
            **measured(spec, total=True),
            "promises_one_order": float(TOTAL in chosen.promises),
            "promises_causal_order": float("causal" in chosen.promises and across),
            "promises_every_message": float("complete" in chosen.promises),
        }

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        return [Value(name, nodes, metric, run[metric]) for metric in _SHOWN for name, run in metrics.items()]


TOTAL_COMPARISON: tuple[Experiment, ...] = (TotalComparison(),)
