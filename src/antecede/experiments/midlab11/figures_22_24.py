"""Figures 22 to 24 of the TNO paper: a small system, beside a fixed sequencer in the manner of JGroups.

The paper measured its prototype: up to 10 virtual machines whose network was slowed down to "standard ADSL bandwidth"
and 21 ms, one publisher, 5 topics that all nodes take. Here it is simulated: 21 ms a link, and each packet occupies its
sender's wire for as long as its bytes need. The paper prints neither the upstream rate of the ADSL line nor the size of
payloads, and both decide where the system saturates: settings take 1 Mb/s and 512 kb/s with 50 bytes, and 1 Mb/s with
500. Processors cost nothing.
"""

from collections.abc import Mapping
from typing import NamedTuple

from antecede.experiments.base import Axis, Experiment, Metrics, Value
from antecede.experiments.midlab11.figures_9_15 import PUBLICATIONS, tno
from antecede.experiments.midlab11.measure import measured
from antecede.sim import RunSpec

TOPICS = 5
#: Events a second in Figures 23 and 24.
RATES = (5, 20, 50, 100)
LARGEST = 10
#: Seconds during which events are published.
_DURATION = 10


class _Line(NamedTuple):
    """One reading of what the text leaves open."""

    kbps: int
    payload: int


_LINES = {"1-mbps": _Line(1000, 50), "512-kbps": _Line(512, 50), "1-mbps-500-bytes": _Line(1000, 500)}


class Prototype(Experiment):
    """Figures 22 to 24."""

    name = "tno-figures-22-24"
    paper = "tno"
    item = "figures-22-24"
    title = "A small wide-area system, by its size and by the rate of events, beside a fixed sequencer"
    about = (
        "Seconds end to end and percent of the events that have reached all nodes within a second, at 1 event a second "
        "and, with 10 nodes, at 5 to 100. As published: latency grows with the size and soon flattens, since it is "
        "made by the timestamps' length; a single node costs nothing; worst case, uniform, power law in this order "
        "(0.17, 0.14 and 0.11 s with 10 nodes on 1-mbps, all within 0.01 over 5 seeds); what arrives within a second "
        "falls with the rate, first in the worst case. Beside the sequencer (Figure 24): at low rates ours is two to "
        "three times as slow, not close (0.05 s), since a timestamp and Scribe's root are a few links more than the "
        "sequencer's two. At high rates ours outperforms it, as published, where payloads are long (1-mbps-500-bytes, "
        "a setting added to find where the published crossing can be; with 50 bytes none was seen at 512 kb/s or 1 "
        "Mb/s): at 50 events a second 1.8 ± 0.2 s under the power law, 1.2 ± 0.3 s uniform, 4.8 ± 0.2 s with the "
        "sequencer, for five topics have roots on different wires and the sequencer has one. Uniform is ahead there, "
        "since the power law wears out one root first. Where payloads are short (512-kbps), timestamps weigh as much "
        "as they save and the sequencer stays ahead. The paper's reason, trees against a star, does not apply to 10 "
        "nodes: each knows all others, and Scribe's trees are stars."
    )
    settings = tuple(_LINES)
    axis = Axis(r"-(\d+)$", "events a second")
    sizes = (1, 2, 5, LARGEST)

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        line = _LINES[setting]
        found = {}
        for rate in (1, *(RATES if nodes == LARGEST else ())):
            for variant in (*PUBLICATIONS, "sequencer"):
                publication = "uniform" if variant == "sequencer" else variant
                load = f"count={TOPICS},taken={TOPICS},publication={publication},publishers=1,payload={line.payload}"
                found[f"{variant}/{rate}"] = RunSpec(
                    protocol="sequencer" if variant == "sequencer" else "tno",
                    nodes=nodes,
                    seed=seed,
                    network=f"constant:delay=21,t_pc=0,t_t=0,bandwidth={line.kbps / 8:g}",
                    workload=f"overlapping:{load},messages={rate * _DURATION + 10},interval={1000 / rate:g}",
                    options={"retry": 60_000, "sequencer": nodes - 1} if variant == "sequencer" else tno(window=4096),
                )
        return found

    def execute(self, spec: RunSpec) -> Metrics:
        return measured(spec)

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        found = []
        for variant, its in metrics.items():
            name, _, rate = variant.partition("/")
            for metric in ("end_to_end", "within_second"):
                found.append(Value(name, nodes, f"{metric}-{rate}", its[metric]))
        return found


PROTOTYPE = (Prototype(),)
