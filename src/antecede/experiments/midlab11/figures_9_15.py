"""Figures 9 to 15 of the TNO paper (6.2): what total notification order costs under a fixed order of topics.

Scribe is the event service, as in the paper; links are fast or slow, 1 ms is 1 u.t. The paper prints no numbers for
these figures, so shapes are compared. Beside them stands what the definition of a timestamp implies: where every node
takes all topics, an event on the topic of rank r has r entries.

The settings are readings of what the text leaves open. Packets between managers ("Pastry as a point-to-point
communication substrate") travel over one link (`links`), or over the links of Pastry's route (`pastry`).
"""

import math
from collections.abc import Mapping

from antecede.experiments.base import Axis, Experiment, Metrics, Value
from antecede.experiments.midlab11.measure import measured
from antecede.protocols.tno.event import ENTRY_BYTES
from antecede.sim import RunSpec

#: Figure 9: topics; every node takes all of them.
TOPICS = 50
SHAPE = 0.901
#: The other shape of the text (6.1): 40 % of the topics have 80 % of the publications.
FLAT = 0.269
PUBLICATIONS = ("worst", "uniform", "power")


def tno(**more: object) -> dict[str, object]:
    """Options of the ordering layer over Scribe. No packet is lost here: retransmissions can wait."""
    return {"ens": "scribe", "ttl": 0, "retry": 60_000, **more}


def topics_by_rank(count: int) -> list[str]:
    """Topic names of the workload `overlapping`."""
    return [f"topic-{rank:0{len(str(count))}}" for rank in range(1, count + 1)]


def mean_rank(publication: str, count: int) -> float:
    """Mean rank of a publication's topic: the entries of its timestamp where every node takes all topics."""
    if publication == "worst":
        return count
    if publication == "uniform":
        return (count + 1) / 2
    shape = FLAT if publication == "power-flat" else SHAPE
    # The whole part of a Pareto draw.
    drawn = [math.pow(rank, -shape) - math.pow(rank + 1, -shape) for rank in range(1, count + 1)]
    return sum(rank * share for rank, share in enumerate(drawn, 1)) / sum(drawn)


class _OverScribe(Experiment):
    """An experiment that follows the events of a run."""

    paper = "tno"

    def execute(self, spec: RunSpec) -> Metrics:
        return measured(spec)


class Latency(_OverScribe):
    """Figures 9 to 12."""

    name = "tno-figures-9-12"
    item = "figures-9-12"
    title = "From publication to the last notification, with 50 topics that every node takes, by publication model"
    about = (
        "Seconds from an event's publication to its last notification (end_to_end), and their parts: until its "
        "timestamp is complete (ordering), until the service has brought it to the last subscriber (service), and how "
        "long a subscriber holds it on the mean (held; no limit, TNO+). `added` is what ordering adds to Scribe alone, "
        "under the same publications. As published: worst case far above uniform, uniform above power law (3.9 ± 0.5, "
        "2.4 ± 0.4 and 1.0 ± 0.1 s with 100 nodes over single links, 5 seeds; Scribe alone 0.7); ordering drives the "
        "worst case and stays below the service's time under the power law (0.29 ± 0.04 against 0.67 ± 0.06 s); fewer "
        "events within a second in the same order (none, 10 ± 7 and 62 ± 9 %). Timestamps have as many entries as "
        "predicted (entries_predicted), and take one packet more than entries, less what managers share a node "
        "(making); what acknowledges them is apart (keeping). That the worst case grows steeply with the size follows "
        "only if managers talk over Pastry's routes (setting pastry: 3.7 ± 1.2 s with 10 nodes, 3.6 ± 0.5 with 30, 6.2 "
        "± 0.7 with 100, and in one run each 9 with 1,000 and 11 with 10,000); over single links (links: 3.7 ± 1.2, "
        "3.2 ± 0.3, 3.9 ± 0.5, in one run 5 with 1,000) only Scribe's trees grow. With 10 nodes it matters more which "
        "of their few links happen to be slow. Events are 100 where the paper has 1,800, and 20 with 10,000 nodes; "
        "1,000 and 10,000 nodes are left to --full, one run of 10,000 taking 2.4 GB."
    )
    settings = ("links", "pastry")
    sizes = (10, 30, 100)
    full_sizes = (1000, 10_000)

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        events = 100 if nodes <= 1000 else 20  # a simulated node keeps on its disk what it was notified of
        found = {}
        for publication in (*PUBLICATIONS, "power-flat"):
            law = f"power,shape={FLAT}" if publication == "power-flat" else publication
            load = f"overlapping:count={TOPICS},taken={TOPICS},publication={law},interval=1000"
            for protocol, options in (("tno", tno()), ("scribe", {})):
                found[f"{protocol}-{publication}"] = RunSpec(
                    protocol=protocol,
                    nodes=nodes,
                    seed=seed,
                    network=f"fast-and-slow:over={setting}",
                    workload=f"{load},messages={events}",
                    options=options,
                )
        return found

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        found = []
        for publication in (*PUBLICATIONS, "power-flat"):
            ours, bare = metrics[f"tno-{publication}"], metrics[f"scribe-{publication}"]
            shown = {
                **{name: ours[name] for name in ("end_to_end", "ordering", "service", "held", "within_second")},
                "added": ours["end_to_end"] - bare["end_to_end"],
                "entries": ours["entries"],
                "entries_predicted": mean_rank(publication, TOPICS),
                "entries_below": ours["entries_below"],
                "making": ours["making"],
                "keeping": ours["keeping"],
            }
            found += [Value(publication, nodes, name, value) for name, value in shown.items()]
            found.append(Value(f"scribe-{publication}", nodes, "end_to_end", bare["end_to_end"]))
        return found


