"""LoCaMu beside CBCAST and Causal Barriers: throughput and metadata over the number of publishers, Figures 5 and 6.

Every publisher sends up to 100 messages a second, to one group of all nodes (Figure 5) or to the groups of the subtrees
it is in, each as often as the other (Figure 6). `figure_4` says how throughput is measured and explains the settings.
"""

from collections.abc import Callable, Mapping, Sequence

from antecede.experiments.base import Experiment, Metrics, Value
from antecede.experiments.locamu.figure_4 import PUBLISHERS, Load, OnTree, crossing, metadata

#: Milliseconds between two messages of a publisher that may send a hundred a second.
HUNDRED_A_SECOND = 10

CAUSAL = ("locamu", "cbcast", "causal-barriers")


def publishing(nodes: int) -> tuple[int, ...]:
    """One, an eighth, a quarter, half of the nodes, and all."""
    return (1, nodes // 8, nodes // 4, nodes // 2, nodes)


def _causal_loads(mbps: int, groups: str) -> Callable[[int], dict[str, Load]]:
    def messages(protocol: str, publishers: int) -> int:
        if protocol == "locamu":
            return 100 if groups == "one" or publishers == 1 else 300
        # In the first half all publish and are heard, on one topic or on most of theirs. The second half counts.
        return max(200, (3 if groups == "one" and mbps == 10 else 4) * publishers)

    def loads(nodes: int) -> dict[str, Load]:
        return {
            f"{protocol}-{publishers}": Load(
                protocol,
                publishers,
                mbps,
                interval=HUNDRED_A_SECOND,
                groups=groups,
                messages=messages(protocol, publishers),
            )
            for protocol in CAUSAL
            for publishers in publishing(nodes)
        }

    return loads


def _causal_figures(nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
    """Throughput (a, c) and metadata (b, d) over the number of publishers, and where CBCAST passes LoCaMu."""
    values, rates, sizes = [], {}, {}
    numbers = publishing(nodes)
    for protocol in CAUSAL:
        runs = [metrics[f"{protocol}-{publishers}"] for publishers in numbers]
        rates[protocol] = [float(run["throughput"]) for run in runs]
        sizes[protocol] = [metadata(run) for run in runs]
        for publishers, rate, size in zip(numbers, rates[protocol], sizes[protocol], strict=True):
            values.append(Value(protocol, nodes, f"throughput_{publishers}_publishers", rate))
            values.append(Value(protocol, nodes, f"metadata_{publishers}_publishers", size))
    for metric, crossed in (
        ("metadata_exceeds_locamu_at_publishers", crossing(numbers, sizes["locamu"], sizes["cbcast"])),
        ("falls_behind_locamu_at_publishers", _falls_behind(numbers, rates["locamu"], rates["cbcast"])),
    ):
        if crossed is not None:
            values.append(Value("cbcast", nodes, metric, crossed))
    return values


def _falls_behind(numbers: Sequence[float], locamu: Sequence[float], cbcast: Sequence[float]) -> float | None:
    """Where CBCAST, ahead at its best, is behind: as long as neither is saturated the two are the same."""
    best = max(range(len(numbers)), key=lambda index: cbcast[index] - locamu[index])
    if cbcast[best] <= locamu[best]:
        return None
    return crossing(numbers[best:], cbcast[best:], locamu[best:])


def _figure(item: str, title: str, about: str, mbps: int, groups: str, nodes: int = 127) -> OnTree:
    full = tuple(size for size in (255, 511) if size > nodes)
    loads = _causal_loads(mbps, groups)
    return OnTree(item, title, about, _causal_figures, loads, sizes=(nodes,), full_sizes=full, axis=PUBLISHERS)


BESIDE_CAUSAL: tuple[Experiment, ...] = (
    _figure(
        "figure-5a-b",
        "One group, 100 Mb/s: throughput and metadata over the number of publishers",
        "Curves without numbers. Until something is saturated all deliver what is published, a hundred a second from "
        "each; Causal Barriers, which carry an entry for each node and direct dependency, are saturated first. CBCAST "
        "carries 8 bytes for each publisher that spoke since its last message: less than LoCaMu with few publishers, "
        "more with many, up to a full clock of 4 bytes a node. With 127 nodes that is no longer than LoCaMu's largest "
        "header, so both come to the same; with 255 and more CBCAST falls behind.",
        100,
        "one",
    ),
    _figure(
        "figure-5c-d",
        "One group, 10 Mb/s: throughput and metadata over the number of publishers",
        "The crossing is there: CBCAST is at its best with an eighth of the nodes publishing, falls as its clocks "
        "grow, and is behind LoCaMu when about a quarter publish (whole), or earlier (changes). With 127 nodes instead "
        "of 255 or the paper's 511 a full clock is hardly longer than LoCaMu's header, and the lines only just cross. "
        "The metadata of Causal Barriers depends on how many messages are concurrent and levels off where the network "
        "is full.",
        10,
        "one",
        nodes=255,
    ),
    _figure(
        "figure-6a-b",
        "A group for every subtree, 100 Mb/s: throughput and metadata over the number of publishers",
        "A publisher chooses for each message among the groups it is in, all alike; the paper does not say how it is "
        "done. LoCaMu's metadata is as with one group, as printed, and Causal Barriers' within about a factor of two; "
        "CBCAST's grows, since a message carries what changed in all groups since its publisher's last one to the same "
        "group. There are fewer deliveries than with one group, for most groups are small.",
        100,
        "subtrees",
    ),
    _figure(
        "figure-6c-d",
        "A group for every subtree, 10 Mb/s: throughput and metadata over the number of publishers",
        "As Figure 6a and b with a tenth of the bandwidth: CBCAST's throughput falls to a third or less of LoCaMu's "
        "when all publish, and is behind with fewer publishers than with one group.",
        10,
        "subtrees",
    ),
)
