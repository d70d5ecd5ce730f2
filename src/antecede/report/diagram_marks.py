"""The signs of a space-time diagram: arrow, square, bar, cross."""

import math

from antecede.report.diagram_layout import MARK
from antecede.report.markup import Markup, path, points, tag, text

_HEAD = 7.0


def arrow_line(
    x1: float, y1: float, x2: float, y2: float, *, said: str, lost: bool, bad: bool, many: str, short: bool
) -> Markup:
    """A packet's way. `short`: cut off by the window, so no head; `many`: how many messages, written beside it."""
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
