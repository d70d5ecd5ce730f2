"""Nodes that move about a square and publish where they are (thesis 6.2.2.3).

Each node goes in a straight line to a point drawn at random, then to the next: random waypoints. Topics are the cells
of one level (`core.areas`). A node takes the cells that a disc around it touches. Every `step` it subscribes to those
that it has come near, and leaves those behind it. Level 0 is one topic for all, which every node takes.
"""

import random
from functools import partial
from typing import Annotated

from msgspec import Meta

from antecede.core.areas import cell_of, cells_touched, topic_of
from antecede.sim.engine import Simulation
from antecede.sim.paths import Path
from antecede.sim.units import ticks
from antecede.sim.workload import Count, Members, NotNegative, Positive, WorkloadChoice


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
