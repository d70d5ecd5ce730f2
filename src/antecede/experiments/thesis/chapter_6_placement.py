"""Section 6.2.1 of the thesis: which physical node gets which slot of the hypercube (`overlay.placement`).

The authors propose to choose slots by a latency matrix, and print no figures. Here VCube-PS runs twice on the same
links: with slots drawn at random, and with slots chosen so that the hypercube's edges are short. 100 messages, one
every 100 u.t. on average, each by a member drawn at random. A link takes the same time for every packet.

* `regions`: five regions at random points, new for each seed; ways of 1 to 10 u.t. within a region, up to 200 between.
* `measured`: half the round-trip times of a file, one ms for one u.t.: the first nodes in it. The environment variable
  ANTECEDE_LATENCY_MATRIX names the file (`sim.matrix` says what it holds). The setting exists while it is set.
* `…-quarter`: a quarter of the nodes subscribe, drawn at random. Slots are chosen for all nodes.
"""

import os
from collections.abc import Mapping

from antecede.experiments.base import Experiment, Metrics, Value
from antecede.experiments.readings import change
from antecede.sim import RunSpec

VARIABLE = "ANTECEDE_LATENCY_MATRIX"
_PLACES = {"random": "random", "placed": "latency"}


class Placement(Experiment):
    """Latency with slots drawn at random, and chosen by latency."""

    name = "thesis-section-6.2.1-placement"
    paper = "thesis"
    item = "section-6.2.1-placement"
    title = "Slots of the hypercube by latency: p50 and p99 beside slots at random"
    about = (
        "No figures are printed. Ours at 64 nodes, ten seeds. On the round-trip times between the first 64 of 490 "
        "PlanetLab nodes (`measured`) chosen slots bring the p50 from 179 ± 7 to 108 ± 4 u.t. (−39 ± 2 %) and the p99 "
        "from 525 ± 25 to 369 ± 14 (−30 ± 5 %). With five regions (`regions`) the p50 falls from 212 ± 43 to 116 ± 15 "
        "(−45 ± 5 %), the p99 from 511 ± 87 to 332 ± 40 (−34 ± 8 %). Where a quarter of the nodes subscribe, trees "
        "leave out most edges that were made short, and the gain is about half as large: p50 −22 ± 24 and −18 ± 7 %. "
        "Subscribers are drawn by slot, so there the two runs have different ones, hence the spread. The measured "
        "matrix is of the NetLatency data of Zhu et al. (ToN 2017) and not part of this package: "
        "ANTECEDE_LATENCY_MATRIX names a file with such times. For live clusters `antecede cluster placement` advises "
        "on slots; nodes neither measure round-trip times nor change slots by themselves."
    )
    settings: tuple[str, ...] = ("regions", "regions-quarter")
    sizes = (64,)
    full_sizes = (128, 256)

    def __init__(self) -> None:
        if VARIABLE in os.environ:
            self.settings = (*self.settings, "measured", "measured-quarter")

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        links = f"matrix:file={os.environ[VARIABLE]}" if setting.startswith("measured") else "regions:count=5"
        subscribers = 0.25 if setting.endswith("quarter") else 1.0
        return {
            name: RunSpec(
                protocol="vcube-ps",
                nodes=nodes,
                seed=seed,
                network=f"{links},place={place}",
                workload=f"rate:messages=100,interval=100,subscribers={subscribers}",
                options={"domain": "topic"},
            )
            for name, place in _PLACES.items()
        }

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        values = []
        for figure in ("mean", "p50", "p99", "max"):
            random, placed = (metrics[name]["delivery_latency"][figure] for name in _PLACES)
            values += [
                Value("random", nodes, f"latency_{figure}", random),
                Value("placed", nodes, f"latency_{figure}", placed),
                Value("placed", nodes, f"latency_{figure}_change", change(placed, random)),
            ]
        return values


PLACEMENT: tuple[Experiment, ...] = (Placement(),)
