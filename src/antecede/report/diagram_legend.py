"""What the signs mean: only those that occur in the diagram."""

from antecede.report import theme
from antecede.report.diagram_marks import arrow_line, cross, hold_bar, square
from antecede.report.markup import Markup, join, tag, text, text_width
from antecede.report.scene import Scene


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
