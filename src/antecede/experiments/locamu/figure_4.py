"""LoCaMu's throughput: how it is measured, and Figure 4 of its paper, beside Delta-Neighbourhood.

All runs are on complete trees whose nodes share their bandwidth among their links, 1 ms a link, payloads of 32 bytes.
The paper prints curves without numbers. So only the winner, the growth of lines and their crossings can be compared.

"Maximum throughput" is read as an ideal flow control that holds publishers back (`sim.saturation`), each up to 100
messages a second where the paper limits them. The other reading, to publish regardless, fills queues without end. What
is then published depends on old messages only, and CBCAST's clocks shrink just when the paper says that they grow.

Two settings differ in how LoCaMu's metadata is counted ("optimized versions, detailed in the thesis"):

* `whole`: every message carries all counters of its sender's neighbourhood, the 540 bytes of section VI.
* `changes`: only counters that changed on that link, which is what our LoCaMu sends.

LoCaMu runs as in the paper, without the records of names that let delivery go on when a relay never comes back.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from antecede.experiments.base import Axis, Experiment, Metrics, PartsExperiment, Value
from antecede.sim import RunSpec, simulate
from antecede.sim.throughput import Throughput

#: Bytes of header and group number, which all packets have here and the paper does not count.
COMMON = 22

PUBLISHERS = Axis(r"_(\d+)_publishers$", "publishers")


class Load(NamedTuple):
    """One of the runs that are compared."""

    protocol: str
    publishers: int = 1
    mbps: int = 100
    #: Faults that LoCaMu tolerates; the others have no such choice.
    f: int = 1
    interval: int = 0
    groups: str = "one"
    messages: int = 200
    #: Publishers begin within this time.
    within: int = 0

    def spec(self, nodes: int, seed: int, header: str) -> RunSpec:
        load = f"publishers={self.publishers},interval={self.interval},messages={self.messages},groups={self.groups}"
        # LoCaMu's packets grow on their way: let some pass first.
        load += f",within={self.within},warm_up={2 * nodes.bit_length() if self.protocol == 'locamu' else 0}"
        return RunSpec(
            protocol=self.protocol,
            nodes=nodes,
            seed=seed,
            network=f"shared-bandwidth:mbps={self.mbps}",
            workload=f"saturating:{load}",
            options={"f": self.f, "records": False, "header": header} if self.protocol == "locamu" else {},
        )


class OnTree(PartsExperiment[Callable[[int], Mapping[str, Load]]]):
    """An experiment of sections IV and V: a few systems under as much load as they carry. The plan is by size."""

    paper = "locamu"
    settings = ("whole", "changes")

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        return {name: load.spec(nodes, seed, setting) for name, load in self.plan(nodes).items()}

    def execute(self, spec: RunSpec) -> Metrics:
        """Throughput, in the place of the simulator's own metrics."""
        watch = Throughput()
        rest = simulate(spec, measure=False, watch=[watch]).metrics
        return {**watch.metrics(), **rest}


def metadata(run: Metrics) -> float:
    """Mean bytes of a message beyond its payload, without what all packets have."""
    return float(run["metadata_mean"]) - COMMON


def crossing(xs: Sequence[float], one: Sequence[float], other: Sequence[float]) -> float | None:
    """Where `other`, which begins below `one`, first reaches it, between two points on the straight line."""
    gaps = [b - a for a, b in zip(one, other, strict=True)]
    for index, gap in enumerate(gaps):
        if gap >= 0:
            if index == 0:
                return None
            before = gaps[index - 1]
            return xs[index - 1] + (xs[index] - xs[index - 1]) * before / (before - gap)
    return None


# -- IV-B: beside Delta-Neighbourhood ---------------------------------------------------------------------------------

LOCALIZED = ("locamu", "delta-neighbourhood")


def _alone(protocol: str, mbps: int = 100, f: int = 1) -> Load:
    """One publisher, the root. A few messages suffice where each waits for the last."""
    few = protocol == "delta-neighbourhood" or f > 2  # whose headers are many kilobytes long
    return Load(protocol, mbps=mbps, f=f, messages=24 if few else 100)


def _figure_4a_loads(nodes: int) -> dict[str, Load]:
    return {protocol: _alone(protocol) for protocol in LOCALIZED}


