"""Carries out one run on a worker: from its spec to a row of the manifest, and its trace if one is wanted.

Every error of a run becomes its row. The result of a run depends on its spec alone, so a task that is tried twice, on
any worker, writes the same files under the same names.
"""

import time
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from antecede.experiments import Experiment
from antecede.protocols.registry import PROTOCOLS
from antecede.sim import RunSpec, simulate
from antecede.sim.workloads import WORKLOADS
from antecede.spark.gc_freeze import freeze_once
from antecede.spark.manifest import RunRow
from antecede.spark.ship import code_version
from antecede.spark.sweep_directory import trace_path
from antecede.trace.directory import write_directory


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One run to carry out. Several experiments may want the same run."""

    spec: RunSpec
    #: Their names; the first one executes the run.
    experiments: tuple[str, ...]
    #: The version of the driver's code, and whether the worker has to compare its own.
    code: str
    check_code: bool = False
    #: The directory of the sweep, if a trace is wanted.
    trace_into: str | None = None
    cost: float = 0.0


def carry_out(task: Task, experiments: Mapping[str, Experiment]) -> list[RunRow]:
    """Carry out a run and return its rows, one for each experiment that wants it."""
    freeze_once()
    began = time.monotonic()
    metrics: str | None = None
    error: str | None = None
    where: str | None = None
    trace: str | None = None
    try:
        if task.check_code and code_version() != task.code:
            raise RuntimeError(f"the worker runs code {code_version()}, the driver {task.code}")
        measured, trace = _execute(experiments[task.experiments[0]], task)
        metrics = msgspec.json.encode(measured).decode()
    except (Exception, SystemExit) as raised:
        error = f"{type(raised).__name__}: {raised}".splitlines()[0]
        where = traceback.format_exc()
    return rows_of(task, metrics=metrics, error=error, traceback=where, trace=trace, seconds=time.monotonic() - began)


def rows_of(
    task: Task,
    *,
    metrics: str | None = None,
    error: str | None = None,
    traceback: str | None = None,
    trace: str | None = None,
    seconds: float = 0.0,
) -> list[RunRow]:
    """The rows of a task, one for each experiment that wants it."""
    spec = task.spec
    return [
        RunRow(
            experiment=name,
            key=spec.key(),
            code=task.code,
            protocol=spec.protocol,
            nodes=spec.nodes,
            seed=spec.seed,
            spec=msgspec.json.encode(spec, order="sorted").decode(),
            metrics=metrics,
            error=error,
            traceback=traceback,
            command=spec.command(),
            trace=trace,
            seconds=seconds,
            finished=now(),
        )
        for name in task.experiments
    ]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def runs_as_simulated(experiment: Experiment) -> bool:
    """Whether the experiment uses the simulator's metrics as they are, so that equal specs give equal results."""
    return type(experiment).execute is Experiment.execute


def is_simulated(spec: RunSpec) -> bool:
    """Whether `simulate` can carry out the run. A few experiments measure something else and have no trace."""
    return spec.protocol in PROTOCOLS and spec.workload.partition(":")[0] in WORKLOADS


def _execute(experiment: Experiment, task: Task) -> tuple[Any, str | None]:
    """Run it; return its metrics and the path of its trace."""
    if task.trace_into is None or not is_simulated(task.spec):
        return experiment.execute(task.spec), None
    plain = runs_as_simulated(experiment)
    result = simulate(task.spec, trace=True, measure=plain)
    assert result.trace is not None
    out = Path(task.trace_into)
    path = trace_path(out, experiment.name, task.spec.key())
    write_directory(result.trace.table(task.spec.key()), path)
    measured = result.metrics if plain else experiment.execute(task.spec)
    return measured, str(path.relative_to(out))
