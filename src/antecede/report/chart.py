"""Figures of the page, drawn by hand: lines over sizes, and bars side by side.

One grammar for all: filled and solid is ours, hollow and dashed is what was published; a colour and a marker for each
protocol; whiskers for the spread over seeds. A few kilobytes of SVG in the page's own colours do what these figures
need, and open anywhere; a plotting library would add megabytes of script or pictures that do not follow the page.
"""

from collections.abc import Sequence
from typing import NamedTuple

from antecede.report import theme
from antecede.report.markup import Markup, points, tag, text
from antecede.report.scale import Extent

#: Width of every panel in its own units; the page scales it.
WIDTH = 460.0


class Point(NamedTuple):
    """`spread` is the standard deviation over seeds; `published` stands beside ours, if it is known."""

    x: float
    ours: float
    spread: float | None
    published: float | None


class Series(NamedTuple):
    """One protocol. `position` chooses its colour and marker, the same in every panel of a figure."""

    label: str
    position: int
    points: Sequence[Point]

    @property
    def hue(self) -> str:
        return theme.hue(self.position)


def extent(series: Sequence[Series]) -> Extent:
    """What must fit on an axis."""
    points = [point for one in series for point in one.points]
    return Extent(
        [point.ours for point in points] + [point.published for point in points if point.published is not None],
        [point.ours + sign * point.spread for point in points if point.spread for sign in (1, -1)],
    )


def marker(position: int, x: float, y: float, name: str, size: float = 4.2) -> Markup:
    """A sign of its own for each series: circle, square, triangle, diamond."""
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
    """The spread over seeds, upright."""
    ends = [tag("line", x1=x - 3, x2=x + 3, y1=y, y2=y) for y in (low, high)]
    return tag("g", tag("line", x1=x, x2=x, y1=low, y2=high), *ends, class_="ch-whisker")


def panel(
    title: str, description: str, height: float, *parts: Markup, width: float = WIDTH, caption: bool = True
) -> Markup:
    """One panel with its title above the drawing. `description` is what a screen reader says."""
    head = [tag("text", text(title), x=0, y=14, class_="ch-title")] if caption else []
    return tag(
        "svg",
        tag("title", text(title)),
        tag("desc", text(description)),
        *head,
        *parts,
        class_="chart",
        role="img",
        view_box=f"0 0 {width:.0f} {height:.0f}",
    )


def key(labels: Sequence[tuple[int, str]], *, published: bool, spread: bool) -> Markup:
    """The legend of a figure, as HTML: it wraps with the page."""
    entries = []
    for position, label in labels:
        line = tag("line", x1=1, x2=25, y1=7, y2=7, class_="ch-line")
        entries.append((tag("g", line, marker(position, 13, 7, "ch-ours"), class_=theme.hue(position)), label))
    if published:
        line = tag("line", x1=1, x2=25, y1=7, y2=7, class_="ch-printed-line")
        entries.append((tag("g", line, marker(0, 13, 7, "ch-printed"), class_="ch-neutral"), "published"))
    if spread:
        entries.append((tag("g", whisker(13, 1, 13), class_="ch-neutral"), "± standard deviation over seeds"))
    return tag(
        "ul",
        *(
            tag(
                "li", tag("svg", sign, view_box="0 0 26 14", width=26, height=14, aria_hidden="true"), text(f" {label}")
            )
            for sign, label in entries
        ),
        class_="key",
    )


def chart_style() -> str:
    return "".join(_RULES.replace("FONT", theme.FONT).split("\n"))


_RULES = """
.chart{display:block;width:100%;height:auto;font:12px FONT;overflow:visible}
.ch-title{font-size:13px;font-weight:600;fill:var(--ink)}
.ch-axis,.ch-label{fill:var(--muted);font-size:11.5px;font-variant-numeric:tabular-nums}
.ch-small{font-size:8.5px}
.ch-end{text-anchor:end}.ch-middle{text-anchor:middle}
.ch-grid{stroke:var(--rule);stroke-width:1}
.ch-zero{stroke:var(--muted);stroke-width:1}
.ch-neutral{--hue:var(--muted)}
.ch-line{stroke:var(--hue);stroke-width:2;fill:none;stroke-linejoin:round}
.ch-ours{fill:var(--hue);stroke:var(--ground);stroke-width:1}
.ch-printed-line{stroke:var(--hue);stroke-width:1.4;stroke-dasharray:5 4;fill:none}
.ch-printed{fill:var(--ground);stroke:var(--hue);stroke-width:1.8}
.ch-whisker{stroke:var(--hue);stroke-width:1.2}
.ch-over{stroke:var(--ink);stroke-width:1.1}
.ch-bar{fill:var(--hue);fill-opacity:.78}
.ch-name{fill:var(--hue-text);font-weight:600;paint-order:stroke;stroke:var(--ground);stroke-width:3px}
.ch-value{fill:var(--ink);font-size:11.5px;font-variant-numeric:tabular-nums;paint-order:stroke;stroke:var(--ground);stroke-width:3px}
.ch-category{fill:var(--ink);font-size:12px}
.ch-cross{fill:none;stroke:var(--ink);stroke-width:1.5}
.ch-cross-line{stroke:var(--ink);stroke-width:1;stroke-dasharray:2 3}
.ch-cross-name{fill:var(--ink);font-weight:600;font-size:11.5px;paint-order:stroke;stroke:var(--ground);stroke-width:3px}
.ch-band{fill:var(--good);fill-opacity:.13}
.ch-match{fill:var(--good)}.ch-near{fill:var(--warn)}.ch-differs{fill:var(--bad)}
.ch-dot{fill-opacity:.75;stroke:var(--ground);stroke-width:.8}
"""
