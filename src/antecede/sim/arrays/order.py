"""Causal order without a gate: all arrivals are known, so the time of a delivery is a maximum.

A node delivers a message in the event in which the last of these has come: the message, its source's message before it,
and its dependencies, each of them in turn delivered. Row by row over messages in the order they were stamped

    delivered[m] = max(came[m], delivered[previous of the source], delivered[d] for each dependency d)

for all nodes at once. A message depends on what its publisher has delivered since its own last stamp: the last message
of each source (`core.clocks.UnprunedFrontier`); with pruned barriers, without those that another one depends on
(`Frontier`). All of these were stamped earlier, so their rows exist.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from antecede.sim.arrays.flow import Stamped
from antecede.sim.arrays.queues import Ints


class Order:
    """When each message is delivered where, and what it depends on."""

    def __init__(self, messages: Sequence[Stamped], came: NDArray[np.int32], *, prune: bool) -> None:
        #: By message and node: the event in which it is delivered.
        self.delivered = came.copy()
        #: By message: the numbers of the messages it depends on.
        self.dependencies: list[Ints] = []
        self._prune = prune
        self._source: Ints = np.array([message.source for message in messages], np.int64)
        # For the current message: by source, its last message delivered; by message, is it covered?
        self._last_of: Ints = np.zeros(came.shape[1], np.int64)
        self._covered = np.zeros(len(messages), np.bool_)
        previous: dict[int, int] = {}
        for number, message in enumerate(messages):
            before = previous.get(message.source)
            since = 0 if before is None else messages[before].event
            dependencies = self._frontier(number, message.source, since, message.event)
            self.dependencies.append(dependencies)
            self._wait(number, dependencies.tolist() if before is None else [before, *dependencies.tolist()])
            previous[message.source] = number

    def _wait(self, number: int, needs: Sequence[int]) -> None:
        row = self.delivered[number]
        for need in needs:
            np.maximum(row, self.delivered[need], out=row)

    def _frontier(self, number: int, node: int, since: int, until: int) -> Ints:
        """What `node` delivered after event `since` and before `until`, as a barrier."""
        events = self.delivered[:number, node]
        heard: Ints = np.flatnonzero((events > since) & (events < until))
        sources = self._source[heard]
        self._last_of[sources] = heard  # of several of one source, the last is written last
        ahead: NDArray[np.bool_] = self._last_of[sources] == heard
        if self._prune and len(heard):
            covered = np.concatenate([self.dependencies[message] for message in heard.tolist()])
            self._covered[covered] = True
            ahead &= ~self._covered[heard]
            self._covered[covered] = False
        return heard[ahead]
