"""Chooses the runs a page shows as space-time diagrams.

First what went wrong: a run the audit found at fault, narrowed to what explains it. Then small runs of the sweep whose
trace was kept. Where there is neither, the first experiment is shown in small: eight nodes, its own protocols and load.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from antecede.audit import audit
from antecede.core import AntecedeError
from antecede.experiments import EXPERIMENTS
from antecede.report.contents import AuditRow, Picture
from antecede.report.diagram import explain, space_time
from antecede.report.violation import violations_of
from antecede.sim import RunSpec, simulate
from antecede.spark.layout import read_directory
from antecede.spark.manifest import RunRow
from antecede.trace import Row
from antecede.trace.files import table_rows

#: A page is read, not searched.
PICTURES_MAX: Final = 3
#: What fits a page without scrolling far.
NODES_MAX: Final = 16
_SMALL_NODES: Final = 8
#: Seeds an illustration is chosen from.
_SEEDS: Final = range(1, 9)


def pictures(out: Path, runs: Sequence[RunRow], audited: Sequence[AuditRow]) -> list[Picture]:
    """`out`: the sweep's directory, where the runs' traces are."""
    traced = sorted(
        (run for run in runs if run.trace is not None), key=lambda run: (run.nodes, run.experiment, run.seed)
    )
    found = [picture for run in _broken(traced, audited) if (picture := _explained(out, run))]
    shown: set[str] = set()
    for run in traced:
        if len(found) < PICTURES_MAX and run.nodes <= NODES_MAX and run.experiment not in shown:
            shown.add(run.experiment)
            found += _small(out, run)
    return found or list(_illustrations(list(dict.fromkeys(run.experiment for run in runs))))


def _broken(traced: Sequence[RunRow], audited: Sequence[AuditRow]) -> list[RunRow]:
    broken = {row.run for row in audited if row.verdict == "violated"}
    return list({run.key: run for run in traced if run.key in broken}.values())[:PICTURES_MAX]


def _explained(out: Path, run: RunRow) -> Picture | None:
    rows = _rows(out, run)
    try:
        marks = violations_of(audit(rows))
        if not marks:
            return None
        svg = explain(rows, marks[0], standalone=False)
    except AntecedeError:  # too large for the judge in one process, or to draw
        return None
    said = f"{run.protocol}, {run.nodes:,} nodes, seed {run.seed}: the nodes the messages in question came through."
    return Picture(title=f"A violation of {marks[0].rule}", caption=said, svg=svg, command=run.command)


def _small(out: Path, run: RunRow) -> list[Picture]:
    rows = _rows(out, run)
    try:
        svg = space_time(rows, audit=audit(rows), standalone=False)
    except AntecedeError:  # too many packets to draw, or a trace that contradicts itself
        return []
    said = f"A run of {run.experiment}: {run.nodes} nodes, seed {run.seed}."
    return [Picture(title=run.protocol, caption=said, svg=svg, command=run.command)]


def _rows(out: Path, run: RunRow) -> list[Row]:
    assert run.trace is not None
    return list(table_rows(read_directory(out / run.trace)))


def _illustrations(experiments: Sequence[str]) -> Iterator[Picture]:
    """The variants of the first experiment that can be shown in small, side by side at one seed."""
    for name in experiments:
        known = EXPERIMENTS.get(name)
        if known is None:
            continue
        try:
            runs = {seed: _traces(known.runs(known.settings[-1], _SMALL_NODES, seed)) for seed in _SEEDS}
            seed = max(runs, key=lambda seed: _held(runs[seed]))
            drawn = [
                (variant, spec, space_time(rows, audit=audit(rows), standalone=False))
                for variant, (spec, rows) in runs[seed].items()
            ]
        except AntecedeError:  # not at this size
            continue
        said = (
            f"The load of {name}, in small: {_SMALL_NODES} nodes, not one of the runs above. Of seeds "
            f"{_SEEDS[0]} to {_SEEDS[-1]} the one in which most messages have to wait."
        )
        for variant, spec, svg in drawn[:PICTURES_MAX]:
            yield Picture(title=f"{spec.protocol}, {variant}", caption=said, svg=svg, command=spec.command())
        return


def _traces(specs: Mapping[str, RunSpec]) -> dict[str, tuple[RunSpec, list[Row]]]:
    found = {}
    for variant, spec in specs.items():
        recorder = simulate(spec, trace=True, measure=False).trace
        assert recorder is not None
        found[variant] = (spec, list(recorder.rows()))
    return found


def _held(traces: Mapping[str, tuple[RunSpec, list[Row]]]) -> int:
    """How many deliveries had to wait, which is what the protocols are about."""
    return sum(row.held_us > 0 for _, rows in traces.values() for row in rows)
