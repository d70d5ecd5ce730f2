"""Bars side by side: several quantities at one size, ours as a bar, the published as a hollow sign over it."""

from collections.abc import Sequence
from typing import NamedTuple

from antecede.report import theme
from antecede.report.chart import WIDTH, marker, panel
from antecede.report.markup import Markup, tag, text, text_width
from antecede.report.scale import Extent, short, value_scale
from antecede.report.wording import decimals, number_in_words

_TOP, _BAR, _LABEL, _GAP = 28.0, 15.0, 17.0, 10.0


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
    """What must fit on the axis."""
    bars = [bar for category in categories for bar in category.bars]
    return Extent(
        [bar.ours for bar in bars] + [bar.published for bar in bars if bar.published is not None],
        [bar.ours + sign * bar.spread for bar in bars if bar.spread for sign in (1, -1)],
    )


def bar_chart(title: str, categories: Sequence[Category], *, unit: str, extent: Extent) -> Markup:
    """`extent`: everything the axis must hold, so that the panels of one figure share it."""
    return _Bars(categories, unit, extent).draw(title)


class _Bars:
    def __init__(self, categories: Sequence[Category], unit: str, extent: Extent) -> None:
        self.categories, self.unit = categories, unit
        bars = [bar for category in categories for bar in category.bars]
        self.right = WIDTH - 14 - max(text_width(_value(bar), 11.5) for bar in bars)
        self.x, self.ticks = value_scale(extent, 2.0, self.right)
        self.base = self.x(self.x.low if self.x.log else 0)
        self.foot = _TOP + sum(_LABEL + _BAR * len(category.bars) + _GAP for category in categories)

    def draw(self, title: str) -> Markup:
        parts, y = self._axis(), _TOP
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
            parts.append(tag("line", x1=at, x2=at, y1=_TOP - 4, y2=self.foot, class_=name))
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
        known = [bar.ours] if bar.published is None else [bar.ours, bar.published]
        digits = decimals(known)
        words = f"{bar.label}, {category}: {number_in_words(bar.ours, digits)}"
        words += f" ± {number_in_words(bar.spread, digits)}" if bar.spread is not None else ""
        words += f" {self.unit}" if self.unit else ""
        if bar.published is not None:
            words += f", published {number_in_words(bar.published, digits)}"
        return words


def _value(bar: Bar) -> str:
    return number_in_words(bar.ours, decimals([bar.ours]))
