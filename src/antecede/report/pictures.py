"""Chooses the runs that a page shows as space-time diagrams.

First come runs that violate a rule, narrowed to what explains the violation. Then the idea in small: eight nodes under
the load and the protocols of the first experiment, because the papers' own sizes rarely fit a page. Last comes the
smallest run of the sweep whose trace was kept, if it is small enough to draw.

The report itself simulates nothing. The caller gives the function that repeats a run whose trace was not kept.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from antecede.audit import Report, audit
from antecede.core import AntecedeError
from antecede.experiments import EXPERIMENTS
from antecede.report.contents import AuditRow, Picture
from antecede.report.diagram import explain, space_time
from antecede.sim import RunSpec
from antecede.sim.run import promised_rules, promises_across_topics
from antecede.spark.manifest import RunRow
from antecede.trace import Row
from antecede.trace.directory import read_directory
from antecede.trace.files import table_rows

#: Repeats a run and gives its rows.
Repeat: TypeAlias = Callable[[RunSpec], list[Row]]

#: The number of pictures of each kind.
PICTURES_MAX: Final = 3
#: The largest run that fits a page without scrolling far.
NODES_MAX: Final = 16
#: The largest run that is repeated to explain a violation: it takes seconds, not minutes.
AGAIN_NODES_MAX: Final = 256
_SMALL_NODES: Final = 8
#: The seeds an illustration is chosen from.
_SEEDS: Final = range(1, 9)


def pictures(out: Path, runs: Sequence[RunRow], audited: Sequence[AuditRow], repeat: Repeat | None) -> list[Picture]:
    """Draw the chosen runs of the sweep in `out`. Without `repeat`, only runs with a kept trace are drawn."""
    broken = [picture for run, row in _broken(runs, audited) if (picture := _explained(out, run, row, repeat))]
    traced = sorted(
        (run for run in runs if run.trace is not None), key=lambda run: (run.nodes, run.experiment, run.seed)
    )
    kept = [picture for run in traced[:1] if run.nodes <= NODES_MAX for picture in _small(out, run)]
    if kept and traced[0].nodes <= _SMALL_NODES:
        return [*broken, *kept]
    experiments = list(dict.fromkeys(run.experiment for run in runs))
    return [*broken, *(_illustrations(experiments, repeat) if repeat else ()), *kept]


def _broken(runs: Sequence[RunRow], audited: Sequence[AuditRow]) -> list[tuple[RunRow, AuditRow]]:
    """The runs that violate a rule, with the first verdict that says so, smallest first."""
    by_key = {run.key: run for run in sorted(runs, key=lambda run: run.trace is not None)}
    found: dict[str, tuple[RunRow, AuditRow]] = {}
    for row in audited:
        if row.example is not None and row.run in by_key:
            found.setdefault(row.run, (by_key[row.run], row))
    return sorted(found.values(), key=lambda pair: pair[0].nodes)[:PICTURES_MAX]


def _explained(out: Path, run: RunRow, row: AuditRow, repeat: Repeat | None) -> Picture | None:
    if run.trace is not None:
        rows = _kept_rows(out, run.trace)
    elif repeat is not None and run.nodes <= AGAIN_NODES_MAX:
        rows = repeat(run.run_spec())
    else:
        return None
    assert row.example is not None
    try:
        svg = explain(rows, row.example, standalone=False)
    except AntecedeError:  # still too much to draw
        return None
    said = f"{run.protocol}, {run.nodes:,} nodes, seed {run.seed}: the nodes the messages in question came through."
    return Picture(title=f"A violation of {row.rule}", caption=said, svg=svg, command=run.command)


def _small(out: Path, run: RunRow) -> list[Picture]:
    assert run.trace is not None
    rows = _kept_rows(out, run.trace)
    try:
        svg = space_time(rows, audit=_judged(run.run_spec(), rows), standalone=False)
    except AntecedeError:  # too many packets to draw, or a trace that contradicts itself
        return []
    said = f"A run of {run.experiment}: {run.nodes} nodes, seed {run.seed}."
    return [Picture(title=run.protocol, caption=said, svg=svg, command=run.command)]


def _kept_rows(out: Path, trace: str) -> list[Row]:
    return list(table_rows(read_directory(out / trace)))


def _judged(spec: RunSpec, rows: list[Row]) -> Report:
    return audit(rows, across_topics=promises_across_topics(spec), rules=promised_rules(spec))


def _illustrations(experiments: Sequence[str], repeat: Repeat) -> Iterator[Picture]:
    """The variants of the first experiment that can be drawn at eight nodes, all at one seed."""
    for name in experiments:
        known = EXPERIMENTS.get(name)
        if known is None:
            continue
        try:
            runs = {seed: _traces(known.runs(known.settings[-1], _SMALL_NODES, seed), repeat) for seed in _SEEDS}
            seed = max(runs, key=lambda seed: _held(runs[seed]))
            drawn = [
                (variant, spec, space_time(rows, audit=_judged(spec, rows), standalone=False))
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


def _traces(specs: Mapping[str, RunSpec], repeat: Repeat) -> dict[str, tuple[RunSpec, list[Row]]]:
    return {variant: (spec, repeat(spec)) for variant, spec in specs.items()}


def _held(traces: Mapping[str, tuple[RunSpec, list[Row]]]) -> int:
    """The number of deliveries that had to wait, which is what the protocols are about."""
    return sum(row.held_us > 0 for _, rows in traces.values() for row in rows)
