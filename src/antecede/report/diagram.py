"""A space-time diagram of a small run as SVG: `space_time(rows)`.

Nodes are lines, time runs to the right, packets are arrows from where they were sent to where they arrived. A dot is a
publication, a square a delivery; the bar before a square is the time the message was held. Violations the judge found
are ringed in red and told in full below. The text is a function of the rows and the options alone.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from antecede.audit import Report
from antecede.core import LimitError, UsageError
from antecede.report.diagram_draw import Drawing
from antecede.report.diagram_layout import Clock
from antecede.report.focus import focus
from antecede.report.markup import Markup
from antecede.report.scene import Choice, Key, Scene, read_scene
from antecede.report.violation import Violation, violations_of
from antecede.trace import Row

#: Beyond these nobody can follow an arrow with a finger, which is all a diagram is for.
NODES_MAX: Final = 24
ARROWS_MAX: Final = 600

_NARROW = "show less of it: --from and --until choose a time window, --nodes some nodes, --topics some topics"


def space_time(
    rows: Iterable[Row],
    *,
    title: str = "",
    audit: Report | Collection[Violation] = (),
    nodes: Collection[int] = (),
    topics: Collection[str] = (),
    messages: Collection[Key] = (),
    window: tuple[float | None, float | None] = (None, None),
    names: Mapping[int, str] | None = None,
    standalone: bool = True,
) -> Markup:
    """The diagram of a run.

    `audit`: what the judge said of these rows; its examples are marked.
    `nodes`, `topics`, `messages`: show only these (empty: all). `window`: only this time, in units of time of a
    simulated run, in seconds from its beginning of a live one.
    `standalone`: a file of its own, with its colours; false for a page that has `diagram_style()`.
    Raises `LimitError` when there is too much to draw, and `UsageError` when nothing is left.
    """
    rows = list(rows)
    _check_rows(rows, title)
    origin_us = Clock(min(row.time_us for row in rows)).origin_us
    begin, end = (None if bound is None else round(bound * 1e6) + origin_us for bound in window)
    if begin is not None and end is not None and begin >= end:
        raise UsageError("window", f"{window[0]} … {window[1]}", "is empty", "let it end after it begins")
    choice = Choice(frozenset(nodes), tuple(topics), frozenset(messages), begin, end)
    marks = violations_of(audit) if isinstance(audit, Report) else list(audit)
    return _draw(rows, choice, title, marks, names, standalone)


def explain(
    rows: Iterable[Row],
    violation: Violation,
    *,
    title: str = "",
    names: Mapping[int, str] | None = None,
    standalone: bool = True,
) -> Markup:
    """The part of a run, of whatever size, that explains one violation: the ways of the messages it names."""
    rows = list(rows)
    _check_rows(rows, title)
    return _draw(rows, focus(rows, violation), title, [violation], names, standalone)


def _draw(
    rows: Sequence[Row],
    choice: Choice,
    title: str,
    marks: list[Violation],
    names: Mapping[int, str] | None,
    standalone: bool,
) -> Markup:
    scene = read_scene(rows, choice)
    _check(scene, choice.nodes)
    return Drawing(scene, title, dict(names or {}), marks).svg(standalone=standalone)


def _check_rows(rows: Sequence[Row], title: str) -> None:
    if not rows:
        raise UsageError("trace", title or "to draw", "has no rows", "draw a run in which something happened")


def _check(scene: Scene, wanted: Collection[int]) -> None:
    missing = sorted(set(wanted) - set(scene.nodes))
    if missing:
        raise UsageError("nodes", missing[0], "is not in the trace", "choose nodes that are")
    if len(scene.nodes) > NODES_MAX:
        raise LimitError("the number of nodes to draw", len(scene.nodes), NODES_MAX, _NARROW)
    if len(scene.arrows) > ARROWS_MAX:
        sent = sorted(arrow.sent_us for arrow in scene.arrows)
        until = Clock(scene.start_us).units(sent[ARROWS_MAX * 2 // 3])
        remedy = f"{_NARROW}; try --until {until:.4g}"
        raise LimitError("the number of arrows to draw", len(scene.arrows), ARROWS_MAX, remedy)
    if not (scene.arrows or scene.publications or scene.deliveries or scene.outages):
        raise UsageError("diagram", "", "nothing of the run is left to draw", "widen the window, nodes or topics")
