"""Figure 5.7(b) for the systems that the thesis surveys: relays in the trees of Scribe, DRScribe and Magnet.

Figure 5.7 counts the relays of SRPT, a tree on VCube's hypercube that stands for these systems. Here they run
themselves, on one Pastry ring, in the authors' time model:

* `one-topic`: the load of Figure 5.7, one publisher and one topic that 10 % to 90 % of the nodes take.
* `one-topic-bits`: the same with 30 %, on a ring that compares names bit by bit (Pastry's b = 1). A hop mends one bit
  then, as on a hypercube; with Pastry's usual b = 4 it mends four.
* `alike`: 64 topics in a circle; a node takes eight in a row, so that nodes with the same first topic want the same.
* `independent`: 64 topics; a node takes eight of them at random, so that no two nodes have much in common.
"""

from collections.abc import Mapping

from antecede.experiments.base import Axis, Experiment, Metrics, Value
from antecede.experiments.thesis.chapter_5 import FAITHFUL, PubSub, Variant, latency

RENDEZVOUS = ("scribe", "drscribe", "magnet")
_SHARES = {"one-topic": (10, 30, 50, 70, 90), "one-topic-bits": (30,)}
_SUBSCRIPTIONS = {"alike": "series", "independent": "uniform"}


def _plan(setting: str, nodes: int) -> dict[str, Variant]:
    if setting in _SHARES:
        others: dict[str, object] = {"digit": 1 if setting == "one-topic-bits" else 4}
        return {
            f"{system} {percent}": Variant(system, f"one:subscribers={percent / 100}", options)
            for percent in _SHARES[setting]
            for system, options in {"vcube-ps": FAITHFUL, **dict.fromkeys(RENDEZVOUS, others)}.items()
        }
    drawn = _SUBSCRIPTIONS[setting]
    workload = f"overlapping:count=64,taken=8,subscription={drawn},messages=50,interval=1000"
    return {system: Variant(system, workload, {}) for system in RENDEZVOUS}


def _reading(nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
    values = []
    for variant, run in metrics.items():
        system, _, percent = variant.partition(" ")
        at = f"_at_{percent}_percent" if percent else ""
        values += [
            Value(system, nodes, f"relays{at}", run["relayed"] / run["published"]),
            Value(system, nodes, f"latency{at}", latency(run)),
            Value(system, nodes, f"hops{at}", run["hops_mean"]),
        ]
    return values


RELAYS: tuple[Experiment, ...] = (
    PubSub(
        "figure-5.7-rivals",
        "Relays of a message in Scribe, DRScribe and Magnet, 10 % to 90 % subscribers",
        "TODO",
        _reading,
        _plan,
        sizes=(256, 1024),
        full_sizes=(4096,),
        settings=("one-topic", "one-topic-bits", "alike", "independent"),
        axis=Axis(r"_at_(\d+)_percent$", "percent of nodes that subscribe"),
    ),
)
