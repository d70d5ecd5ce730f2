"""Chooses and draws the figures of one experiment, and the strip that shows how far its values are from print.

A figure has a panel for each setting, so that each reading of the paper is one picture. Panels of one figure share
their axes. A metric measured at several sizes becomes lines; metrics at one size become bars, those of one unit
together. Where the paper's horizontal axis is not the number of nodes (`Experiment.axis`), the metrics that are its
points become lines over it, a figure for each size.
"""

import math
import re
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import groupby
from operator import or_
from typing import NamedTuple

from markupsafe import Markup

from antecede.experiments import EXPERIMENTS
from antecede.experiments.base import Axis
from antecede.experiments.summary import Line
from antecede.report.agreement import Agreement, difference, unit_in_words
from antecede.report.chart import Bar, Category, bar_chart, bar_extent, extent, legend, line_chart
from antecede.report.markup import points, tag, text
from antecede.report.series import Point, Series, in_words
from antecede.report.wording import capital, family, metric_in_words


class Figure(NamedTuple):
    """`legend`: signs and labels. `sentences`: (setting, what its panel shows)."""

    caption: str
    panels: list[Markup]
    legend: list[tuple[Markup, str]]
    sentences: list[tuple[str, str]]


def figures(lines: Sequence[Line]) -> list[Figure]:
    """The figures of one experiment, in the order of its lines."""
    lines = [line for line in lines if math.isfinite(line.ours)]
    experiment = EXPERIMENTS.get(lines[0].experiment) if lines else None
    if experiment is not None and experiment.axis is not None:
        over, lines = _over(experiment.axis, lines)
        return over + figures_over_nodes(lines)
    return figures_over_nodes(lines)


def figures_over_nodes(lines: Sequence[Line]) -> list[Figure]:
    metrics = list(dict.fromkeys(line.metric for line in lines))
    sizes = {metric: {line.nodes for line in lines if line.metric == metric} for metric in metrics}
    protocols = {label: position for position, label in enumerate(dict.fromkeys(line.protocol for line in lines))}
    found = []
    at_one_size = [metric for metric in metrics if len(sizes[metric]) == 1]
    for metric in metrics:
        if metric not in at_one_size:
            found.append(_lines([line for line in lines if line.metric == metric], protocols))
    unit_of = {line.metric: line.unit for line in lines}
    grouped = sorted(
        at_one_size, key=lambda metric: (list(unit_of.values()).index(unit_of[metric]), sizes[metric].copy().pop())
    )
    for _, together in groupby(grouped, key=lambda metric: (unit_of[metric], tuple(sizes[metric]))):
        chosen = list(together)
        found.append(_bars([line for line in lines if line.metric in chosen], chosen, protocols))
    return found


def _over(axis: Axis, lines: Sequence[Line]) -> tuple[list[Figure], list[Line]]:
    """A figure for each metric with several points on the axis and each size, and the lines for other figures.

    A metric that is measured at several sizes is drawn over these, too.
    """
    families: dict[tuple[str, int], list[Line]] = {}
    for line in lines:
        found = re.search(axis.pattern, line.metric)
        name = line.metric[: found.start()] if found else ""
        families.setdefault((name, line.nodes), []).append(line)
    drawn, rest = [], []
    protocols = {label: position for position, label in enumerate(dict.fromkeys(line.protocol for line in lines))}
    for (name, nodes), chosen in families.items():
        if not name or len({line.metric for line in chosen}) < 2:
            rest += chosen
            continue
        drawn.append(_lines(chosen, protocols, name=name, where=f", {nodes:,} nodes", axis=axis))
    sizes = {
        metric: {line.nodes for line in lines if line.metric == metric} for metric in {line.metric for line in lines}
    }
    return drawn, [line for line in lines if line in rest or len(sizes[line.metric]) > 1]


def _lines(
    lines: Sequence[Line], protocols: dict[str, int], *, name: str = "", where: str = "", axis: Axis | None = None
) -> Figure:
    """Lines over the number of nodes, or over `axis`: then `name` is what all metrics begin with."""
    metric, unit = name or lines[0].metric, unit_in_words(lines[0].unit)
    label = axis.label if axis else "nodes"

    def x(line: Line) -> float:
        found = re.search(axis.pattern, line.metric) if axis else None
        return float(found[1]) if found else line.nodes

    by_setting = {setting: _series(chosen, protocols, x) for setting, chosen in _settings(lines)}
    shared = reduce(or_, (extent(series) for series in by_setting.values()))
    panels = [
        line_chart(setting, series, unit=unit, extent=shared, x_label=label) for setting, series in by_setting.items()
    ]
    symbol = label if axis else "N"
    sentences = [(setting, words) for setting, series in by_setting.items() if (words := in_words(series, symbol))]
    caption = capital(metric_in_words(metric)) + (f" ({unit})" if unit and unit not in metric else "")
    return Figure(f"{caption}{where}.", panels, _legend(lines, protocols), sentences)


