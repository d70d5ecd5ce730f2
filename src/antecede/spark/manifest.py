"""Keeps one row for each run of a sweep, on disk as soon as the run is done.

A row is appended to a journal, one line each, when it arrives. Now and then all rows are written as one Parquet file
and a new journal begins. So a killed driver loses no finished run, and a finished sweep is a plain table, `runs/`,
partitioned by experiment. A kill can leave a torn last line in the journal; it is ignored.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from antecede.core import UsageError
from antecede.sim import RunSpec
from antecede.spark.sweep_directory import columns_of, journal_path, runs_path, write_table


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one experiment, and its result."""

    experiment: str
    #: The key of the run: a hash of its spec.
    key: str
    #: The version of the code that ran it (`ship.code_version`).
    code: str
    protocol: str
    nodes: int
    seed: int
    #: The spec and the metrics as JSON; the metrics are None if the run failed.
    spec: str
    metrics: str | None
    #: The error in one line, and its traceback.
    error: str | None
    traceback: str | None
    #: The command that repeats the run.
    command: str
    #: The path of the trace below the sweep's directory; None without a trace.
    trace: str | None
    seconds: float
    finished: str

    def run_spec(self) -> RunSpec:
        return msgspec.json.decode(self.spec, type=RunSpec)

    def measured(self) -> dict[str, object]:
        """The metrics of a run that did not fail."""
        return msgspec.json.decode(self.metrics or "{}", type=dict[str, object])


#: On disk the experiment is in the name of the directory, as Spark and Arrow read partitions.
RUNS_SCHEMA = pa.schema(
    [column for column in columns_of(RunRow) if column.name != "experiment"], metadata={"antecede.runs": "1"}
)


class Manifest:
    """The runs of one experiment in one sweep, by key."""

    def __init__(self, out: Path, experiment: str) -> None:
        self.experiment = experiment
        self._path = runs_path(out, experiment)
        self._journal = journal_path(out, experiment)
        self.rows: dict[str, RunRow] = {}
        if self._path.exists():
            self.rows.update((row.key, row) for row in _read_runs(self._path, experiment))
        self.rows.update((row.key, row) for row in _read_journal(self._journal))

    def add(self, row: RunRow) -> None:
        """Add a row; it is on disk when this returns."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open(self._journal, "ab") as journal:
            journal.write(msgspec.json.encode(row) + b"\n")
            journal.flush()
            os.fsync(journal.fileno())
        self.rows[row.key] = row

    def save(self) -> None:
        """Write all rows as one table, sorted by key, and begin a new journal."""
        if not self._journal.exists():
            return
        rows = [msgspec.to_builtins(self.rows[key]) for key in sorted(self.rows)]
        write_table(self._path, pa.Table.from_pylist(rows, schema=RUNS_SCHEMA))
        self._journal.unlink()


def load_runs(out: Path) -> list[RunRow]:
    """Every run that a sweep has finished so far, also of a sweep that was killed or is still running."""
    names = sorted(path.name.removeprefix("experiment=") for path in (out / "runs").glob("experiment=*"))
    return [row for name in names for row in Manifest(out, name).rows.values()]


def _read_runs(path: Path, experiment: str) -> Iterable[RunRow]:
    try:
        table = pq.read_table(path, partitioning=None, page_checksum_verification=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        problem = f"cannot be read ({str(error).splitlines()[0]})"
        raise UsageError("runs", str(path), problem, "remove it to run these again") from None
    if not table.schema.equals(RUNS_SCHEMA, check_metadata=True):
        raise UsageError("runs", str(path), "is not a table of runs", "remove it to run these again")
    return [RunRow(experiment=experiment, **row) for row in table.to_pylist()]


def _read_journal(path: Path) -> Iterable[RunRow]:
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            if line:
                rows.append(msgspec.json.decode(line, type=RunRow))
        except msgspec.DecodeError as error:
            if number < len(lines):
                problem = f"line {number} cannot be read ({error})"
                raise UsageError("journal", str(path), problem, "remove the line to run it again") from None
    return rows
