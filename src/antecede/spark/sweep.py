"""Runs a sweep: every run of its experiments as one Spark task, longest first, resumable, results saved as they come.

The driver writes each row down when its task ends (`jobs`), so only traces need a file system that driver and workers
share. An error in a run becomes its row (`task.carry_out`) and never fails the task. If a worker dies, Spark tries the
run again; if it dies again, the run gets a row that says so, and the others go on.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from antecede.core import UsageError
from antecede.experiments import Case, Experiment
from antecede.experiments.summary import Line
from antecede.spark.jobs import WorkerDiedError, run_tasks
from antecede.spark.manifest import Manifest, RunRow
from antecede.spark.plan import Plan, make_plan
from antecede.spark.results import tabulate, write_tables
from antecede.spark.session import is_local
from antecede.spark.ship import code_version
from antecede.spark.sweep_directory import SweepRequest, claim, environment, remove_unfinished, write_request
from antecede.spark.task import Task, carry_out, now, rows_of


class SweepResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a sweep."""

    out: Path
    #: The number of runs carried out now and of runs taken over from before; the rows of failed runs.
    done: int
    complete: int
    failed: list[RunRow]
    lines: list[Line]


#: Called with the plan; called with every row as it arrives and its share of the work.
OnPlan = Callable[[Plan], None]
OnRow = Callable[[RunRow, float], None]


def sweep(
    session: SparkSession,
    experiments: Sequence[Experiment],
    seeds: Sequence[int],
    out: Path,
    *,
    trace: bool = False,
    full: bool = False,
    resume: bool = False,
    command: str = "",
    on_plan: OnPlan = lambda plan: None,
    on_row: OnRow = lambda row, cost: None,
) -> SweepResult:
    """Run `experiments` over `seeds` and write the results under `out`; see `sweep_directory` for the files.

    After Ctrl-C it writes the tables of what is finished and raises `KeyboardInterrupt` again.
    """
    _check(experiments, seeds)
    master = session.sparkContext.master or ""
    with claim(out, resume=resume):
        asked = SweepRequest(
            command=command,
            experiments=[experiment.name for experiment in experiments],
            seeds=list(seeds),
            full=full,
            trace=trace,
            started=now(),
            environment=environment(master),
        )
        write_request(out, asked)
        remove_unfinished(out)
        cases = {experiment.name: experiment.cases(seeds, full=full) for experiment in experiments}
        manifests = {experiment.name: Manifest(out, experiment.name) for experiment in experiments}
        plan = make_plan(
            experiments,
            cases,
            manifests,
            out=out.absolute(),
            trace=trace,
            code=code_version(),
            check_code=not is_local(master),
        )
        on_plan(plan)
        for row in plan.known:
            manifests[row.experiment].add(row)
        try:
            _carry_out_all(session, plan.tasks, {each.name: each for each in experiments}, manifests, on_row)
        finally:
            lines = _write_results(out, experiments, cases, manifests)
            failed = _failed(cases, manifests)
            rows = sum(len({spec.key() for case in each for spec in case.runs.values()}) for each in cases.values())
            write_request(out, msgspec.structs.replace(asked, finished=now(), runs=rows, failed=len(failed)))
        return SweepResult(out=out, done=len(plan.tasks), complete=plan.complete, failed=failed, lines=lines)


def _check(experiments: Sequence[Experiment], seeds: Sequence[int]) -> None:
    if not experiments:
        raise UsageError("experiments", [], "names no experiment", "name one, or all")
    if not seeds:
        raise UsageError("seeds", list(seeds), "names no seed", "give at least one")


def _carry_out_all(
    session: SparkSession,
    tasks: Sequence[Task],
    experiments: Mapping[str, Experiment],
    manifests: Mapping[str, Manifest],
    on_row: OnRow,
) -> None:
    """Carry out `tasks`. If a worker died in one of them, go on with the rest."""
    left = {(task.experiments, task.spec.key()): task for task in tasks}

    def arrived(rows: Sequence[RunRow]) -> None:
        task = left.pop((tuple(row.experiment for row in rows), rows[0].key), None)
        for row in rows:
            manifests[row.experiment].add(row)
            on_row(row, task.cost / len(rows) if task else 0.0)

    by_name = dict(experiments)

    def work(task: bytes) -> bytes:
        return msgspec.json.encode(carry_out(msgspec.json.decode(task, type=Task), by_name))

    while left:
        tried = list(left.values())
        try:
            run_tasks(
                session,
                [msgspec.json.encode(task) for task in tried],
                work,
                lambda report: arrived(msgspec.json.decode(report, type=list[RunRow])),
            )
        except WorkerDiedError as died:
            task = tried[died.task]
            if (task.experiments, task.spec.key()) in left:
                arrived(rows_of(task, error=f"the worker died: {died.why}"))


def _write_results(
    out: Path,
    experiments: Sequence[Experiment],
    cases: Mapping[str, Sequence[Case]],
    manifests: Mapping[str, Manifest],
) -> list[Line]:
    values: list[dict[str, Any]] = []
    lines: list[Line] = []
    for experiment in experiments:
        manifest = manifests[experiment.name]
        manifest.save()
        its_values, its_lines = tabulate(experiment, cases[experiment.name], manifest.rows)
        values += its_values
        lines += its_lines
    write_tables(out, values, lines)
    return lines


def _failed(cases: Mapping[str, Sequence[Case]], manifests: Mapping[str, Manifest]) -> list[RunRow]:
    failed = []
    for name, its_cases in cases.items():
        keys = dict.fromkeys(spec.key() for case in its_cases for spec in case.runs.values())
        rows = [manifests[name].rows.get(key) for key in keys]
        failed += [row for row in rows if row is not None and row.error is not None]
    return failed
