"""A sweep's directory made without Spark: the same functions a worker and the driver call."""

from pathlib import Path

from antecede.experiments import EXPERIMENTS, Case
from antecede.spark.manifest import Manifest, RunRow
from antecede.spark.results import tabulate, write_tables
from antecede.spark.sweep_directory import SweepRequest, write_request
from antecede.spark.task import Task, carry_out

NAME = "thesis-table-4.1"


def make_sweep(out: Path, *, trace: bool = False, fail: bool = False) -> list[RunRow]:
    """Table 4.1 at 16 and 32 nodes, two seeds; with `fail`, one run more that raised."""
    out.mkdir()
    experiment = EXPERIMENTS[NAME]
    cases = [
        Case(setting=setting, nodes=nodes, seed=seed, runs=experiment.runs(setting, nodes, seed))
        for setting in ("literal", "calibrated")
        for nodes in (16, 32)
        for seed in (1, 2)
    ]
    manifest = Manifest(out, NAME)
    into = str(out) if trace else None
    for case in cases:
        for spec in case.runs.values():
            for row in carry_out(Task(spec=spec, experiments=(NAME,), code="", trace_into=into), EXPERIMENTS):
                manifest.add(row)
    if fail:
        spec = experiment.runs("literal", 16, 99)["causal"]
        raising = Task(spec=spec, experiments=(NAME,), code="of another time", check_code=True)
        for row in carry_out(raising, EXPERIMENTS):
            manifest.add(row)
    manifest.save()
    values, lines = tabulate(experiment, cases, manifest.rows)
    write_tables(out, values, lines)
    asked = SweepRequest(
        command="antecede experiments run thesis-table-4.1 --seeds 2 --out x",
        experiments=[NAME],
        seeds=[1, 2],
        full=False,
        trace=trace,
        started="2025-11-15T06:00:00+00:00",
        finished="2025-11-15T06:01:00+00:00",
        runs=len(manifest.rows),
        environment={"antecede": "0.1.0", "python": "3.11.2", "cores": 2},
    )
    write_request(out, asked)
    return list(manifest.rows.values())
