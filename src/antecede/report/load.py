"""Gathers the contents of a page from the directory of a sweep. A missing or damaged table is named in the error."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from antecede.core import UsageError
from antecede.experiments import EXPERIMENTS
from antecede.experiments.summary import Line
from antecede.report.contents import AuditRow, Contents, ExperimentText, FailedRun
from antecede.report.pictures import Repeat, pictures
from antecede.report.scene import Key, Violation
from antecede.report.wording import capital, count
from antecede.spark.manifest import RunRow, load_runs
from antecede.spark.results import load_summary
from antecede.spark.sweep_directory import SweepRequest, is_sweep, read_request

_PAPERS: Final = {"thesis": "Thesis", "tno": "TNO", "locamu": "LoCaMu"}
_FACTS: Final = {
    "antecede": "antecede",
    "commit": "commit",
    "code": "code version",
    "python": "Python",
    "pyspark": "PySpark",
    "java": "Java",
    "numpy": "NumPy",
    "pyarrow": "PyArrow",
    "master": "Spark master",
    "system": "system",
    "machine": "architecture",
    "cores": "cores",
    "byteorder": "byte order",
}


def load(out: Path, repeat: Repeat | None = None) -> Contents:
    """Gather what the page of the sweep in `out` shows.

    `repeat` gives the rows of a run whose trace was not kept; without it such runs are not drawn.
    """
    if not out.is_dir():
        raise UsageError("report", str(out), "there is no such directory", "name one `antecede experiments run` wrote")
    if not is_sweep(out):
        problem = "holds no results (there is no sweep.json)"
        raise UsageError("report", str(out), problem, "name one `antecede experiments run` wrote")
    asked, lines, runs = read_request(out), load_summary(out), load_runs(out)
    if not lines and not any(run.error for run in runs):
        raise UsageError("report", str(out), "no experiment in it is finished", "finish it with --resume")
    audited = _audit(out)
    names = list(dict.fromkeys([line.experiment for line in lines] + [run.experiment for run in runs]))
    return Contents(
        title=_title(names),
        lines=lines,
        experiments={name: _text(name) for name in names},
        runs_finished=len({run.key for run in runs if run.error is None}),
        failed=[_failed(run) for run in runs if run.error is not None],
        audit=audited,
        pictures=pictures(out, runs, audited or (), repeat),
        environment=_environment(asked),
        commands=_commands(out, asked, lines, names),
    )


def _text(name: str) -> ExperimentText:
    known = EXPERIMENTS.get(name)
    if known is None:  # measured by another version
        return ExperimentText(title=name)
    item = capital(known.item.replace("-", " "))
    paper = _PAPERS.get(known.paper, capital(known.paper))
    return ExperimentText(title=known.title, about=known.about, item=item, paper=paper)


def _title(names: Sequence[str]) -> str:
    if len(names) == 1:
        return _text(names[0]).title
    return f"{count(len(names), 'experiment')}, ours beside the papers’"


def _failed(run: RunRow) -> FailedRun:
    return FailedRun(experiment=run.experiment, run=run.key, error=run.error or "", command=run.command)


def _environment(asked: SweepRequest) -> dict[str, str]:
    facts: dict[str, Any] = asked.environment
    known = {label: str(facts[key]) for key, label in _FACTS.items() if facts.get(key) is not None}
    others = {key: str(value) for key, value in facts.items() if key not in _FACTS and value is not None}
    times = {"started": asked.started, "finished": asked.finished or "not finished"}
    return {**known, **others, **times}


def _commands(out: Path, asked: SweepRequest, lines: Sequence[Line], names: Sequence[str]) -> list[str]:
    """The command of the sweep; or, if the directory holds more than that sweep, a command that makes all of it."""
    place = shlex.quote(str(out))
    run = asked.command
    if not run or set(names) - set(asked.experiments):
        seeds = max([line.seeds for line in lines], default=len(asked.seeds))
        run = f"antecede experiments run {' '.join(names)} --seeds {seeds} --out {place}"
        run += " --full" if asked.full else ""
    return [run, f"antecede audit {place}", f"antecede report {place}"]


def _audit(out: Path) -> list[AuditRow] | None:
    """The verdicts that `antecede audit` wrote; None if it was not run."""
    path = out / "audit.parquet"
    if not path.exists():
        return None
    try:
        table = pq.read_table(path, partitioning=None)
        return [verdict_row(row) for row in table.to_pylist()]
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        problem = f"cannot be read ({str(error).splitlines()[0]})"
    except (KeyError, ValueError) as error:
        problem = f"is not a table of verdicts ({error!r})"
    raise UsageError("audit", str(path), problem, f"remove it and run `antecede audit {out}` again")


def verdict_row(row: Mapping[str, Any]) -> AuditRow:
    """One row of the audit's table."""
    rule, example = row["rule"] or "", row["example"]
    return AuditRow(
        experiment=row["experiment"] or "",
        run=row["run"],
        rule=rule,
        verdict=row["verdict"],
        checked=row["checked"],
        violations=row["violations"],
        words=example or row["reason"] or "",
        command=row["command"] or "",
        example=Violation(
            rule,
            example,
            tuple(row["example_nodes"]),
            tuple(_message(name) for name in row["example_messages"]),
            tuple(row["example_rows"]),
        )
        if example
        else None,
    )


def _message(name: str) -> Key:
    """`topic/source.seq`, where a topic may have slashes and dots of its own."""
    topic, _, number = name.rpartition("/")
    source, _, seq = number.partition(".")
    return topic, int(source), int(seq)
