"""Draws the charts of a page as SVG: lines over sizes, and bars side by side.

Filled and solid is ours, hollow and dashed is what was published. Each protocol has a colour and a marker; whiskers
show the spread over seeds. Each chart is a few kilobytes in the page's own colours and opens anywhere; a plotting
library would add megabytes of script, or pictures that do not follow the page's colours.
"""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from antecede.report import theme
from antecede.report.markup import number, points, tag, text, text_width
from antecede.report.scale import Extent, Scale, short, value_scale
from antecede.report.series import Point, Series, crossings
from antecede.report.wording import decimals, number_in_words

#: Width of every panel in its own units; the page scales it.
WIDTH = 460.0


def extent(series: Sequence[Series]) -> Extent:
    """What the vertical axis must hold."""
    points = [point for one in series for point in one.points]
    return Extent(
        [point.ours for point in points] + [point.published for point in points if point.published is not None],
        [point.ours + sign * point.spread for point in points if point.spread for sign in (1, -1)],
    )


def marker(position: int, x: float, y: float, name: str, size: float = 4.2) -> Markup:
    """The marker of the series at `position`: circle, square, triangle or diamond."""
    shape = position % 4
    if shape == 0:
        return tag("circle", cx=x, cy=y, r=size, class_=name)
    if shape == 1:
        side = size * 0.9
        return tag("rect", x=x - side, y=y - side, width=2 * side, height=2 * side, class_=name)
    reach = size * 1.2
    if shape == 2:
        corners = ((x, y - reach), (x + reach, y + reach * 0.8), (x - reach, y + reach * 0.8))
    else:
        corners = ((x, y - reach), (x + reach, y), (x, y + reach), (x - reach, y))  # type: ignore[assignment]
    return tag("polygon", points=points(*corners), class_=name)


def whisker(x: float, low: float, high: float) -> Markup:
    """A vertical whisker: the spread over seeds."""
    ends = [tag("line", x1=x - 3, x2=x + 3, y1=y, y2=y) for y in (low, high)]
    return tag("g", tag("line", x1=x, x2=x, y1=low, y2=high), *ends, class_="ch-whisker")


def panel(title: str, description: str, height: float, *parts: Markup) -> Markup:
    """One panel with its title above the drawing. `description` is what a screen reader says."""
    return tag(
        "svg",
        tag("title", text(title)),
        tag("desc", text(description)),
        tag("text", text(title), x=0, y=14, class_="ch-title"),
        *parts,
        class_="chart",
        role="img",
        view_box=f"0 0 {WIDTH:.0f} {height:.0f}",
    )


def legend(labels: Sequence[tuple[int, str]], *, published: bool, spread: bool) -> list[tuple[Markup, str]]:
    """The entries of a figure's legend: a sign, drawn 26 wide and 14 high, and its label."""
    entries = []
    for position, label in labels:
        line = tag("line", x1=1, x2=25, y1=7, y2=7, class_="ch-line")
        entries.append((tag("g", line, marker(position, 13, 7, "ch-ours"), class_=theme.hue(position)), label))
    if published:
        line = tag("line", x1=1, x2=25, y1=7, y2=7, class_="ch-printed-line")
        entries.append((tag("g", line, marker(0, 13, 7, "ch-printed"), class_="ch-neutral"), "published"))
    if spread:
        entries.append((tag("g", whisker(13, 1, 13), class_="ch-neutral"), "± standard deviation over seeds"))
    return entries


def _say(subject: str, ours: float, spread: float | None, published: float | None, unit: str) -> str:
    """One value in words, for tooltips and screen readers."""
    digits = decimals([ours] if published is None else [ours, published])
    words = f"{subject}: {number_in_words(ours, digits)}"
    words += f" ± {number_in_words(spread, digits)}" if spread is not None else ""
    words += f" {unit}" if unit else ""
    return words if published is None else f"{words}, published {number_in_words(published, digits)}"


# -- lines ------------------------------------------------------------------------------------------------------------

#: Pixels above, of, and below the plot of a line chart.
_TOP, _HEIGHT, _BOTTOM = 34.0, 190.0, 40.0


def line_chart(title: str, series: Sequence[Series], *, unit: str, extent: Extent, x_label: str) -> Markup:
    """Draw lines over sizes. `extent`: what the vertical axis must hold, the same for all panels of one figure."""
    return _Lines(series, extent, unit).draw(title, x_label)


