"""The links of the random searches: heavy tails, so that everything overtakes everything; loss and repetition."""

import random
from collections.abc import Sequence

from antecede.sim.faults import duplicating, losing
from antecede.sim.network import Network, PacketSwitched, Propagation, heavy_tailed
from antecede.sim.units import ticks


def rough_links(
    seed: int, *, loss: float, duplication: float, fifo: bool = False, propagation: Propagation | None = None
) -> Network:
    """100 u.t. a hop on average unless `propagation` says otherwise. `fifo`: a link does not reorder by itself."""
    tails = propagation or heavy_tailed(random.Random(f"{seed}/network"), ticks(100), 1.3)
    network: Network = PacketSwitched(tails)
    if fifo:
        network = InOrder(network)
    if loss:
        network = losing(network, loss, random.Random(f"{seed}/loss"))
    if duplication:
        network = duplicating(network, duplication, random.Random(f"{seed}/duplication"), ticks(300))
    return network


class InOrder:
    """Links that do not reorder: a packet arrives after those sent before it on the same link."""

    def __init__(self, network: Network) -> None:
        self.weighs = network.weighs
        self._network = network
        self._last: dict[tuple[int, int], int] = {}

    def arrivals(self, now: int, sender: int, to: int, size: int) -> Sequence[int]:
        times = []
        for time in self._network.arrivals(now, sender, to, size):
            after_all = max(time, self._last.get((sender, to), 0) + 1)
            self._last[sender, to] = after_all
            times.append(after_all)
        return times
