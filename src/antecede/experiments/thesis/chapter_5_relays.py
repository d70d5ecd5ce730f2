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
_SHARES = (10, 30, 50, 70, 90)
NONE: dict[str, object] = {}
_SUBSCRIPTIONS = {"alike": "series", "independent": "uniform"}


def _plan(setting: str, nodes: int) -> dict[str, Variant]:
    if setting == "one-topic":
        systems = {"vcube-ps": FAITHFUL, **dict.fromkeys(RENDEZVOUS, NONE)}
        return {
            f"{system} {percent}": Variant(system, f"one:subscribers={percent / 100}", options)
            for percent in _SHARES
            for system, options in systems.items()
        }
    if setting == "one-topic-bits":
        return {f"{system} 30": Variant(system, "one:subscribers=0.3", {"digit": 1}) for system in RENDEZVOUS}
    drawn = _SUBSCRIPTIONS[setting]
    workload = f"overlapping:count=64,taken=8,subscription={drawn},messages=50,interval=1000"
    return {system: Variant(system, workload, NONE) for system in RENDEZVOUS}


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
        'The thesis surveys these systems and says of the last two that relays are "reduced" (Table 3.3); it prints '
        "no figures of them. Figure 5.7 counts the relays of SRPT in their place: 779 of 4096 nodes with 30 % "
        "subscribers, and none in VCube-PS. Relays of a message on the mean, ten seeds, one topic, 4096 nodes, with "
        "10, 30, 50, 70 and 90 % subscribers: VCube-PS none, as printed; Scribe 171 ± 6, 168 ± 5, 124 ± 3, 74 ± 5, "
        "27 ± 4; DRScribe 39 ± 6, 2 ± 2, 0.2 ± 0.4, none, none; Magnet 21 ± 27, 4 ± 8, none, none, none. So both "
        "reduce them, as printed. Scribe has a fifth of SRPT's, since a hop of Pastry mends four bits of a name, and "
        "one of SRPT's hypercube one: with single bits (one-topic-bits) Scribe has 681 ± 19, near the printed 779, "
        "DRScribe 18 ± 5, Magnet 192 ± 203, probably by where its rendezvous, the first subscriber, lies among the "
        "others. DRScribe pays in time, with paths of 8.0 ± 0.8 hops for Scribe's 5.5 ± "
        "0.4 at 30 % (834 ± 81 and 577 ± 42 u.t.; Magnet 553 ± 68, VCube-PS 551 ± 3). One topic is Magnet's best "
        "case, as all subscribers have the same interests. With 64 topics, of which each of 256 nodes takes eight, "
        "it has 4.8 ± 0.5 relays where interests are alike and 9.9 ± 0.3 where they are independent; Scribe has 10.0 "
        "± 0.6 and 10.1 ± 0.4, DRScribe 2.7 ± 0.3 and 2.7 ± 0.1. A publisher's way to the root is not counted, nor "
        "is a root that does not subscribe. All founders know each other's subscriptions: DRScribe and Magnet at "
        "their best.",
        _reading,
        _plan,
        sizes=(256, 1024),
        full_sizes=(4096,),
        settings=("one-topic", "one-topic-bits", "alike", "independent"),
        axis=Axis(r"_at_(\d+)_percent$", "percent of nodes that subscribe"),
    ),
)