class _Lines:
    def __init__(self, series: Sequence[Series], extent: Extent, unit: str) -> None:
        self.series, self.unit = series, unit
        self.foot = _TOP + _HEIGHT
        self.y, self.ticks = value_scale(extent, self.foot, _TOP)
        left = 10 + max(text_width(short(tick), 11.5) for tick in self.ticks)
        right = WIDTH - 16 - max(text_width(one.label, 12) for one in series)
        self.sizes = sorted({point.x for one in series for point in one.points})
        low, high = self.sizes[0], self.sizes[-1]
        # Sizes double in every paper; one that is not stated counts as 0 and makes the axis linear.
        self.x = Scale(low, high, left + 12, right - 6, log=low > 0)
        self.left, self.right = left, right

    def draw(self, title: str, x_label: str) -> Markup:
        parts = [*self._axes(x_label)]
        for one in self.series:
            parts.append(self._line(one))
        parts += self._crossings("N" if x_label == "nodes" else x_label)
        parts += self._names()
        return panel(title, self._description(title), self.foot + _BOTTOM, *parts)

    def _axes(self, x_label: str) -> list[Markup]:
        parts = []
        for tick in self.ticks:
            y = self.y(tick)
            parts.append(tag("line", x1=self.left, x2=self.right, y1=y, y2=y, class_="ch-grid"))
            parts.append(tag("text", text(short(tick)), x=self.left - 6, y=y + 4, class_="ch-axis ch-end"))
        if not self.y.log:
            zero = self.y(0)
            parts.append(tag("line", x1=self.left, x2=self.right, y1=zero, y2=zero, class_="ch-zero"))
        last = -100.0
        for size in self.sizes:
            x, label = self.x(size), f"{size:,.0f}"
            if x - last > text_width(label, 11.5) + 6:
                parts.append(tag("text", text(label), x=x, y=self.foot + 17, class_="ch-axis ch-middle"))
                last = x
        middle = (self.left + self.right) / 2
        parts.append(tag("text", text(x_label), x=middle, y=self.foot + 34, class_="ch-axis ch-middle"))
        return parts

    def _line(self, one: Series) -> Markup:
        parts = []
        ours = [(self.x(point.x), self.y(point.ours)) for point in one.points]
        printed = [(self.x(p.x), self.y(p.published)) for p in one.points if p.published is not None]
        for place, name in ((printed, "ch-printed-line"), (ours, "ch-line")):
            if len(place) > 1:
                parts.append(tag("path", d=_through(place), class_=name))
        for point, (x, y) in zip(one.points, ours, strict=True):
            if point.spread:
                parts.append(whisker(x, *self._reach(point)))
            mark = [marker(one.position, x, y, "ch-ours")]
            if point.published is not None:
                mark.append(marker(one.position, x, self.y(point.published), "ch-printed"))
            parts.append(tag("g", tag("title", text(self._words(one, point))), *mark))
        return tag("g", *parts, class_=one.hue)

    def _reach(self, point: Point) -> tuple[float, float]:
        spread = point.spread or 0.0
        low = max(point.ours - spread, self.y.low)
        return self.y(low), self.y(min(point.ours + spread, self.y.high))

    def _crossings(self, axis: str) -> list[Markup]:
        parts = []
        for cross in crossings(self.series)[:4]:
            x, y = self.x(cross.x), self.y(cross.y)
            said = f"{cross.one} and {cross.other} cross near {axis} = {cross.x:,.0f}"
            label = tag("text", text(f"≈ {cross.x:,.0f}"), x=x, y=_TOP - 4, class_="ch-cross-name ch-middle")
            line = tag("line", x1=x, x2=x, y1=_TOP, y2=self.foot, class_="ch-cross-line")
            ring = tag("circle", cx=x, cy=y, r=8, class_="ch-cross")
            parts.append(tag("g", tag("title", text(said)), line, ring, label))
        return parts

    def _names(self) -> list[Markup]:
        """Names at the ends of the lines, pushed apart where the lines end close together."""
        ends = sorted((self.y(one.points[-1].ours), one) for one in self.series if one.points)
        places = [y for y, _ in ends]
        for index in range(1, len(places)):
            places[index] = max(places[index], places[index - 1] + 14)
        over = max(0.0, places[-1] - self.foot) if places else 0.0
        return [
            tag("text", text(one.label), x=self.right + 6, y=y - over + 4, class_=f"ch-name {one.hue}")
            for y, (_, one) in zip(places, ends, strict=True)
        ]

    def _words(self, one: Series, point: Point) -> str:
        return _say(f"{one.label} at {point.x:,.0f} nodes", point.ours, point.spread, point.published, self.unit)

    def _description(self, title: str) -> str:
        said = [self._words(one, point) for one in self.series for point in one.points]
        return f"{title}. " + "; ".join(said) + "."


