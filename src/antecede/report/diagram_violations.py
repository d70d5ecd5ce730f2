"""Marks violations over a finished diagram, and tells them in full below it."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from antecede.report.diagram_layout import LANE, Labels, Layout, Place
from antecede.report.diagram_marks import cross
from antecede.report.markup import Markup, join, path, tag, text, wrap
from antecede.report.violation import Violation


def draw_violations(
    violations: Sequence[Violation],
    layout: Layout,
    spots: Mapping[int, tuple[float, float, int]],
    labels: Labels,
) -> tuple[Markup, Markup, float]:
    """Rings and labels, the sentences below the lines, and where those end. `spots`: row -> x, y, node of its mark."""
    rings = [_rings(number, violation, layout, spots, labels) for number, violation in enumerate(violations, 1)]
    told, y = [], layout.bottom + 22
    for number, violation in enumerate(violations, 1):
        words = f"{number}  {violation.rule}: {layout.clock.retell(violation.words)}"
        for line in wrap(words, layout.width - 44, 12):
            told.append(tag("text", text(line), x=20, y=y, class_="st-told"))
            y += 17
        y += 4
    return join(rings), join(told), y


def _rings(
    number: int,
    violation: Violation,
    layout: Layout,
    spots: Mapping[int, tuple[float, float, int]],
    labels: Labels,
) -> Markup:
    found = [spots[row] for row in violation.rows if row in spots]
    parts = [tag("title", text(f"{violation.rule}: {layout.clock.retell(violation.words)}"))]
    for x, y, _ in found:
        parts.append(tag("circle", cx=x, cy=y, r=8, class_="st-ring"))
    for (x1, y1, node), (x2, y2, other) in pairwise(found):
        if node == other:
            dip = max(y1, y2) + LANE + 10
            parts.append(tag("path", d=path("M", x1, y1 + 8, "C", x1, dip, x2, dip, x2, y2 + 8), class_="st-arc"))
    met = {node for _, _, node in found}
    x, y, _ = found[0] if found else (layout.left, layout.top, -1)
    for node in violation.nodes:
        if node in layout.y and node not in met:  # nothing happened there, which is the trouble
            x, y = layout.right - 6, layout.y[node]
            parts.append(tag("circle", cx=x, cy=y, r=8, class_="st-ring"))
            parts.append(cross(x, y, 4, "st-cross-bad"))
    parts.append(_label(f"{number} {violation.rule}", x, y, layout, labels))
    return tag("g", *parts, class_="st-violation")


def _label(label: str, x: float, y: float, layout: Layout, labels: Labels) -> Markup:
    above, below = y - 13, y + 24
    places = [Place(x + 8, above, "start"), Place(x - 8, above, "end"), Place(x + 12, y + 4, "start")]
    places += [Place(x - 12, y + 4, "end"), Place(x + 8, below, "start"), Place(x - 8, below, "end")]
    # A violation is named whatever it covers.
    place = labels.place(label, 12, places) or places[1 if x > layout.width / 2 else 0]
    return tag("text", text(label), x=place.x, y=place.y, text_anchor=place.anchor, class_="st-bad-name")
