"""Experiments small enough to sweep in a test, one that fails on purpose, and one whose worker dies."""

import os
import signal
import time
from collections.abc import Mapping

from antecede.experiments import Experiment, Value
from antecede.experiments.base import Metrics
from antecede.sim import RunSpec


class Small(Experiment):
    """Packets with and without aggregation."""

    name = "small"
    paper = "thesis"
    item = "table-4.1"
    title = "A table in miniature"
    about = ""
    settings = ("calibrated",)
    sizes = (4, 8)
    full_sizes = (16,)

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        return {
            name: RunSpec(
                protocol="causal-aggregation", nodes=nodes, seed=seed, workload="uniform:messages=2", options=options
            )
            for name, options in (("causal", {}), ("none", {"aggregate": False}))
        }

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        return [Value(name, nodes, "packets", run["packets"]) for name, run in metrics.items()]


class Sibling(Small):
    """Wants the same runs."""

    name = "sibling"


class Faulty(Small):
    """Fails at seed 2 with 8 nodes."""

    name = "faulty"

    def execute(self, spec: RunSpec) -> Metrics:
        if (spec.nodes, spec.seed) == (8, 2):
            raise ValueError("no luck\nat all")
        return super().execute(spec)


class Deadly(Small):
    """Takes its worker with it at seed 1 with 4 nodes, without aggregation."""

    name = "deadly"

    def execute(self, spec: RunSpec) -> Metrics:
        if (spec.nodes, spec.seed) == (4, 1) and spec.options:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().execute(spec)


class Slow(Small):
    """Takes long enough to be interrupted."""

    name = "slow"

    def execute(self, spec: RunSpec) -> Metrics:
        time.sleep(0.3)
        return super().execute(spec)
