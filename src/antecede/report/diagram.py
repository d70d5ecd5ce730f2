"""Draws a space-time diagram of a small run as SVG: `space_time(rows)`.

Nodes are lines, time runs to the right, packets are arrows from the send to the receipt. A dot is a publication, a
square a delivery; the bar before a square is the time the message was held. Violations that the judge found are ringed
in red and told in full below. The result depends on the rows and the options alone.

`explain` narrows a run of any size to what explains one violation: the nodes its messages came through. A tree is
shallow, so the way of two messages to one node is a handful of nodes even if the run has thousands.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from markupsafe import Markup

from antecede.audit import Example, Report
from antecede.core import LimitError, UsageError
from antecede.report.diagram_draw import Drawing
from antecede.report.diagram_layout import Clock
from antecede.report.scene import Choice, Key, Scene, Violation, read_scene
from antecede.trace import Event, Row

#: In a larger diagram a reader cannot follow the arrows.
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
    """Draw the diagram of a run.

    `audit`: the judge's report on these rows; its examples are marked.
    `nodes`, `topics`, `messages`: show only these (empty: all). `window`: show only this time, in units of time of a
    simulated run, in milliseconds since its beginning of a live run.
    `standalone`: make a file of its own, with its colours; false for a page, which has the style already.
    Raises `LimitError` if there is too much to draw, and `UsageError` if nothing is left.
    """
    rows = list(rows)
    _check_rows(rows, title)
    clock = Clock(min(row.time_us for row in rows))
    begin, end = (None if bound is None else round(bound * clock.unit_us) + clock.origin_us for bound in window)
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
    """Draw the part of a run, of any size, that explains one violation: the ways of the messages it names."""
    rows = list(rows)
    _check_rows(rows, title)
    return _draw(rows, _focus(rows, violation), title, [violation], names, standalone)


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


def violations_of(report: Report) -> list[Violation]:
    """The examples of a report, as a diagram marks them."""
    return [violation_of(rule.name, rule.example) for rule in report.rules if rule.example is not None]


def violation_of(rule: str, example: Example) -> Violation:
    return Violation(rule, example.words, example.nodes, example.messages, example.rows)


def _focus(rows: Iterable[Row], violation: Violation) -> Choice:
    """Choose the nodes, messages and times that explain the violation, which was found in these rows."""
    wanted = set(violation.messages)
    came_from: dict[tuple[Key, int], int] = {}
    publisher: dict[Key, int] = {}
    tried: set[int] = set()
    times = []
    for index, row in enumerate(rows):
        if index in violation.rows:
            times.append(row.time_us)
        key = (row.topic, row.source, row.seq)
        if key not in wanted:
            continue
        if row.event is Event.PUBLISH:
            publisher.setdefault(key, row.node)
            times.append(row.time_us)
        elif row.event is Event.RECEIVE:
            came_from.setdefault((key, row.node), row.peer)
            if row.node in violation.nodes:
                times.append(row.time_us)
        elif row.event is Event.SEND and row.peer in violation.nodes:
            tried.add(row.node)  # also if it never arrived, which may be the point
            times.append(row.time_us)
    nodes = set(violation.nodes) | set(publisher.values()) | tried
    ends = {*violation.nodes, *tried, *publisher.values()}
    for key in wanted:
        for end in ends:
            nodes.update(_way(came_from, key, end))
    first, last = min(times, default=0), max(times, default=0)
    margin = max(1, (last - first) // 20)
    return Choice(nodes=frozenset(nodes), messages=frozenset(wanted), from_us=first - margin, until_us=last + margin)


def _way(came_from: dict[tuple[Key, int], int], key: Key, node: int) -> list[int]:
    """The nodes a message came through to reach `node`, as far back as it is known."""
    way: list[int] = []
    while (key, node) in came_from and node not in way:
        way.append(node)
        node = came_from[key, node]
    return [*way, node] if way else []
