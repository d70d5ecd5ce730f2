"""Nodes that move about a square and publish where they are (thesis 6.2.2.3).

Each node goes in a straight line to a point drawn at random, then to the next: random waypoints. Topics are the cells
of one level (`core.areas`). A node takes the cells that a disc around it touches. Every `step` it subscribes to those
that it has come near, and leaves those behind it. Level 0 is one topic for all, which every node takes.

`Path` gives the position of a node at any time, from the number of the paths and of the node alone. So an observer can
tell which deliveries were of messages from within a node's disc.
"""

import math
import random
from functools import partial
from typing import Annotated

from msgspec import Meta

from antecede.core.areas import cell_of, cells_touched, topic_of
from antecede.sim.engine import Simulation
from antecede.sim.units import ticks
from antecede.sim.workload import Count, Members, NotNegative, Positive, WorkloadChoice


class Path:
    """Where one node is at which time."""

    def __init__(self, paths: int, node: int, speed: float) -> None:
        """`speed` is in sides of the square per 1000 u.t.; 0: the node stays where it is."""
        self._rng = random.Random(f"{paths}/path of {node}")
        self._speed = speed / 1000
        # Times of arrival, and points, in order. A node leaves a point when it comes there.
        self._times = [0.0]
        self._points = [(self._rng.random(), self._rng.random())]

    def at(self, time: float) -> tuple[float, float]:
        if self._speed == 0:
            return self._points[0]
        while self._times[-1] <= time:
            point = (self._rng.random(), self._rng.random())
            self._times.append(self._times[-1] + math.dist(self._points[-1], point) / self._speed)
            self._points.append(point)
        after = next(number for number, arrival in enumerate(self._times) if arrival > time)
        begin, end = self._times[after - 1], self._times[after]
        done = (time - begin) / (end - begin)
        (x, y), (to_x, to_y) = self._points[after - 1], self._points[after]
        return x + done * (to_x - x), y + done * (to_y - y)


class Mobile(WorkloadChoice, frozen=True, kw_only=True):
    """Nodes move, take the cells around them, and publish at a steady mean rate on the cell that they are in."""

    #: Cells are those of this level: 4 to the power of it.
    level: Annotated[int, Meta(ge=0, le=4)] = 2
    #: A node takes the cells that a disc of this radius around it touches.
    radius: Positive = 0.1
    #: Sides of the square that a node covers in 1000 u.t.; 0: none moves.
    speed: NotNegative = 0.0
    #: How often a node compares its topics with its position.
    step: Positive = 200.0
    #: Selects the paths.
    paths: Annotated[int, Meta(ge=0)] = 1
    messages: Count = 100
    #: Mean time between two publications of any nodes.
    interval: Positive = 100.0

    @property
    def topics(self) -> tuple[str, ...]:
        cells = cells_touched(0.5, 0.5, 1.0, self.level)
        return tuple(topic_of(cell) for cell in cells)

    def path(self, node: int) -> Path:
        return Path(self.paths, node, self.speed)

    def members(self, nodes: int, rng: random.Random) -> Members:
        taken: dict[str, list[int]] = {topic: [] for topic in self.topics}
        for node in range(nodes):
            for topic in self._wanted(self.path(node), 0.0):
                taken[topic].append(node)
        return taken

    def start(self, simulation: Simulation, members: Members, rng: random.Random) -> None:
        paths = {node: self.path(node) for node in sorted(simulation.processes)}
        time = 0.0
        for _ in range(self.messages):
            time += rng.expovariate(1 / self.interval)
            node = rng.randrange(len(paths))
            self._publish_at(simulation, time, node, topic_of(cell_of(*paths[node].at(time), self.level)))
        if self.speed and self.level:
            for node, path in paths.items():
                self._move(simulation, node, path, time, rng.uniform(0, self.step))

    def _move(self, simulation: Simulation, node: int, path: Path, end: float, first: float) -> None:
        """Schedule the subscriptions of one node."""
        taken = self._wanted(path, 0.0)
        time = first
        while time < end:
            wanted = self._wanted(path, time)
            for change, topics in ((simulation.subscribe, wanted - taken), (simulation.unsubscribe, taken - wanted)):
                for topic in sorted(topics):
                    simulation.at(ticks(time), partial(change, node, topic))
            taken = wanted
            time += self.step

    def _wanted(self, path: Path, time: float) -> set[str]:
        return {topic_of(cell) for cell in cells_touched(*path.at(time), self.radius, self.level)}
