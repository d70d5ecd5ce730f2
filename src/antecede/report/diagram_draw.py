"""Draws a scene as SVG: the grid, outages and lines first, then message by message, violations last.

Later parts lie over earlier ones. All parts of one message are one group: pointing at any of them fades the others.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from markupsafe import Markup

from antecede.report import theme
from antecede.report.diagram_layout import LANE, MARK, Box, Labels, Layout, Place, message_names
from antecede.report.diagram_marks import arrow_line, cross, hold_bar, legend, square
from antecede.report.markup import join, path, tag, text, wrap
from antecede.report.scene import Arrow, Delivery, Key, Scene, Violation
from antecede.report.wording import count

_BUNDLE, _CONTROL = "bundle", "control"


class Drawing:
    """Draws one diagram."""

    def __init__(self, scene: Scene, title: str, names: dict[int, str], violations: list[Violation]) -> None:
        self.scene = scene
        self.title = title
        self.names = {node: names.get(node, f"node {node}") for node in scene.nodes}
        self.violations = violations
        self.heading = wrap(title, 780, 15)
        top = 48.0 + 19 * len(self.heading) if title else 34.0
        self.layout = Layout(scene, self.names, top)
        layout = self.layout
        self.labels = Labels(Box(layout.left, top - 4, layout.width - 2, layout.bottom + 4))
        keys = {message for arrow in scene.arrows for message in arrow.messages}
        keys.update(one.message for one in scene.publications)
        keys.update(one.message for one in scene.deliveries)
        self.called = message_names([*keys, *(message for one in violations for message in one.messages)])
        sources = sorted({source for _, source, _ in keys})
        self.hues = {source: theme.hue(position) for position, source in enumerate(sources)}
        self.spots: dict[int, tuple[float, float, int]] = {}
        self.blamed = _blamed(scene, violations)
        flights = [one.arrived_us - one.sent_us for one in scene.arrows if one.arrived_us is not None]
        self.flight_us = median(flights) if flights else (scene.end_us - scene.start_us) / 8

    def svg(self, *, standalone: bool) -> Markup:
        layout = self.layout
        grid, lines, messages = self._grid(), self._lines(), self._messages()
        reds, told, bottom = _draw_violations(self.violations, layout, self.spots, self.labels)
        keys, bottom = legend(self.scene, bool(self.violations), layout.width - 20, bottom)
        head = self._head()
        return tag(
            "svg",
            tag("title", text(self.title or "Space-time diagram")),
            tag("desc", text(self._description())),
            *([tag("style", Markup(theme.diagram_style()))] if standalone else []),
            *([tag("rect", class_="st-ground", width="100%", height="100%")] if standalone else []),
            *(head, grid, lines, messages, reds, told, keys),
            xmlns="http://www.w3.org/2000/svg",
            class_="space-time",
            role="img",
            view_box=f"0 0 {layout.width:.0f} {bottom:.0f}",
            width=round(layout.width),
            height=round(bottom),
        )

    # -- what lies below ---------------------------------------------------------------------------------------------

    def _summary(self) -> str:
        scene, clock = self.scene, self.layout.clock
        messages = len({one.message for one in scene.publications})
        parts = [count(len(scene.nodes), "node"), count(messages, "message"), count(len(scene.arrows), "packet")]
        held = sum(one.given and one.until_us > one.since_us for one in scene.deliveries)
        parts.append(f"{held} held" if held else "none held")
        summary = ", ".join(parts) + f"; {clock.units(scene.start_us):,.4g} to {clock.say(scene.end_us)}"
        beyond = f"; {count(scene.beyond, 'packet')} to or from other nodes not shown" if scene.beyond else ""
        return summary + beyond

    def _description(self) -> str:
        red = " ".join(f"Violation of {one.rule}: {self.layout.clock.retell(one.words)}." for one in self.violations)
        return f"Space-time diagram: {self._summary()} {red}".strip()

    def _head(self) -> Markup:
        parts = [
            tag("text", text(line), x=16, y=24 + 19 * position, class_="st-title")
            for position, line in enumerate(self.heading)
        ]
        if self.heading:
            parts.append(tag("text", text(self._summary()), x=16, y=24 + 19 * len(self.heading), class_="st-muted"))
        return join(parts)

    def _grid(self) -> Markup:
        layout = self.layout
        parts = []
        for time_us, label in layout.ticks:
            x = layout.x(time_us)
            parts.append(tag("line", x1=x, x2=x, y1=layout.top + 6, y2=layout.bottom, class_="st-grid"))
            parts.append(tag("text", text(label), x=x, y=layout.top, class_="st-tick", text_anchor="middle"))
        parts.append(tag("text", text(layout.clock.unit), x=layout.left - 10, y=layout.top, class_="st-tick st-end"))
        return tag("g", *parts)

    def _lines(self) -> Markup:
        layout, clock, parts = self.layout, self.layout.clock, []
        for node in self.scene.nodes:
            y = layout.y[node]
            parts.append(tag("text", text(self.names[node]), x=layout.left - 10, y=y + 4, class_="st-node st-end"))
            parts.append(tag("line", x1=layout.left, x2=layout.right, y1=y, y2=y, class_="st-line"))
        for outage in self.scene.outages:
            y = layout.y[outage.node]
            begin = max(layout.left, layout.x(outage.since_us))
            end = layout.x(outage.until_us) if outage.back else layout.right
            name, back = self.names[outage.node], f", recovered at {clock.say(outage.until_us)}"
            verb = "stopped" if outage.stopped else "crashed"
            said = f"{name} {verb} at {clock.say(outage.since_us)}{back if outage.back else ' and stayed down'}"
            inside = [
                tag("title", text(said)),
                tag("rect", x=begin, y=y - 7, width=max(2.0, end - begin), height=14, class_="st-down"),
                *([] if outage.stopped else [cross(begin, y, 5, "st-crash")]),
            ]
            if outage.back:
                inside.append(tag("circle", cx=end, cy=y, r=4.5, class_="st-back"))
            if end - begin > 48:
                inside.append(tag("text", text("down"), x=(begin + end) / 2, y=y + 4, class_="st-tick st-middle"))
            parts.append(tag("g", *inside))
        for change in self.scene.changes:
            x, y = layout.x(change.time_us), layout.y[change.node]
            verb = "subscribed to" if change.joined else "unsubscribed from"
            said = f"{self.names[change.node]} {verb} {change.topic} at {clock.say(change.time_us)}"
            sign = tag("text", text("+" if change.joined else "−"), x=x, y=y - 6, class_="st-change st-middle")
            parts.append(tag("g", tag("title", text(said)), sign))
            self.labels.block(x, y - 9, 5)
        return tag("g", *parts)

    # -- message by message ------------------------------------------------------------------------------------------

    def _messages(self) -> Markup:
        groups: dict[Key | str, list[Markup]] = {_CONTROL: [], _BUNDLE: []}
        names = []
        for arrow in self.scene.arrows:
            whose = _CONTROL if not arrow.messages else _BUNDLE if len(arrow.messages) > 1 else arrow.messages[0]
            groups.setdefault(whose, []).append(self._arrow(arrow))
        for publication in self.scene.publications:
            x, y = self.layout.x(publication.time_us), self.layout.y[publication.node]
            self.spots[publication.row] = (x, y, publication.node)
            self.labels.block(x, y, 6)
        for delivery in self.scene.deliveries:
            if self.layout.at_publish(delivery):
                x, y = self.layout.x(delivery.until_us), self.layout.y[delivery.node]
                self.spots[delivery.row] = (x, y, delivery.node)
                continue
            x, y = self.layout.spot(delivery)
            self.spots[delivery.row] = (x, y, delivery.node)
            self.labels.block(x, y, MARK / 2)
            groups.setdefault(delivery.message, []).append(self._delivery(delivery))
        for publication in self.scene.publications:
            x, y, _ = self.spots[publication.row]
            name = self.called[publication.message]
            after = ", ".join(f"{source}.{seq}" for _, source, seq in publication.deps) or "nothing"
            said = f"{self.names[publication.node]} published {name} at {self.layout.clock.say(publication.time_us)}; "
            dot = tag("circle", tag("title", text(said + f"depends on {after}")), cx=x, cy=y, r=5, class_="st-dot")
            parts = groups.setdefault(publication.message, [])
            parts.append(dot)
            places = (Place(x, y - 9, "middle"), Place(x - 7, y - 6, "end"), Place(x + 7, y - 6, "start"))
            place = self.labels.place(name, 12, places)
            if place is not None:
                where = {"x": place.x, "y": place.y, "text_anchor": place.anchor}
                hued = f"st-name {self._hue(publication.message)}"
                names.append(tag("text", text(name), class_=hued, **where))
        drawn = [tag("g", *parts, class_=f"st-m {self._hue(whose)}") for whose, parts in groups.items() if parts]
        return join([*drawn, *names])  # over every arrow

    def _hue(self, whose: Key | str) -> str:
        return f"st-{whose}" if isinstance(whose, str) else self.hues[whose[1]]

    def _arrow(self, arrow: Arrow) -> Markup:
        layout, clock = self.layout, self.layout.clock
        x1, y1, y2 = layout.x(arrow.sent_us), layout.y[arrow.sender], layout.y[arrow.receiver]
        what = ", ".join(self.called[message] for message in arrow.messages) or arrow.kind
        said = f"{what}: {self.names[arrow.sender]} at {clock.say(arrow.sent_us)} → {self.names[arrow.receiver]}"
        if arrow.arrived_us is None:
            # The trace does not say where it was lost: the arrow ends halfway, at the usual speed.
            x2, y2 = x1 + (layout.x(arrow.sent_us + self.flight_us) - x1) * 0.45, y1 + (y2 - y1) * 0.45
            said += ", never arrived"
        else:
            x2 = layout.x(arrow.arrived_us)
            said += f" at {clock.say(arrow.arrived_us)}" + (", which was down" if arrow.lost else "")
        said += f" ({count(arrow.bytes, 'byte')})" if arrow.bytes >= 0 else ""
        bad = any((arrow.receiver, message) in self.blamed for message in arrow.messages)
        many = f"×{len(arrow.messages)}" if len(arrow.messages) > 1 else ""
        ends = self._clipped(x1, y1, x2, y2)
        return arrow_line(*ends, said=said, lost=arrow.lost, bad=bad, many=many, short=y2 != ends[3])

    def _clipped(self, x1: float, y1: float, x2: float, y2: float) -> tuple[float, float, float, float]:
        """The part of an arrow inside the window: packets may leave before it and arrive after."""
        left, right = self.layout.left, self.layout.right + 8
        if x1 < left and x2 > x1:
            x1, y1 = left, y1 + (y2 - y1) * (left - x1) / (x2 - x1)
        if x2 > right and x2 > x1:
            x2, y2 = right, y1 + (y2 - y1) * (right - x1) / (x2 - x1)
        return x1, y1, x2, y2

    def _delivery(self, delivery: Delivery) -> Markup:
        layout, clock = self.layout, self.layout.clock
        x, y = layout.spot(delivery)
        begin = max(layout.left, layout.x(delivery.since_us))
        name, node = self.called[delivery.message], self.names[delivery.node]
        held_us = delivery.until_us - delivery.since_us
        if not delivery.given:
            said = f"{node} received {name} at {clock.say(delivery.since_us)} and never delivered it"
            return tag("g", tag("title", text(said)), hold_bar(begin, min(x, layout.right), y, open_end=True))
        said = f"{node} delivered {name} at {clock.say(delivery.until_us)}"
        said += f", held for {clock.span(held_us)}" if held_us else ", at once"
        said += f", after {count(delivery.hops, 'hop')}" if delivery.hops > 0 else ""
        tagged = bool(delivery.note)
        said += f" ({delivery.note.replace('_', ' ')})" if tagged else ""
        bar = [hold_bar(begin, x, y, open_end=False)] if held_us else []
        marks = [square(x, y, tagged=tagged)] if x <= layout.right + 8 else []
        return tag("g", tag("title", text(said)), *bar, *marks)


def _blamed(scene: Scene, violations: list[Violation]) -> set[tuple[int, Key]]:
    """Pairs of a node and a message whose arrival there violates a rule. A message that never came has none."""
    node_of = {one.row: one.node for one in scene.publications} | {one.row: one.node for one in scene.deliveries}
    found: set[tuple[int, Key]] = set()
    for one in violations:
        if set(one.nodes) <= {node_of.get(row, -1) for row in one.rows}:
            found.update((node, message) for node in one.nodes for message in one.messages)
    return found


# -- violations -------------------------------------------------------------------------------------------------------


def _draw_violations(
    violations: Sequence[Violation],
    layout: Layout,
    spots: Mapping[int, tuple[float, float, int]],
    labels: Labels,
) -> tuple[Markup, Markup, float]:
    """Rings and labels, the sentences below the lines, and the y below them. `spots`: x, y and node by row."""
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
