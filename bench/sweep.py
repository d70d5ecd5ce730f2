"""What a sweep gains: K runs as Spark tasks against the same runs in a bare loop on one core.

    python bench/sweep.py [--runs 16] [--nodes 256]

Start-up (the JVM and the first Python worker) is told apart. On two cores the most there is to gain is twice.
"""

import argparse
import os
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from antecede.experiments import Experiment, Value
from antecede.experiments.base import Metrics
from antecede.sim import RunSpec
from antecede.spark.session import spark_session
from antecede.spark.sweep import sweep


class Load(Experiment):
    """Broadcasts of about a second each."""

    name = "load"
    paper = item = about = ""
    title = "Load"
    settings = ("calibrated",)

    def __init__(self, nodes: int) -> None:
        self.sizes = (nodes,)

    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        return {"causal": RunSpec(protocol="causal-aggregation", nodes=nodes, seed=seed)}

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        return [Value("causal", nodes, "packets", metrics["causal"]["packets"])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--nodes", type=int, default=256)
    given = parser.parse_args()
    experiment = Load(given.nodes)
    seeds = range(1, given.runs + 1)
    specs = [spec for case in experiment.cases(seeds) for spec in case.runs.values()]
    experiment.execute(specs[0])  # caches, imports

    began = time.monotonic()
    session = spark_session(short=True)
    session.sparkContext.parallelize(range(8), 8).map(_warm).collect()
    start = time.monotonic() - began

    loop, tasks = [], []
    for _ in range(2):  # by turns, so that whatever else the machine does meets both
        began = time.monotonic()
        by_hand = [experiment.execute(spec)["packets"] for spec in specs]
        loop.append(time.monotonic() - began)
        with TemporaryDirectory(prefix="antecede-bench-") as out:
            began = time.monotonic()
            result = sweep(session, [experiment], seeds, Path(out) / "out")
            tasks.append(time.monotonic() - began)
        assert not result.failed
        assert result.lines[0].ours == sum(by_hand) / len(by_hand)
    print(f"{given.runs} runs of {given.nodes} nodes, {min(loop) / given.runs:.2f} s each; {os.cpu_count()} cores")
    print(f"  start-up          {start:7.1f} s")
    print(f"  loop on one core  {min(loop):7.1f} s   ({', '.join(f'{each:.1f}' for each in loop)})")
    print(f"  Spark tasks       {min(tasks):7.1f} s   ({', '.join(f'{each:.1f}' for each in tasks)})")
    print(f"  gain              {min(loop) / min(tasks):7.2f} times")


def _warm(number: int) -> int:
    import antecede.spark.task  # noqa: F401, PLC0415

    return number


if __name__ == "__main__":
    main()
