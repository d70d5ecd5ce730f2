"""Chooses and draws the figures of one experiment: a panel for each setting, so that a reading of the paper is one
picture, with shared axes, so that pictures compare.

A metric measured at several sizes becomes lines; metrics at one size become bars, those of one unit together.
"""

import math
from collections.abc import Sequence
from functools import reduce
from itertools import groupby
from operator import or_
from typing import NamedTuple

from antecede.experiments.summary import Line
from antecede.report.agreement import unit_in_words
from antecede.report.chart import Point, Series, extent, key
from antecede.report.chart_bars import Bar, Category, bar_chart, bar_extent
from antecede.report.chart_lines import line_chart
from antecede.report.comparison import in_words
from antecede.report.markup import Markup, tag, text
from antecede.report.wording import capital, family, metric_in_words


class Figure(NamedTuple):
    """`sentences` say what each panel shows: (setting, words)."""

    caption: str
    panels: list[Markup]
    key: Markup
    sentences: list[tuple[str, str]]

    def html(self) -> Markup:
        said = [
            tag("span", tag("b", text(f"{setting}: ")), text(words), class_="reads")
            for setting, words in self.sentences
        ]
        caption = tag("figcaption", tag("strong", text(self.caption)), *(Markup(f" {one}") for one in said))
        grid = "panels" if len(self.panels) > 1 else "panels panels-one"
        return tag("figure", caption, tag("div", *self.panels, class_=grid), self.key)


def figures(lines: Sequence[Line]) -> list[Figure]:
    """Figures of one experiment's lines, in the order of the lines."""
    lines = [line for line in lines if math.isfinite(line.ours)]
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


def _lines(lines: Sequence[Line], protocols: dict[str, int]) -> Figure:
    metric, unit = lines[0].metric, unit_in_words(lines[0].unit)
    by_setting = {setting: _series(chosen, protocols) for setting, chosen in _settings(lines)}
    shared = reduce(or_, (extent(series) for series in by_setting.values()))
    panels = [
        line_chart(setting, series, unit=unit, extent=shared, x_label="nodes") for setting, series in by_setting.items()
    ]
    sentences = [(setting, words) for setting, series in by_setting.items() if (words := in_words(series))]
    caption = capital(metric_in_words(metric)) + (f" ({unit})" if unit and unit not in metric else "")
    return Figure(f"{caption}.", panels, _key(lines, protocols), sentences)


def _series(lines: Sequence[Line], protocols: dict[str, int]) -> list[Series]:
    series = []
    for protocol, position in protocols.items():
        chosen = sorted((line for line in lines if line.protocol == protocol), key=lambda line: line.nodes)
        points = [Point(line.nodes, line.ours, line.spread, line.published) for line in chosen]
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
    return Figure(f"{subject}{where}{f' ({unit})' if unit else ''}.", panels, _key(lines, protocols), [])


def _bars_of(lines: Sequence[Line], protocols: dict[str, int]) -> list[Bar]:
    return [
        Bar(line.protocol, protocols[line.protocol], line.ours, line.spread, line.published)
        for line in sorted(lines, key=lambda line: protocols[line.protocol])
    ]


def _settings(lines: Sequence[Line]) -> list[tuple[str, list[Line]]]:
    names = dict.fromkeys(line.setting for line in lines)
    return [(name, [line for line in lines if line.setting == name]) for name in names]


def _key(lines: Sequence[Line], protocols: dict[str, int]) -> Markup:
    labels = [(protocols[label], label) for label in protocols if any(line.protocol == label for line in lines)]
    return key(
        labels,
        published=any(line.published is not None for line in lines),
        spread=any(line.spread for line in lines),
    )