def _series(lines: Sequence[Line], protocols: dict[str, int], x: Callable[[Line], float]) -> list[Series]:
    series = []
    for protocol, position in protocols.items():
        chosen = sorted((line for line in lines if line.protocol == protocol), key=x)
        points = [Point(x(line), line.ours, line.spread, line.published) for line in chosen]
        if points:
            series.append(Series(protocol, position, points))
    return series


def _bars(lines: Sequence[Line], metrics: Sequence[str], protocols: dict[str, int]) -> Figure:
    unit, nodes = unit_in_words(lines[0].unit), lines[0].nodes
    common, labels = family(metrics)
    by_setting = {
        setting: [
            Category(label, bars)
            for metric, label in zip(metrics, labels, strict=True)
            if (bars := _bars_of([line for line in chosen if line.metric == metric], protocols))
        ]
        for setting, chosen in _settings(lines)
    }
    shared = reduce(or_, (bar_extent(categories) for categories in by_setting.values()))
    panels = [bar_chart(setting, categories, unit=unit, extent=shared) for setting, categories in by_setting.items()]
    subject = f"{capital(common)} …" if common else capital(labels[0]) if len(labels) == 1 else "Values"
    where = f", {nodes:,} nodes" if nodes else ""
    return Figure(f"{subject}{where}{f' ({unit})' if unit else ''}.", panels, _legend(lines, protocols), [])


def _bars_of(lines: Sequence[Line], protocols: dict[str, int]) -> list[Bar]:
    return [
        Bar(line.protocol, protocols[line.protocol], line.ours, line.spread, line.published)
        for line in sorted(lines, key=lambda line: protocols[line.protocol])
    ]


def _settings(lines: Sequence[Line]) -> list[tuple[str, list[Line]]]:
    names = dict.fromkeys(line.setting for line in lines)
    return [(name, [line for line in lines if line.setting == name]) for name in names]


def _legend(lines: Sequence[Line], protocols: dict[str, int]) -> list[tuple[Markup, str]]:
    labels = [(protocols[label], label) for label in protocols if any(line.protocol == label for line in lines)]
    return legend(
        labels,
        published=any(line.published is not None for line in lines),
        spread=any(line.spread for line in lines),
    )


# -- strips -----------------------------------------------------------------------------------------------------------

#: Half the width of a strip, and the difference, in percent or points, that reaches its end.
_HALF, _FAR = 200.0, 100.0


def strip(lines: Sequence[Line]) -> Markup:
    """A strip with a dot for each published value, at the difference between ours and the published one."""
    parts = [
        tag("rect", x=_strip_x(-5), y=0, width=_strip_x(5) - _strip_x(-5), height=18, class_="ch-band"),
        tag("line", x1=0, x2=2 * _HALF, y1=9, y2=9, class_="ch-grid"),
        tag("line", x1=_HALF, x2=_HALF, y1=0, y2=18, class_="ch-zero"),
    ]
    told = []
    for line in lines:
        gap = difference(line)
        if gap is None:
            continue
        what = f"{metric_in_words(line.metric)}, {line.protocol}, {line.nodes:,} nodes: {gap}"
        told.append(f"{what} ({gap.agreement})")
        parts.append(tag("g", tag("title", text(what)), _dot(gap.agreement, _strip_x(gap.amount))))
    return tag("svg", *parts, class_="chart", view_box="0 0 400 18", role="img", aria_label="; ".join(told))


def strip_axis() -> Markup:
    """The labels of the axis that all strips share."""
    marks = [
        tag("text", text(f"{tick:+d}".replace("-", "−") if tick else "0"), x=_strip_x(tick), y=11, class_=_TICK)
        for tick in (-100, -50, -20, -5, 0, 5, 20, 50, 100)
    ]
    return tag("svg", *marks, class_="chart", view_box="0 0 400 16", role="img", aria_label="difference in percent")


_TICK = "ch-axis ch-small ch-middle"


def _strip_x(amount: float) -> float:
    """The x of a difference, by its square root, so that differences near zero can be told apart."""
    share = min(1.0, math.sqrt(abs(amount) / _FAR))
    return _HALF + math.copysign(share, amount) * (_HALF - 10)


def _dot(agreement: Agreement, x: float) -> Markup:
    name = f"ch-dot ch-{agreement.style}"
    if agreement is Agreement.MATCH:
        return tag("circle", cx=x, cy=9, r=4.5, class_=name)
    if agreement is Agreement.NEAR:
        return tag("rect", x=x - 4, y=5, width=8, height=8, class_=name)
    return tag("polygon", points=points((x, 3.5), (x + 5, 13.5), (x - 5, 13.5)), class_=name)