def _figure_4a(nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
    return [
        Value(protocol, nodes, "individual_throughput", run["messages_a_second"]) for protocol, run in metrics.items()
    ]


def _one_half_all(nodes: int) -> tuple[int, ...]:
    return (1, nodes // 2, nodes)


def _figure_4b_loads(nodes: int) -> dict[str, Load]:
    loads = {}
    for publishers in _one_half_all(nodes):
        loads[f"locamu-{publishers}"] = Load("locamu", publishers, messages=80)
        # Three messages each, begun at different times: a message and its confirmations take up to 4 ms a level.
        within = 4 * nodes.bit_length() if publishers > 1 else 0
        messages = max(24, 3 * publishers)
        loads[f"delta-neighbourhood-{publishers}"] = Load(
            "delta-neighbourhood", publishers, messages=messages, within=within
        )
    return loads


def _figure_4b(nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
    values, lines = [], {}
    numbers = _one_half_all(nodes)
    for protocol in LOCALIZED:
        lines[protocol] = [float(metrics[f"{protocol}-{publishers}"]["throughput"]) for publishers in numbers]
        values += [
            Value(protocol, nodes, f"throughput_{publishers}_publishers", value)
            for publishers, value in zip(numbers, lines[protocol], strict=True)
        ]
    crossed = crossing(numbers, lines["locamu"], lines["delta-neighbourhood"])
    if crossed is not None:
        values.append(Value("delta-neighbourhood", nodes, "overtakes_locamu_at_publishers", crossed))
    return values


BANDWIDTHS = (10, 25, 50, 100)


def _figure_4c_loads(nodes: int) -> dict[str, Load]:
    return {f"{protocol}-{mbps}": _alone(protocol, mbps) for protocol in LOCALIZED for mbps in BANDWIDTHS}


def _figure_4c(nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
    return [
        Value(protocol, nodes, f"individual_throughput_{mbps}_mbps", metrics[f"{protocol}-{mbps}"]["messages_a_second"])
        for protocol in LOCALIZED
        for mbps in BANDWIDTHS
    ]


#: Trees below this size are smaller than a neighbourhood of f = 3.
_DEEP = 511


def _faults(nodes: int) -> tuple[int, ...]:
    return (0, 1, 2) if nodes < _DEEP else (0, 1, 2, 3, 4)


def _figure_4d_loads(nodes: int) -> dict[str, Load]:
    loads = {f"locamu-{f}": _alone("locamu", f=f) for f in _faults(nodes)}
    return {**loads, "delta-neighbourhood": _alone("delta-neighbourhood")}


def _figure_4d(nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
    values = []
    for f in _faults(nodes):
        run = metrics[f"locamu-{f}"]
        values.append(Value("locamu", nodes, f"individual_throughput_f_{f}", run["messages_a_second"]))
        values.append(Value("locamu", nodes, f"metadata_f_{f}", metadata(run)))
    rival = metrics["delta-neighbourhood"]["messages_a_second"]
    return [*values, Value("delta-neighbourhood", nodes, "individual_throughput", rival)]


BESIDE_DELTA: tuple[Experiment, ...] = (
    OnTree(
        "figure-4a",
        "One publisher: messages a second over the number of nodes, LoCaMu and Delta-Neighbourhood",
        "Curves without numbers. Delta-Neighbourhood falls as the tree gets deeper, since its next message waits for "
        "the last one's way there and back: 62.5 a second at 511 nodes, 2 × 8 ms. LoCaMu does not depend on the number "
        "of nodes once neighbourhoods are complete (63 and more). Counted whole, its 10 to 12 thousand a second are "
        "what 100 Mb/s carry of two copies of 540 + 32 bytes; counting changes only, about twice that.",
        _figure_4a,
        _figure_4a_loads,
        sizes=(15, 31, 63, 127),
        full_sizes=(255, 511),
    ),
    OnTree(
        "figure-4b",
        "Several publishers: messages delivered a second, LoCaMu and Delta-Neighbourhood",
        "The printed crossing is met with headers counted whole, at 511 nodes and 100 Mb/s: LoCaMu is flat from "
        "one publisher on, Delta-Neighbourhood grows in proportion to the publishers and passes it when about two "
        "thirds of the nodes publish. With changes only LoCaMu carries twice as much, and Delta-Neighbourhood with all "
        "511 publishing does not reach it. At 255 nodes there are not enough publishers for either.",
        _figure_4b,
        _figure_4b_loads,
        sizes=(511,),
        axis=PUBLISHERS,
    ),
    OnTree(
        "figure-4c",
        "One publisher: messages a second over the bandwidth of a node, LoCaMu and Delta-Neighbourhood",
        "LoCaMu grows in proportion to the bandwidth, Delta-Neighbourhood hardly notices. 63 nodes instead of 511, "
        "which changes neither (Figure 4a).",
        _figure_4c,
        _figure_4c_loads,
        sizes=(63,),
        full_sizes=(511,),
        axis=Axis(r"_(\d+)_mbps$", "Mb/s"),
    ),
    OnTree(
        "figure-4d",
        "One publisher: messages a second over f, LoCaMu and Delta-Neighbourhood",
        "LoCaMu drops with f as its neighbourhood grows. From f = 2 on our nodes number messages as far as 2f hops "
        "instead of f + 1, without which order is violated when two nodes are down, so ours drops more than the "
        "paper's would. Where a tree of 63 nodes is smaller than the neighbourhood (f = 3 and more) nothing could be "
        "read off it; `--full` goes to f = 4 on 511 nodes. In a short run of 20 messages on 127 nodes (seed 1, whole) "
        "16,100, 1,920 and 544 messages a second pass with f = 1, 2 and 3, with headers of 0.3, 2.1 and 7.7 KB. "
        "Delta-Neighbourhood runs without redundant links and does not depend on f.",
        _figure_4d,
        _figure_4d_loads,
        sizes=(63,),
        full_sizes=(511,),
        axis=Axis(r"_f_(\d+)$", "f"),
    ),
)
