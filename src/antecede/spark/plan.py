"""Decides which runs a sweep has to carry out, and in which order."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from antecede.core import AntecedeError
from antecede.core.choices import parse
from antecede.experiments import Case, Experiment
from antecede.sim import RunSpec
from antecede.sim.workloads import WORKLOADS
from antecede.spark.manifest import Manifest, RunRow
from antecede.spark.task import Task, is_simulated, runs_as_simulated


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The runs to carry out, longest first, and the rows that are known already."""

    tasks: list[Task]
    #: Rows that other experiments of this sweep already have for the same run.
    known: list[RunRow]
    #: The number of runs that were complete before.
    complete: int


def make_plan(
    experiments: Sequence[Experiment],
    cases: Mapping[str, Sequence[Case]],
    manifests: Mapping[str, Manifest],
    *,
    out: Path,
    trace: bool,
    code: str,
    check_code: bool,
) -> Plan:
    """Plan every run once, however many cases and experiments want it, except those that are complete.

    A run is complete if it has a row of this spec (by key) and this code, without an error, and with a trace if traces
    are wanted.
    """
    shared = _complete_and_shared(experiments, manifests, out, trace, code)
    wanted: dict[tuple[str, str], list[str]] = {}
    specs: dict[str, RunSpec] = {}
    known: list[RunRow] = []
    complete = 0
    for experiment in experiments:
        keys = {spec.key(): spec for case in cases[experiment.name] for spec in case.runs.values()}
        plain = runs_as_simulated(experiment)
        for key, spec in keys.items():
            row = manifests[experiment.name].rows.get(key)
            if row is not None and _is_complete(row, out, trace, code):
                complete += 1
            elif plain and key in shared:
                known.append(msgspec.structs.replace(shared[key], experiment=experiment.name))
            else:
                specs[key] = spec
                wanted.setdefault(("" if plain else experiment.name, key), []).append(experiment.name)
    tasks = [
        Task(
            spec=specs[key],
            experiments=tuple(names),
            code=code,
            check_code=check_code,
            trace_into=str(out) if trace else None,
            cost=cost(specs[key]),
        )
        for (_, key), names in wanted.items()
    ]
    tasks.sort(key=lambda task: -task.cost)
    return Plan(tasks=tasks, known=known, complete=complete)


def cost(spec: RunSpec) -> float:
    """Estimate how long a run takes, as if every message reached every node: good enough to start the longest first."""
    try:
        workload = parse("workload", spec.workload, WORKLOADS)
    except AntecedeError:
        return 0.0  # the run itself reports the error at once
    messages = int(getattr(workload, "messages", 1))
    return float(messages) * spec.nodes**2


def _complete_and_shared(
    experiments: Sequence[Experiment], manifests: Mapping[str, Manifest], out: Path, trace: bool, code: str
) -> dict[str, RunRow]:
    return {
        key: row
        for experiment in experiments
        if runs_as_simulated(experiment)
        for key, row in manifests[experiment.name].rows.items()
        if _is_complete(row, out, trace, code)
    }


def _is_complete(row: RunRow, out: Path, trace: bool, code: str) -> bool:
    if row.error is not None or row.code != code:
        return False
    if not trace or not is_simulated(row.run_spec()):
        return True
    return row.trace is not None and (out / row.trace).is_dir()
