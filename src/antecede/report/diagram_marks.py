"""Draws the signs of a space-time diagram, and the legend of those that occur in it."""

import math

from markupsafe import Markup

from antecede.report import theme
from antecede.report.diagram_layout import MARK
from antecede.report.markup import join, path, points, tag, text, text_width
from antecede.report.scene import Scene

_HEAD = 7.0


def arrow_line(
    x1: float, y1: float, x2: float, y2: float, *, said: str, lost: bool, bad: bool, many: str, short: bool
) -> Markup:
    """The arrow of a packet. `short`: the window cuts it off, so it has no head. `many`: a label beside it."""
    length = math.hypot(x2 - x1, y2 - y1) or 1.0
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    parts = [tag("title", text(said))]
    if short or lost:
        parts.append(tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="st-way"))
        if lost and not short:
            parts.append(cross(x2, y2, 4, "st-lost"))
    else:
        back_x, back_y = x2 - dx * _HEAD, y2 - dy * _HEAD
        parts.append(tag("line", x1=x1, y1=y1, x2=back_x, y2=back_y, class_="st-way"))
        wings = ((back_x - dy * 3, back_y + dx * 3), (back_x + dy * 3, back_y - dx * 3))
        parts.append(tag("polygon", points=points((x2, y2), *wings), class_="st-head"))
    if many:
        x, y = (x1 * 2 + x2) / 3, (y1 * 2 + y2) / 3
        parts.append(tag("text", text(many), x=x + 5, y=y + 4, class_="st-many"))
    # A hair is hard to point at; the wide one over it is invisible.
    parts.append(tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="st-reach"))
    return tag("g", *parts, class_="st-bad" if bad else None)


def square(x: float, y: float, *, tagged: bool) -> Markup:
    half = MARK / 2
    return tag("rect", x=x - half, y=y - half, width=MARK, height=MARK, class_="st-given" + (" st-tagged" * tagged))


def hold_bar(begin: float, end: float, y: float, *, open_end: bool) -> Markup:
    name = "st-held st-held-open" if open_end else "st-held"
    return tag("rect", x=begin, y=y - 3, width=max(1.0, end - begin), height=6, class_=name)


def cross(x: float, y: float, reach: float, name: str) -> Markup:
    strokes = path("M", x - reach, y - reach, "L", x + reach, y + reach, "M", x - reach, y + reach)
    return tag("path", d=f"{strokes} {path('L', x + reach, y - reach)}", class_=name)


def legend(scene: Scene, violated: bool, right: float, y: float) -> tuple[Markup, float]:
    """The legend as rows of signs up to `right`, beginning at `y`; and where it ends."""
    x, parts = 20.0, []
    y += 8
    for sign, words in _entries(scene, violated):
        width = 34 + text_width(words, 12) + 18
        if x > 20 and x + width > right:
            x, y = 20.0, y + 22
        label = tag("text", text(words), x=34, y=4, class_="st-key")
        parts.append(tag("g", sign, label, transform=f"translate({x:.1f} {y:.1f})"))
        x += width
    return tag("g", *parts, class_="st-legend", aria_hidden="true"), y + 22


def _entries(scene: Scene, violated: bool) -> list[tuple[Markup, str]]:
    arrows, deliveries = scene.arrows, scene.deliveries
    bar = hold_bar(2, 24, 0, open_end=False)
    down = tag("rect", x=2, y=-7, width=24, height=14, class_="st-down")
    swatches = join(_swatch(position) for position in range(3))
    entries = (
        (scene.publications, _hued(tag("circle", cx=14, cy=0, r=5, class_="st-dot")), "published"),
        (any(len(one.messages) == 1 and not one.lost for one in arrows), _hued(_arrow()), "packet"),
        (any(len(one.messages) > 1 for one in arrows), tag("g", _arrow(), class_="st-bundle"), "packet of several"),
        (any(not one.messages for one in arrows), tag("g", _arrow(), class_="st-control"), "control packet"),
        (any(one.lost for one in arrows), _hued(_arrow(lost=True)), "lost"),
        (any(one.given and not one.note for one in deliveries), _hued(square(14, 0, tagged=False)), "delivered"),
        (
            any(one.given and one.until_us > one.since_us for one in deliveries),
            _hued(tag("g", bar, square(24, 0, tagged=False))),
            "held, then delivered",
        ),
        (any(not one.given for one in deliveries), hold_bar(2, 26, 0, open_end=True), "received, never delivered"),
        (any(one.note for one in deliveries), _hued(square(14, 0, tagged=True)), "delivered, tagged by the protocol"),
        (any(not one.stopped for one in scene.outages), tag("g", down, cross(2, 0, 5, "st-crash")), "crashed, down"),
        (any(one.stopped for one in scene.outages), tag("g", down), "stopped, down"),
        (scene.changes, tag("text", text("+ −"), x=14, y=4, class_="st-change st-middle"), "subscribed, unsubscribed"),
        (violated, tag("circle", cx=14, cy=0, r=7, class_="st-ring"), "violation"),
        (scene.publications, swatches, "a colour for each source"),
    )
    return [(sign, words) for occurs, sign, words in entries if occurs]


def _swatch(position: int) -> Markup:
    bar = tag("rect", x=2 + 8 * position, y=-5, width=8, height=10, class_="st-swatch")
    return tag("g", bar, class_=theme.hue(position))


def _hued(sign: Markup) -> Markup:
    return tag("g", sign, class_="hue-1")


def _arrow(*, lost: bool = False) -> Markup:
    return arrow_line(1, 4, 27, -4, said="", lost=lost, bad=False, many="", short=False)
