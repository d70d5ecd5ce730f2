"""A sweep: every run of an experiment as one Spark task, longest first, resumable, its results safe as they come.

Rows come to the driver as tasks end (`jobs`) and it writes them down at once, so only traces need a file system that
driver and workers share. A task never fails by what happens in a run (`task.carry_out`); if a worker dies under a run,
Spark tries it again, and then that run gets a row that says so while the others go on.
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
from antecede.spark.sweep_directory import Asked, claim, environment, remove_unfinished, write_asked
from antecede.spark.task import Task, carry_out, now, rows_of


class SweepResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep came to."""

    out: Path
    #: Runs carried out now, taken over from before, and the rows of those that failed.
    done: int
    complete: int
    failed: list[RunRow]
    lines: list[Line]


#: Told of the plan, then of every row as it arrives with the share of the work it was.
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

    Interrupted (Ctrl-C), it writes the tables of what is finished and raises `KeyboardInterrupt` again.
    """
    _check(experiments, seeds)
    master = session.sparkContext.master or ""
    with claim(out, resume=resume):
        asked = Asked(
            command=command,
            experiments=[experiment.name for experiment in experiments],
            seeds=list(seeds),
            full=full,
            trace=trace,
            started=now(),
            environment=environment(master),
        )
        write_asked(out, asked)
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
            write_asked(out, msgspec.structs.replace(asked, finished=now(), runs=rows, failed=len(failed)))
        return SweepResult(out=out, done=len(plan.tasks), complete=plan.complete, failed=failed, lines=lines)


def _check(experiments: Sequence[Experiment], seeds: Sequence[int]) -> None:
    if not experiments:
        raise UsageError("experiments", [], "there is nothing to run", "name one, or all")
    if not seeds:
        raise UsageError("seeds", list(seeds), "there is nothing to run", "give at least one")


def _carry_out_all(
    session: SparkSession,
    tasks: Sequence[Task],
    experiments: Mapping[str, Experiment],
    manifests: Mapping[str, Manifest],
    on_row: OnRow,
) -> None:
    """Carry out `tasks`; after a worker died under one of them, the rest."""
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
                lambda letter: arrived(msgspec.json.decode(letter, type=list[RunRow])),
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
