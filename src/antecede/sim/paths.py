"""Where moving nodes are: random waypoints in a square of side 1.

A position follows from the number of the paths, the node and the time alone. So a workload, a network and an observer
of the same run agree on it without telling each other.
"""

import math
import random


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
