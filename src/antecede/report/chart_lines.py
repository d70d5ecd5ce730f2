"""Lines over sizes: how each protocol grows, ours beside the published, and where lines cross."""

from collections.abc import Sequence

from antecede.report.chart import WIDTH, Point, Series, marker, panel, whisker
from antecede.report.comparison import crossings
from antecede.report.markup import Markup, number, tag, text, text_width
from antecede.report.scale import Extent, Scale, short, value_scale
from antecede.report.wording import decimals, number_in_words

_TOP, _HEIGHT, _BOTTOM = 34.0, 190.0, 40.0


def line_chart(title: str, series: Sequence[Series], *, unit: str, extent: Extent, x_label: str) -> Markup:
    """`extent`: everything the vertical axis must hold, so that the panels of one figure share it."""
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
        parts += self._crossings()
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
            parts.append(tag("g", tag("title", text(_say(one.label, point, self.unit))), *mark))
        return tag("g", *parts, class_=one.hue)

    def _reach(self, point: Point) -> tuple[float, float]:
        spread = point.spread or 0.0
        low = max(point.ours - spread, self.y.low)
        return self.y(low), self.y(min(point.ours + spread, self.y.high))

    def _crossings(self) -> list[Markup]:
        parts = []
        for cross in crossings(self.series)[:4]:
            x, y = self.x(cross.x), self.y(cross.y)
            said = f"{cross.one} and {cross.other} cross near N = {cross.x:,.0f}"
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

    def _description(self, title: str) -> str:
        said = [_say(one.label, point, self.unit) for one in self.series for point in one.points]
        return f"{title}. " + "; ".join(said) + "."


def _through(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{'L' if index else 'M'} {number(x)} {number(y)}" for index, (x, y) in enumerate(places))


def _say(label: str, point: Point, unit: str) -> str:
    known = [point.ours] if point.published is None else [point.ours, point.published]
    digits = decimals(known)
    words = f"{label} at {point.x:,.0f} nodes: {number_in_words(point.ours, digits)}"
    words += f" ± {number_in_words(point.spread, digits)}" if point.spread is not None else ""
    words += f" {unit}" if unit else ""
    if point.published is not None:
        words += f", published {number_in_words(point.published, digits)}"
    return words
