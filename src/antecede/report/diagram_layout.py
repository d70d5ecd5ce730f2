"""Where everything in a space-time diagram stands: the time axis, the nodes' lines, the lanes below them, the labels.

Below a node's line run lanes, one for each message held at the same time, so that several held messages and messages
given at the same instant stay apart. A node's row is as high as its lanes need. Labels go to the first free of a few
places and are left out when there is none; the tooltip still has them.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from antecede.report.markup import text_width
from antecede.report.scale import Scale, round_ticks
from antecede.report.scene import Delivery, Key, Scene

LANE: Final = 9
#: Messages held at once that get a lane of their own; further ones share the last.
LANES_MAX: Final = 8
MARK: Final = 7
MARGIN_RIGHT: Final = 28
#: Above this a time is no simulated one but the wall clock's (microseconds since 1970, as of 2001).
_WALL_CLOCK_US: Final = 10**15
_WHEN = re.compile(r"row \d+, time_us (\d+)")


class Clock:
    """How times are told: simulated in units of time, the wall clock's in seconds since the first row shown."""

    def __init__(self, start_us: int) -> None:
        live = start_us > _WALL_CLOCK_US
        self.origin_us = start_us if live else 0
        self.unit = "s" if live else "u.t."

    def units(self, time_us: int) -> float:
        return (time_us - self.origin_us) / 1e6

    def say(self, time_us: int) -> str:
        return self.span(time_us - self.origin_us)

    def retell(self, words: str) -> str:
        """The judge's words count rows and microseconds; a reader of the diagram has only its axis."""
        return _WHEN.sub(lambda found: self.say(int(found[1])), words)

    def span(self, duration_us: int) -> str:
        return f"{duration_us / 1e6:,.3f}".rstrip("0").rstrip(".") + f" {self.unit}"


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
    """Where a text goes: its baseline and the end it hangs from."""

    x: float
    y: float
    anchor: str


class Labels:
    """Remembers what is taken and finds room for text."""

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
    """Pixels of a scene. `top` is left to whoever draws a heading."""

    def __init__(self, scene: Scene, names: dict[int, str], top: float) -> None:
        self.clock = Clock(scene.start_us)
        self.left = 24 + max([text_width(names[node], 13) for node in scene.nodes], default=0)
        self.width = _width(scene, self.left)
        self.right = self.width - MARGIN_RIGHT
        self.top = top
        margin = max(1, (scene.end_us - scene.start_us)) * 0.015
        self.x = Scale(scene.start_us - margin, scene.end_us + margin, self.left + 14, self.right)
        self.ticks = [
            (round(tick * 1e6) + self.clock.origin_us, f"{tick:,.6g}")
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
        """A publisher's own delivery at the instant of publication: the dot says it."""
        return delivery.given and (delivery.node, delivery.message, delivery.until_us) in self.own

    def spot(self, delivery: Delivery) -> tuple[float, float]:
        """Where a delivery's mark stands."""
        return self.x(delivery.until_us), self.y[delivery.node] + 9 + LANE * self.lanes[delivery.row]

    def _lanes(self, scene: Scene) -> dict[int, int]:
        """Gives every delivery a lane; tells how many each node needs."""
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
    """Wide enough for the busiest node's events to stand apart; a page scrolls beyond its own width."""
    events: dict[int, int] = {}
    for node in [one.node for one in scene.publications] + [one.node for one in scene.deliveries]:
        events[node] = events.get(node, 0) + 1
    busiest = max(events.values(), default=0)
    return left + MARGIN_RIGHT + min(2200.0, max(790.0, 17.0 * busiest, 4.5 * len(scene.arrows)))


def message_names(messages: Iterable[Key]) -> dict[Key, str]:
    """`source.seq`, with the topic where there are several."""
    keys = set(messages)
    several = len({topic for topic, _, _ in keys}) > 1
    return {key: f"{_shortened(key[0])}/{key[1]}.{key[2]}" if several else f"{key[1]}.{key[2]}" for key in keys}


def _shortened(topic: str) -> str:
    return topic if len(topic) <= 16 else f"{topic[:7]}…{topic[-8:]}"
