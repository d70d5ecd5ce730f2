"""Chapter 5 of the thesis, the cost of order and several topics: Figures 5.9 and 5.10, and the text of 5.6.4.

In the discussion one node (or ten) speaks first. A node that has read that many messages answers once, after a random
time t_w. The thesis does not say how long t_w is. Two readings, both uniform from 0:

* `short-pause`: up to 25 u.t., found from the share of deliveries without delay when waiting for one message.
* `long-pause`: up to 110 u.t., which gives the queues of the authors' own runs with 64 nodes.
"""

from collections.abc import Mapping

from antecede.experiments.base import Experiment, Metrics, Value
from antecede.experiments.readings import change, mean, share
from antecede.experiments.thesis.chapter_5 import FAITHFUL, PRUNED, PubSub, Variant, latency

_PAUSES = {"short-pause": 25, "long-pause": 110}


def _discussion(setting: str, nodes: int) -> dict[str, Variant]:
    pause = _PAUSES[setting]
    variants = {}
    for wait in (1, 10):
        workload = f"discussion:begin={wait},wait={wait},pause={pause},opening={pause}"
        variants[f"wait-{wait}"] = Variant("vcube-ps", workload, FAITHFUL)
        variants[f"wait-{wait}-pruned"] = Variant("vcube-ps", workload, PRUNED)
    return variants


def _figure_5_9(nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
    values = []
    for suffix in ("", "-pruned"):
        protocol = f"vcube-ps{suffix}"
        one, ten = (metrics[f"wait-{wait}{suffix}"]["dependencies"] for wait in (1, 10))
        values += [
            Value(protocol, nodes, "barrier_below_5", share(one, 0, 4)),
            Value(protocol, nodes, "barrier_of_1", share(one, 1, 1)),
            Value(protocol, nodes, "barrier_mean", mean(one)),
            Value(protocol, nodes, "barrier_of_10", share(ten, 10, 10)),
            Value(protocol, nodes, "barrier_below_15", share(ten, 0, 14)),
            Value(protocol, nodes, "barrier_mean_wait_10", mean(ten)),
        ]
    return values


def _section_5_6_4(nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
    values = []
    for wait, protocol in ((1, "vcube-ps"), (10, "vcube-ps-wait-10")):
        waits = metrics[f"wait-{wait}"]["waits"]
        total = sum(waits.values())
        values += [
            Value(protocol, nodes, "delivered_without_delay", share(waits, 0, 0)),
            Value(protocol, nodes, "delivered_within_10ut", share(waits, 0, 9)),
            Value(protocol, nodes, "deliveries_delayed_above_50ut", total * share(waits, 51) / 100),
            Value(protocol, nodes, "longest_delay", max(int(time) for time in waits)),
        ]
    return values


# -- 5.6.5: several topics --------------------------------------------------------------------------------------------

_TOPICS = 128
#: Messages of a node, by setting; with 256 nodes the settings' names say how many in all: the figure's horizontal axis.
_EACH = {"peersim-2^10": 4, "literal": 16, "peersim": 16, "peersim-2^14": 64}


def _many_topics(setting: str, nodes: int) -> dict[str, Variant]:
    variants = {}
    for spread, exponent in (("zipf", 0.825), ("uniform", 0.0)):
        workload = f"zipf:count={_TOPICS},exponent={exponent},messages={_EACH[setting]},interval=500"
        variants[f"vcube-ps-{spread}"] = Variant("vcube-ps", workload, FAITHFUL)
        variants[f"srpt-s-{spread}"] = Variant("srpt-s", workload, {})
    return variants


def _figure_5_10(nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
    values = []
    for protocol in ("vcube-ps", "srpt-s"):
        zipf, uniform = (latency(metrics[f"{protocol}-{spread}"]) for spread in ("zipf", "uniform"))
        values += [
            Value(protocol, nodes, "latency_zipf", zipf),
            Value(protocol, nodes, "latency_uniform", uniform),
            Value(protocol, nodes, "latency_increase", change(zipf, uniform)),
        ]
    return values


ORDER_AND_TOPICS: tuple[Experiment, ...] = (
    PubSub(
        "figure-5.9",
        "Direct dependencies of a message in a discussion, 256 nodes",
        "The printed figure is that of *unpruned* barriers (CHECKCB empties the set that line 94 takes "
        "away); `vcube-ps-pruned` is what immediate predecessors need. Waiting for one message, the short pause meets "
        "the printed shares. Waiting for ten, they need a pause of about 200 u.t., with which fewer deliveries wait "
        "than 5.6.4 says: no single pause gives all of it.",
        _figure_5_9,
        _discussion,
        sizes=(256,),
        settings=("short-pause", "long-pause"),
    ),
    PubSub(
        "section-5.6.4",
        "How long causal order delays deliveries in a discussion, 256 nodes",
        "The short pause was read off the first of these figures, the share delivered without delay. With it more "
        "deliveries wait above 50 u.t. than printed; with the long pause as many as printed, but fewer wait at all. "
        "Waiting for ten messages delays fewer deliveries here, not more: the ten spread before any node answers.",
        _section_5_6_4,
        _discussion,
        sizes=(256,),
        settings=("short-pause", "long-pause"),
    ),
    PubSub(
        "figure-5.10",
        "128 topics, messages spread evenly or by Zipf's law (0.825)",
        "Printed for 256 nodes (`--full`) and up to 2^14 messages (`peersim-2^14`); `peersim` has 2^12. Every node "
        "takes every topic and publishes every 500 u.t. on average; SRPT's roots are spread over the nodes by the "
        "topics' names. Met with 2^12 messages in the authors' "
        "time model: +33 % for SRPT (30.6 printed), +11 % for VCube-PS (9.2). At 256 nodes a node has about as much to "
        "send as it can, acknowledgements included, so absolute latencies depend on the length of the run. SRPT's "
        "increase is the queue at the hot topics' roots; at 64 nodes these keep up, and it has none. VCube-PS's is its "
        "publishers, which wait for their own turn on the hot topics, at any size.",
        _figure_5_10,
        _many_topics,
        sizes=(64,),
        full_sizes=(256,),
        settings=("literal", "peersim", "peersim-2^10", "peersim-2^14"),
    ),
)
