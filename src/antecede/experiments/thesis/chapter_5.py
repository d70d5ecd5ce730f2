"""Chapter 5 of the thesis: VCube-PS beside systems with a single root per topic. Figures 5.6 to 5.8, Table 5.1.

Two settings, which differ in the time model only:

* `literal`: thesis 5.6.1, t_pc = t_t = 1 and t_pp = 100 for every packet.
* `peersim`: the authors' simulator (`sim.peersim`): one packet a step, no t_pc, t_pp 99 or 100.

VCube-PS runs in the thesis's mode, with one message of a publisher at a time and acknowledgements in the send queue,
and with unpruned barriers, as in the authors' code.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from antecede.experiments.base import Axis, Experiment, Metrics, PartsExperiment, Value
from antecede.experiments.readings import change
from antecede.sim import RunSpec

FAITHFUL: dict[str, object] = {"mode": "faithful", "prune": False}
PRUNED: dict[str, object] = {"mode": "faithful", "prune": True}
ROOT_0: dict[str, object] = {"root": 0}
#: Above the bytes of an acknowledgement, below those of a message.
ACK_BYTES = 40

NETWORKS = {
    "literal": "constant:t_pc=1,t_t=1,delay={delay}",
    "peersim": "peersim:delay={delay}",
    "peersim-free-acks": f"peersim:delay={{delay}},express={ACK_BYTES}",
}


class Variant(NamedTuple):
    """One of the runs that are compared."""

    protocol: str
    workload: str
    options: dict[str, object]
    delay: int = 100


class PubSub(PartsExperiment[Callable[[str, int], Mapping[str, Variant]]]):
    """An experiment of chapter 5: a few systems under the same load. The plan is by setting and size."""

    paper = "thesis"
    settings = ("literal", "peersim")

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        network = NETWORKS.get(setting, NETWORKS["peersim"])
        return {
            name: RunSpec(
                protocol=variant.protocol,
                nodes=nodes,
                seed=seed,
                network=network.format(delay=variant.delay),
                workload=variant.workload,
                options=variant.options,
            )
            for name, variant in self.plan(setting, nodes).items()
        }


def latency(run: Metrics) -> float:
    """Mean time from the application's call to a member's reception, as the authors count it."""
    return float(run["latency_from_request"])


def pub_packets(run: Metrics) -> int:
    """Packets that carry a message, including those to a root."""
    sent = run["sent"]
    return int(sent.get("pub", 0)) + int(sent.get("post", 0))


# -- 5.6.2: a single publisher ----------------------------------------------------------------------------------------


def _one_publisher(percents: Sequence[int]) -> dict[str, Variant]:
    variants = {}
    for percent in percents:
        workload = f"one:subscribers={percent / 100},never=0"
        variants[f"vcube-ps-{percent}"] = Variant("vcube-ps", workload, FAITHFUL)
        variants[f"srpt-s-{percent}"] = Variant("srpt-s", workload, ROOT_0)
    return variants


def _figure_5_6(nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
    values = []
    for percent, suffix in ((25, ""), (100, "_100_percent")):
        ours, theirs = metrics[f"vcube-ps-{percent}"], metrics[f"srpt-s-{percent}"]
        for protocol, run in (("vcube-ps", ours), ("srpt-s", theirs)):
            values.append(Value(protocol, nodes, f"latency{suffix}", latency(run)))
            values.append(Value(protocol, nodes, f"pub_messages{suffix}", pub_packets(run)))
        ratio = pub_packets(theirs) / pub_packets(ours)
        values.append(Value("srpt-s", nodes, f"pub_messages_vs_vcube_ps{suffix}", ratio))
    return values


_SHARES = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100)


def _figure_5_7(nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
    values = []
    times: dict[str, list[float]] = {}
    for protocol in ("vcube-ps", "srpt-s"):
        times[protocol] = [latency(metrics[f"{protocol}-{percent}"]) for percent in _SHARES]
        for percent, time in zip(_SHARES, times[protocol], strict=True):
            values.append(Value(protocol, nodes, f"latency_at_{percent}_percent", time))
    for percent in _SHARES:
        relays = metrics[f"srpt-s-{percent}"]["relayed"]
        values.append(Value("srpt-s", nodes, "relays" if percent == 30 else f"relays_at_{percent}_percent", relays))
    hops = [metrics[f"srpt-s-{percent}"]["hops_mean"] for percent in _SHARES]
    ours, theirs = times["vcube-ps"], times["srpt-s"]
    return [
        *values,
        Value("srpt-s", nodes, "path_hops", sum(hops) / len(hops)),
        Value("vcube-ps", nodes, "latency_growth", change(ours[-1], ours[0])),
        Value("srpt-s", nodes, "latency_variation", change(max(theirs), min(theirs))),
    ]


# -- 5.6.3: several publishers ----------------------------------------------------------------------------------------


#: From this size on VCube-PS runs alone and with t_pp = 100 only: millions of packets, by arrays (`sim.arrays`).
_ALONE = 4096


def _several_publishers(setting: str, nodes: int) -> dict[str, Variant]:
    variants = {}
    for delay in (100, 1000) if nodes < _ALONE else (100,):
        for percent in (25, 100):
            workload = f"uniform:window=1000,publishers={percent / 100}"
            variants[f"vcube-ps-{percent}-{delay}"] = Variant("vcube-ps", workload, FAITHFUL, delay)
            if nodes < _ALONE:
                variants[f"srpt-s-{percent}-{delay}"] = Variant("srpt-s", workload, ROOT_0, delay)
    return variants


def _figure_5_8(nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
    values = []
    for delay, suffix in ((100, ""), (1000, "_1000")):
        if f"vcube-ps-25-{delay}" not in metrics:
            continue
        few, all_ = (latency(metrics[f"vcube-ps-{percent}-{delay}"]) for percent in (25, 100))
        values += [
            Value("vcube-ps", nodes, f"latency_25_percent{suffix}", few),
            Value("vcube-ps", nodes, f"latency_100_percent{suffix}", all_),
            Value("vcube-ps", nodes, f"latency_vs_25_percent_publishers{suffix}", change(all_, few)),
        ]
        if f"srpt-s-25-{delay}" in metrics:
            few_root, all_root = (latency(metrics[f"srpt-s-{percent}-{delay}"]) for percent in (25, 100))
            values += [
                Value("srpt-s", nodes, f"latency_25_percent{suffix}", few_root),
                Value("srpt-s", nodes, f"latency_100_percent{suffix}", all_root),
                Value("srpt-s", nodes, f"latency_vs_vcube_ps{suffix}", all_root / all_),
            ]
    return values


def _hot_topic(setting: str, nodes: int) -> dict[str, Variant]:
    workload = "uniform:window=1000"
    return {"vcube-ps": Variant("vcube-ps", workload, FAITHFUL), "srpt-s": Variant("srpt-s", workload, ROOT_0)}


#: Metric by the upper end of a bin of the meter.
_BINS = {
    "0": "nodes_queue_0",
    "2": "nodes_queue_0_to_2",
    "4": "nodes_queue_2_to_4",
    "8": "nodes_queue_4_to_8",
    "16": "nodes_queue_8_to_16",
    "32": "nodes_queue_16_to_32",
}


def _table_5_1(nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
    values = []
    for protocol, run in metrics.items():
        found = run["place_mean_by_node"]
        values += [Value(protocol, nodes, metric, found.get(limit, 0)) for limit, metric in _BINS.items()]
        beyond = sum(count for limit, count in found.items() if limit not in _BINS)
        values.append(Value(protocol, nodes, "nodes_queue_above_32", beyond))
    root = metrics["srpt-s"]
    values.append(Value("srpt-s", nodes, "root_mean_queue", root["place_mean_worst_node"]))
    values.append(Value("srpt-s", nodes, "root_max_queue", root["place_max_worst_node"]))
    return values


# -- the experiments --------------------------------------------------------------------------------------------------

SINGLE_AND_SEVERAL: tuple[Experiment, ...] = (
    PubSub(
        "figure-5.6",
        "One publisher: latency and messages, 25 % and 100 % subscribers",
        "The printed 533 and 720 u.t. for 25 % of 4096 nodes are met within 1 % in the authors' time model; the text's "
        "own adds t_pc to every hop and comes out 2.6 % higher. How many more messages SRPT needs depends on which "
        "nodes subscribe: 1.75 ± 0.02 here, 1.79 printed, 1.76 in the authors' simulator.",
        _figure_5_6,
        lambda setting, nodes: _one_publisher((25, 100)),
        sizes=(8, 16, 32, 64, 128, 256, 512, 1024, 4096),
    ),
    PubSub(
        "figure-5.7",
        "One publisher, 10 % to 100 % subscribers: latency and relays",
        "4096 nodes as the text says (the caption says 8192). VCube-PS's +36 % and the seven hops of SRPT are met. The "
        "relays at 30 % are drawn with the subscribers; their expectation is 797, 779 are printed. SRPT's variation, "
        "2.7 % in print, is the noise of few draws. Figure 5.7-rivals has the relays of Scribe, DRScribe and Magnet.",
        _figure_5_7,
        lambda setting, nodes: _one_publisher(_SHARES),
        sizes=(1024, 4096),
        axis=Axis(r"_at_(\d+)_percent$", "percent of nodes that subscribe"),
    ),
    PubSub(
        "figure-5.8",
        "All nodes subscribe, 25 % or 100 % publish: latency, t_pp 100 and 1000",
        "SRPT's 2.48 times the latency at 256 nodes is met in both time models (2.45 and 2.47). The printed +38.8 % "
        "from 25 % to 100 % publishers is for 4096 nodes, which takes 33 million packets (`--full`, by arrays). It is "
        "not met: acknowledgements, which share the queue, are half of the load, and the authors' simulator already "
        "shows +45.9 % at 1024. At 4096 it is +240 % here (872 and 2964 u.t.): a node has 8190 packets to send, one a "
        "step. With t_pp = 1000 the root has the same queue, and it counts for a tenth as much.",
        _figure_5_8,
        _several_publishers,
        sizes=(8, 16, 32, 64, 128, 256),
        full_sizes=(512, 1024, 4096),
    ),
    PubSub(
        "table-5.1",
        "Mean length of the send queue, node by node, when all nodes publish",
        "Printed for 1024 nodes (`--full`). A node's mean is over the packets it queues for others' messages or passes "
        "on; a publisher's own packet to the root does not count. The printed split of VCube-PS's nodes, 495/510/19, "
        "appears only where acknowledgements do not queue (`peersim-free-acks`): 484/499/41 here, 432/533/59 in the "
        "authors' simulator. So does that half of SRPT's nodes queue nothing: leaves send only acknowledgements. The "
        'root\'s "average 9240 (σ 4617)" is its maximum and its average: 10 packets for each of 1024 messages come in '
        "within 1000 u.t., of which 1000 leave.",
        _table_5_1,
        _hot_topic,
        sizes=(256,),
        full_sizes=(1024,),
        settings=("peersim", "peersim-free-acks"),
    ),
)