def _through(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{'L' if index else 'M'} {number(x)} {number(y)}" for index, (x, y) in enumerate(places))


# -- bars -------------------------------------------------------------------------------------------------------------

#: Pixels above the bars, of a bar, of a category's label, and between categories.
_BARS_TOP, _BAR, _LABEL, _GAP = 28.0, 15.0, 17.0, 10.0


class Bar(NamedTuple):
    """One protocol's value in a category."""

    label: str
    position: int
    ours: float
    spread: float | None
    published: float | None


class Category(NamedTuple):
    label: str
    bars: Sequence[Bar]


def bar_extent(categories: Sequence[Category]) -> Extent:
    """What the axis of bars must hold."""
    bars = [bar for category in categories for bar in category.bars]
    return Extent(
        [bar.ours for bar in bars] + [bar.published for bar in bars if bar.published is not None],
        [bar.ours + sign * bar.spread for bar in bars if bar.spread for sign in (1, -1)],
    )


def bar_chart(title: str, categories: Sequence[Category], *, unit: str, extent: Extent) -> Markup:
    """Draw bars side by side. `extent`: what the axis must hold, the same for all panels of one figure."""
    return _Bars(categories, unit, extent).draw(title)


class _Bars:
    def __init__(self, categories: Sequence[Category], unit: str, extent: Extent) -> None:
        self.categories, self.unit = categories, unit
        bars = [bar for category in categories for bar in category.bars]
        self.right = WIDTH - 14 - max(text_width(_value(bar), 11.5) for bar in bars)
        self.x, self.ticks = value_scale(extent, 2.0, self.right)
        self.base = self.x(self.x.low if self.x.log else 0)
        self.foot = _BARS_TOP + sum(_LABEL + _BAR * len(category.bars) + _GAP for category in categories)

    def draw(self, title: str) -> Markup:
        parts, y = self._axis(), _BARS_TOP
        for category in self.categories:
            parts.append(tag("text", text(category.label), x=6, y=y + 12, class_="ch-category"))
            y += _LABEL
            for bar in category.bars:
                parts.append(self._bar(bar, category.label, y))
                y += _BAR
            y += _GAP
        said = [self._say(bar, category.label) for category in self.categories for bar in category.bars]
        return panel(title, f"{title}. {'; '.join(said)}.", self.foot + 22, *parts)

    def _axis(self) -> list[Markup]:
        parts = []
        for tick in self.ticks:
            at = self.x(tick)
            name = "ch-zero" if tick == 0 else "ch-grid"
            parts.append(tag("line", x1=at, x2=at, y1=_BARS_TOP - 4, y2=self.foot, class_=name))
            edge = "ch-axis" if at < 12 else "ch-axis ch-middle"
            parts.append(tag("text", text(short(tick)), x=max(at, 0.0), y=self.foot + 15, class_=edge))
        parts.append(tag("text", text(self.unit), x=self.right + 14, y=self.foot + 15, class_="ch-axis"))
        return parts

    def _bar(self, bar: Bar, category: str, y: float) -> Markup:
        middle, end = y + _BAR / 2, self.x(bar.ours)
        left, right = min(self.base, end), max(self.base, end)
        parts = [
            tag("title", text(self._say(bar, category))),
            tag("rect", x=left, y=y + 1, width=max(1.5, right - left), height=_BAR - 2, class_="ch-bar"),
        ]
        if bar.spread:
            low, high = self.x(max(self.x.low, bar.ours - bar.spread)), self.x(bar.ours + bar.spread)
            ends = [tag("line", x1=x, x2=x, y1=middle - 3, y2=middle + 3) for x in (low, high)]
            line = tag("line", x1=low, x2=high, y1=middle, y2=middle)
            parts.append(tag("g", line, *ends, class_="ch-whisker ch-over"))
            right = max(right, high)
        if bar.published is not None:
            at = self.x(bar.published)
            parts.append(marker(bar.position, at, middle, "ch-printed"))
            if right - 6 < at < right + text_width(_value(bar), 11.5) + 14:  # else the number stands before it
                right = at + 5
        parts.append(tag("text", text(_value(bar)), x=right + 6, y=middle + 4, class_="ch-value"))
        return tag("g", *parts, class_=theme.hue(bar.position))

    def _say(self, bar: Bar, category: str) -> str:
        return _say(f"{bar.label}, {category}", bar.ours, bar.spread, bar.published, self.unit)


def _value(bar: Bar) -> str:
    return number_in_words(bar.ours, decimals([bar.ours]))