class Overhead(_OverScribe):
    """Figures 13 and 14."""

    name = "tno-figures-13-14"
    item = "figures-13-14"
    title = "Bytes of a timestamp, and what managers do for other topics, by the number of topics a node takes"
    about = (
        "Bytes of a timestamp at 24 an entry as the paper counts (bytes), with TNO+'s entries besides (bytes_plus), "
        "and the share of the messages a manager handles for timestamps of other topics' events (for_others), each for "
        "nodes that take 5, 10, 20 or 40 topics. Subscriptions and publications follow the power law 0.901, with the "
        "popular topics highest (best) or lowest (worst), or are uniform. The number of topics is not printed: "
        "settings take 50 and 200. As published: the best case stays small, the worst is the dearest, uniform lies "
        "between (of 50 topics 10 taken: 86 ± 11, 959 ± 62 and 569 ± 30 bytes; 5 seeds, as all that follows). That the "
        "best case does not depend on the number of subscriptions is true only beside the others: from 5 to 40 topics "
        "taken of 200 it grows from 64 ± 1 to 138 ± 31 bytes, uniform from 120 ± 9 to 2,289 ± 126, the worst case from "
        "765 ± 53 to 4,154 ± 97. The share for others (Figure 14) is the mean over managers; it orders the cases as "
        "published, but is not low in the best one, nor independent of subscriptions: 46 ± 4 % with 5 topics taken, 92 "
        "± 1 % with 40, against 96 and 99 % in the worst. Of a timestamp of four entries three are other topics'. "
        "TNO+'s entries add 37 to 46 % of bytes in the best case, 4 % in the worst."
    )
    settings = ("topics-50", "topics-200")
    axis = Axis(r"-(\d+)$", "topics that a node takes")
    sizes = (60,)
    full_sizes = (1000,)
    taken = (5, 10, 20, 40)

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        count = int(setting.removeprefix("topics-"))
        ranks = topics_by_rank(count)
        found = {}
        for taken in self.taken:
            for case, order in (("best", ranks), ("worst", ranks[::-1]), ("uniform", ranks)):
                law = "uniform" if case == "uniform" else "power"
                load = f"count={count},taken={taken},subscription={law},publication={law},messages=150,interval=1000"
                found[f"{case}-{taken}"] = RunSpec(
                    protocol="tno",
                    nodes=nodes,
                    seed=seed,
                    network="fast-and-slow",
                    workload=f"overlapping:{load}",
                    options=tno(order=" ".join(order)),
                )
        return found

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        found = []
        for variant, its in metrics.items():
            case, _, taken = variant.partition("-")
            found += [
                Value(case, nodes, f"bytes-{taken}", ENTRY_BYTES * its["entries"]),
                Value(case, nodes, f"bytes_plus-{taken}", ENTRY_BYTES * (its["entries"] + its["entries_below"])),
                Value(case, nodes, f"for_others-{taken}", its["for_others"]),
            ]
        return found


class Buffer(_OverScribe):
    """Figure 15."""

    name = "tno-figure-15"
    item = "figure-15"
    title = "Notifications tagged out of order, and how long they take, by the size of a subscriber's buffer"
    about = (
        "Percent of notifications that are tagged, and seconds end to end, for buffers of 0 to 30 events and without "
        "limit (inf), and no limit on waiting. Power law 0.901 for subscriptions and publications over 50 "
        "topics of which a node takes 10; neither number is printed for this figure, nor is the rate: settings take 1 "
        "event a second as elsewhere, and 10. As published: a small buffer takes most tags away and adds little "
        "latency. With TNO+ (plus), over 5 seeds: at 1 event a second 7.3 ± 1.7 % are tagged without a buffer, 0.6 ± "
        "0.3 % with one of 1 and none with 5, and an event takes 2 % longer; at 10 a second 38 ± 5 %, 21 ± 4 %, 2.2 ± "
        "1.1 % with 5 and none with 30, for 17 % more (0.92 ± 0.04 to 1.08 ± 0.08 s). With the printed rule (faithful) "
        "3.0 ± 1.8 % and 18 ± 4 % remain whatever the buffer, because an event's timestamp says nothing of topics "
        "below its own."
    )
    settings = ("faithful-1", "plus-1", "faithful-10", "plus-10")
    sizes = (60,)
    full_sizes = (1000,)
    buffers = (0, 1, 2, 5, 10, 30, -1)

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        mode, _, rate = setting.partition("-")
        load = "count=50,taken=10,subscription=power,publication=power,messages=150"
        return {
            str(buffer) if buffer >= 0 else "inf": RunSpec(
                protocol="tno",
                nodes=nodes,
                seed=seed,
                network="fast-and-slow",
                workload=f"overlapping:{load},interval={1000 / int(rate):g}",
                options=tno(mode=mode, buffer=buffer, route="through"),
            )
            for buffer in self.buffers
        }

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        return [
            Value(f"buffer-{buffer}", nodes, metric, its[metric])
            for buffer, its in metrics.items()
            for metric in ("tagged", "end_to_end", "held")
        ]


FIXED_ORDER = (Latency(), Overhead(), Buffer())
