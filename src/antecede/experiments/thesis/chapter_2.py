"""Section 2.4 of the thesis: how soon VCube's diagnosis informs every node. Log₂N rounds on average, log₂²N at worst.

* `one`: one node, drawn at random, stops.
* `many`: up to half of the nodes, drawn at random, stop at once. Testers are among them, and their testers.

A round is 1000 u.t.; nodes stop just before one. The worst case is an upper bound that no draw comes near.
"""

import random
from collections.abc import Mapping
from math import log2

from antecede.experiments.base import Experiment, Metrics, Value
from antecede.experiments.published import PublishedValue
from antecede.protocols.diagnosis.process import Diagnosis
from antecede.sim import RunSpec
from antecede.sim.engine import Simulation
from antecede.sim.network import PacketSwitched, constant
from antecede.sim.units import TICKS

ROUND = 1000 * TICKS
TIMEOUT = 400 * TICKS


class DiagnosisRounds(Experiment):
    """Rounds until every node that is up knows every node that is down."""

    name = "vcube-diagnosis"
    paper = "thesis"
    item = "section-2.4"
    title = "Rounds until every node knows which nodes are down"
    about = (
        "The published column is the bound at each size: log₂N for the mean, log₂²N for the longest. The mean over "
        "nodes is below the bound: a failed node has log₂N testers, which all find out in the first round, and the "
        "news spreads from all of them. The bounds count from the last failure: if every node stops as soon as it has "
        "found out, 64 nodes stay uninformed for 88 rounds, with 62 of them down in the end."
    )
    settings = ("one", "many")
    sizes = (8, 16, 32, 64, 128, 256)
    full_sizes = (512, 1024)

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        rng = random.Random(f"{seed}/{setting}/{nodes}")
        down = rng.sample(range(nodes), 1 if setting == "one" else rng.randint(1, nodes // 2))
        faults = tuple(f"crash:node={node},at=999" for node in sorted(down))
        return {setting: RunSpec(protocol="vcube-diagnosis", nodes=nodes, seed=seed, workload="quiet", faults=faults)}

    def execute(self, spec: RunSpec) -> Metrics:
        """Run the diagnosis alone: nothing is published, and the measure is what each node believes."""
        dimension = int(log2(spec.nodes))
        down = [int(fault.split("=")[1].split(",")[0]) for fault in spec.faults]
        told: list[tuple[int, int, int, bool]] = []

        def make(node: int) -> Diagnosis:
            def tell(about: int, up: bool) -> None:
                told.append((simulation.now, node, about, up))

            rounds = dimension**2 + 2
            return Diagnosis(node, spec.nodes, interval_us=ROUND, timeout_us=TIMEOUT, rounds=rounds, tell=tell)

        simulation = Simulation(make, range(spec.nodes), PacketSwitched(constant(100 * TICKS)))
        for node in down:
            simulation.at(ROUND - TICKS, lambda node=node: simulation.crash(node))  # type: ignore[misc]
        simulation.run(until=ROUND - 1)
        before = simulation.packets
        known: dict[tuple[int, int], int] = {}
        rounds = 1
        while len(known) < len(down) * (spec.nodes - len(down)) and rounds <= dimension**2 + 1:
            simulation.run(until=(rounds + 1) * ROUND - 1)
            for _, node, about, up in told:
                if not up and node in simulation.processes:
                    known.setdefault((node, about), rounds)
            told.clear()
            rounds += 1
        return {
            "known": len(known),
            "owed": len(down) * (spec.nodes - len(down)),
            "rounds_mean": sum(known.values()) / max(1, len(known)),
            "rounds_max": max(known.values(), default=0),
            "packets_a_round": (simulation.packets - before) / max(1, rounds - 1),
        }

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        values = []
        for setting, run in metrics.items():
            values += [
                Value(setting, nodes, "everyone_knows", 100 * run["known"] / run["owed"]),
                Value(setting, nodes, "rounds_mean", run["rounds_mean"]),
                Value(setting, nodes, "rounds_max", run["rounds_max"]),
                Value(setting, nodes, "tests_a_node_and_round", run["packets_a_round"] / 2 / nodes),
            ]
        return values

    def published(self) -> dict[tuple[str, int, str], PublishedValue]:
        bounds = {"rounds_mean": 1, "rounds_max": 2, "tests_a_node_and_round": 1}
        return {
            (setting, nodes, metric): PublishedValue(
                self.paper, self.item, setting, setting, nodes, metric, log2(nodes) ** power, "rounds_upper_bound"
            )
            for setting in self.settings
            for nodes in (*self.sizes, *self.full_sizes)
            for metric, power in bounds.items()
        }


DIAGNOSIS: tuple[Experiment, ...] = (DiagnosisRounds(),)
