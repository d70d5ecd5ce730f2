"""Turns the rows of a sweep into its tables: the values of every case, and ours beside the published ones."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from antecede.core import UsageError
from antecede.experiments import Case, Experiment
from antecede.experiments.base import Value
from antecede.experiments.summary import Line, measure, summarise
from antecede.spark.manifest import RunRow
from antecede.spark.sweep_directory import columns_of, write_bytes, write_table

_CASE = [("experiment", pa.string()), ("setting", pa.string()), ("seed", pa.int64())]
VALUES_SCHEMA = pa.schema([*_CASE, *columns_of(Value)])
LINES_SCHEMA = pa.schema(columns_of(Line))


def tabulate(
    experiment: Experiment, cases: Sequence[Case], rows: Mapping[str, RunRow]
) -> tuple[list[dict[str, Any]], list[Line]]:
    """The values of all cases whose runs are complete, and the lines they make. A case that lacks a run is left out."""
    complete = []
    for case in cases:
        found = {variant: rows.get(spec.key()) for variant, spec in case.runs.items()}
        if all(row is not None and row.error is None for row in found.values()):
            complete.append((case, {variant: row.measured() for variant, row in found.items() if row is not None}))
    values = []
    for seed in dict.fromkeys(case.seed for case, _ in complete):
        for setting, value in measure(experiment, [result for result in complete if result[0].seed == seed]):
            values.append({"experiment": experiment.name, "setting": setting, "seed": seed, **value._asdict()})
    return values, summarise(experiment, measure(experiment, complete))


def write_tables(out: Path, values: Sequence[Mapping[str, Any]], lines: Sequence[Line]) -> None:
    """Write the tables of these experiments; those of other experiments in the same directory stay."""
    names = {line.experiment for line in lines} | {row["experiment"] for row in values}
    kept_values = [row for row in _rows(out / "values.parquet") if row["experiment"] not in names]
    kept_lines = [line for line in load_summary(out) if line.experiment not in names]
    all_lines = [*kept_lines, *lines]
    write_table(out / "values.parquet", pa.Table.from_pylist([*kept_values, *values], schema=VALUES_SCHEMA))
    write_table(
        out / "summary.parquet",
        pa.Table.from_pylist([msgspec.to_builtins(line) for line in all_lines], schema=LINES_SCHEMA),
    )
    write_bytes(out / "summary.json", msgspec.json.format(msgspec.json.encode(all_lines), indent=2) + b"\n")


def load_summary(out: Path) -> list[Line]:
    """The result lines of a sweep, of all its experiments; empty before the first one is done."""
    return [Line(**row) for row in _rows(out / "summary.parquet")]


def load_values(out: Path) -> list[dict[str, Any]]:
    """The values of every case of a sweep; the result lines are their means."""
    return _rows(out / "values.parquet")


def _rows(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    try:
        rows: list[dict[str, Any]] = pq.read_table(path, partitioning=None).to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        problem = f"cannot be read ({str(error).splitlines()[0]})"
        raise UsageError("table", str(path), problem, "remove it; the next `experiments run` writes it") from None
    return rows
