"""Puts measured values beside published ones."""

from collections.abc import Iterable, Mapping
from statistics import fmean, stdev

import msgspec

from antecede.experiments.base import Case, Experiment, Metrics, Value


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a result table."""

    experiment: str
    setting: str
    protocol: str
    nodes: int
    metric: str
    ours: float
    #: Standard deviation over seeds; None with one seed.
    spread: float | None
    seeds: int
    published: float | None
    unit: str


def measure(experiment: Experiment, results: Iterable[tuple[Case, Mapping[str, Metrics]]]) -> list[tuple[str, Value]]:
    """Every value of every case with its setting, and the values that need several sizes."""
    by_seed: dict[tuple[str, int], list[Value]] = {}
    for case, metrics in results:
        by_seed.setdefault((case.setting, case.seed), []).extend(experiment.values(case.nodes, metrics))
    measured = []
    for (setting, _), values in by_seed.items():
        measured += [(setting, value) for value in (*values, *experiment.derive(values))]
    return measured


def summarise(experiment: Experiment, measured: Iterable[tuple[str, Value]]) -> list[Line]:
    """Mean and spread over seeds of every (setting, value), in the order they first came."""
    gathered: dict[tuple[str, str, int, str], list[float]] = {}
    for setting, value in measured:
        gathered.setdefault((setting, value.protocol, value.nodes, value.metric), []).append(value.value)
    printed = experiment.published()
    units = {metric: row.unit for (_, _, metric), row in printed.items()}
    lines = []
    for (setting, protocol, nodes, metric), values in gathered.items():
        row = printed.get((protocol, nodes, metric))
        lines.append(
            Line(
                experiment=experiment.name,
                setting=setting,
                protocol=protocol,
                nodes=nodes,
                metric=metric,
                ours=fmean(values),
                spread=stdev(values) if len(values) > 1 else None,
                seeds=len(values),
                published=row.value if row else None,
                unit=row.unit if row else units.get(metric, ""),
            )
        )
    return lines
