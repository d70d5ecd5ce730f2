"""Lays out a space-time diagram: the time axis, the lines of nodes, the lanes below them, the labels.

Below the line of a node there is a lane for each message held at the same time, so that held messages, and messages
delivered at the same instant, stay apart. A node takes as much height as its lanes need. A label goes to the first free
of a few spots and is left out if there is none; the tooltip still has it.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from antecede.report.markup import text_width
from antecede.report.scale import Scale, round_ticks
from antecede.report.scene import Delivery, Key, Scene
from antecede.trace.schema import WALL_CLOCK_US

LANE: Final = 9
#: The number of lanes of a node; further messages held at once share the last lane.
LANES_MAX: Final = 8
MARK: Final = 7
MARGIN_RIGHT: Final = 28
_WHEN = re.compile(r"row \d+, time_us (\d+)")


class Clock:
    """Writes times: simulated ones in units of time, those of the wall clock in ms since the first row shown."""

    def __init__(self, start_us: int) -> None:
        live = start_us >= WALL_CLOCK_US
        self.origin_us = start_us if live else 0
        self.unit, self.unit_us = ("ms", 1_000) if live else ("u.t.", 1_000_000)

    def units(self, time_us: int) -> float:
        return (time_us - self.origin_us) / self.unit_us

    def say(self, time_us: int) -> str:
        return self.span(time_us - self.origin_us)

    def retell(self, words: str) -> str:
        """Replace rows and microseconds in the judge's words by times of the diagram's axis."""
        return _WHEN.sub(lambda found: self.say(int(found[1])), words)

    def span(self, duration_us: int) -> str:
        return f"{duration_us / self.unit_us:,.3f}".rstrip("0").rstrip(".") + f" {self.unit}"


class Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "Box") -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


class Place(NamedTuple):
    """The spot of a text: its baseline and its anchor."""

    x: float
    y: float
    anchor: str


class Labels:
    """Remembers which areas are taken, and finds room for text."""

    def __init__(self, bounds: Box) -> None:
        self._bounds = bounds
        self._taken: list[Box] = []

    def block(self, x: float, y: float, reach: float) -> None:
        self._taken.append(Box(x - reach, y - reach, x + reach, y + reach))

    def place(self, content: str, size: float, places: Iterable[Place]) -> Place | None:
        width = text_width(content, size) + 2
        for place in places:
            shift = {"start": 0.0, "middle": width / 2, "end": width}[place.anchor]
            left = place.x - shift
            box = Box(left, place.y - size * 0.8, left + width, place.y + size * 0.2)
            inside = (
                box.left >= self._bounds.left
                and box.right <= self._bounds.right
                and box.top >= self._bounds.top
                and box.bottom <= self._bounds.bottom
            )
            if inside and not any(box.meets(other) for other in self._taken):
                self._taken.append(box)
                return place
        return None


class Layout:
    """The pixels of a scene. The caller draws the heading above `top`."""

    def __init__(self, scene: Scene, names: dict[int, str], top: float) -> None:
        self.clock = Clock(scene.start_us)
        self.left = 24 + max([text_width(names[node], 13) for node in scene.nodes], default=0)
        self.width = _width(scene, self.left)
        self.right = self.width - MARGIN_RIGHT
        self.top = top
        margin = max(1, (scene.end_us - scene.start_us)) * 0.015
        self.x = Scale(scene.start_us - margin, scene.end_us + margin, self.left + 14, self.right)
        self.ticks = [
            (round(tick * self.clock.unit_us) + self.clock.origin_us, f"{tick:,.6g}")
            for tick in round_ticks(
                self.clock.units(scene.start_us), self.clock.units(scene.end_us), max(2, int(self.width / 110))
            )
        ]
        self.own = {(one.node, one.message, one.time_us) for one in scene.publications}
        self.lanes: dict[int, int] = {}
        depth = self._lanes(scene)
        self.y: dict[int, float] = {}
        gap = 62 if len(scene.nodes) <= 6 else 50 if len(scene.nodes) <= 10 else 40
        at = top + 30
        for node in scene.nodes:
            self.y[node] = at
            at += max(gap, 30 + LANE * depth.get(node, 0))
        self.bottom = at - gap + max(gap * 0.6, 14 + LANE * depth.get(scene.nodes[-1], 0) if scene.nodes else 0)

    def at_publish(self, delivery: Delivery) -> bool:
        """Whether it is a publisher's own delivery at the instant of publication: the dot already shows it."""
        return delivery.given and (delivery.node, delivery.message, delivery.until_us) in self.own

    def spot(self, delivery: Delivery) -> tuple[float, float]:
        """The x and y of the mark of a delivery."""
        return self.x(delivery.until_us), self.y[delivery.node] + 9 + LANE * self.lanes[delivery.row]

    def _lanes(self, scene: Scene) -> dict[int, int]:
        """Give every delivery a lane; return the number of lanes of each node."""
        depth: dict[int, int] = {}
        ends: dict[int, list[float]] = {}
        for delivery in sorted(scene.deliveries, key=lambda one: (one.since_us, one.until_us, one.row)):
            if self.at_publish(delivery):
                continue
            begin, end = self.x(delivery.since_us) - MARK / 2, self.x(delivery.until_us) + MARK / 2
            lanes = ends.setdefault(delivery.node, [])
            lane = next((index for index, until in enumerate(lanes) if until + 1 < begin), len(lanes))
            lane = min(lane, LANES_MAX - 1)
            if lane == len(lanes):
                lanes.append(end)
            lanes[lane] = max(lanes[lane], end)
            self.lanes[delivery.row] = lane
            depth[delivery.node] = len(lanes)
        return depth


def _width(scene: Scene, left: float) -> float:
    """The width at which the events of the busiest node stand apart; a page scrolls wider diagrams."""
    events: dict[int, int] = {}
    for node in [one.node for one in scene.publications] + [one.node for one in scene.deliveries]:
        events[node] = events.get(node, 0) + 1
    busiest = max(events.values(), default=0)
    return left + MARGIN_RIGHT + min(2200.0, max(790.0, 17.0 * busiest, 4.5 * len(scene.arrows)))


def message_names(messages: Iterable[Key]) -> dict[Key, str]:
    """The names of messages: `source.seq`, with the topic if there are several topics."""
    keys = set(messages)
    several = len({topic for topic, _, _ in keys}) > 1
    return {key: f"{_shortened(key[0])}/{key[1]}.{key[2]}" if several else f"{key[1]}.{key[2]}" for key in keys}


def _shortened(topic: str) -> str:
    return topic if len(topic) <= 16 else f"{topic[:7]}…{topic[-8:]}"
