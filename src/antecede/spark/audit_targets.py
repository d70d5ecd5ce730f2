"""Finds what there is to audit under a path: traces, and runs of a sweep that kept no trace and are simulated again."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from antecede.core import UsageError
from antecede.sim import RunSpec
from antecede.sim.run import promised_rules, promises_across_topics
from antecede.spark.manifest import RunRow, load_runs
from antecede.spark.plan import cost
from antecede.spark.sweep_directory import find_traces, is_sweep, read_request
from antecede.spark.task import is_simulated
from antecede.trace.directory import is_trace_directory
from antecede.trace.files import runs_in


class AuditTarget(msgspec.Struct, frozen=True, kw_only=True):
    """One run to be judged: a trace directory, a trace file, or a spec to simulate."""

    #: The run's key, or the name of the file.
    name: str
    experiment: str = ""
    path: str | None = None
    #: Which run, in a table of several.
    run: str | None = None
    spec: RunSpec | None = None
    command: str = ""
    #: Whether the run promises order across its topics; None if unknown.
    across_topics: bool | None = None
    #: The rules that the run's protocol promises to keep; None if unknown.
    promises: tuple[str, ...] | None = None
    #: The number of buckets on disk.
    buckets: int = 1
    #: An estimate of the work, in bytes to read.
    weight: float = 0.0
    #: When the files were last written. Workers cache what they have read of a target, and this tells old from new.
    written_ns: int = 0


def find_targets(paths: Sequence[Path]) -> list[AuditTarget]:
    """Find every run under `paths`, each once."""
    found: dict[tuple[str | None, str], AuditTarget] = {}
    for path in paths:
        here = _of_sweep(path) if path.is_dir() and is_sweep(path) else _of_traces(path)
        if not here:
            raise UsageError("path", str(path), "holds no traces and no runs", "name traces, see docs/spark.md")
        found.update({(target.path, target.name): target for target in here})
    return list(found.values())


def _of_traces(path: Path) -> list[AuditTarget]:
    return [target for trace in find_traces(path) for target in _of_table(trace)]


def _of_table(path: Path) -> list[AuditTarget]:
    """The runs of a trace: one, except in a table of another program that names several."""
    found = _of_trace(path, _experiment_of(path))
    if is_trace_directory(path):
        return [found]
    runs = runs_in(path)
    if not runs:
        return [found]
    share = found.weight / len(runs)
    return [msgspec.structs.replace(found, name=run, run=run, weight=share) for run in runs]


def _of_trace(path: Path, experiment: str, row: RunRow | None = None) -> AuditTarget:
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    return AuditTarget(
        name=row.key if row else path.name if path.is_dir() else path.stem,
        experiment=experiment,
        path=str(path.absolute()),
        command=row.command if row else "",
        across_topics=promises_across_topics(row.run_spec()) if row else None,
        promises=promised_rules(row.run_spec()) if row else None,
        buckets=max(1, sum(file.name.startswith("deliveries-") for file in files)),
        weight=float(sum(file.stat().st_size for file in files)),
        written_ns=max((file.stat().st_mtime_ns for file in files), default=0),
    )


def _of_sweep(out: Path) -> list[AuditTarget]:
    read_request(out)
    rows: dict[str, RunRow] = {}
    for row in load_runs(out):
        judged = row.error is None and is_simulated(row.run_spec())
        if judged and (row.key not in rows or rows[row.key].trace is None):
            rows[row.key] = row
    found = []
    for key, row in rows.items():
        trace = out / row.trace if row.trace is not None else None
        if trace is not None and trace.is_dir():
            found.append(_of_trace(trace, row.experiment, row))
        else:
            spec = row.run_spec()
            found.append(
                AuditTarget(
                    name=key,
                    experiment=row.experiment,
                    spec=spec,
                    command=row.command,
                    across_topics=promises_across_topics(spec),
                    promises=promised_rules(spec),
                    weight=1000 * cost(spec),  # simulating takes longer than reading
                )
            )
    return found


def _experiment_of(path: Path) -> str:
    return path.parent.name.removeprefix("experiment=") if path.parent.name.startswith("experiment=") else ""
