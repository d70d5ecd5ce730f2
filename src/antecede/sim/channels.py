"""Links of two kinds, and routes over several of them (MIDLAB 9/2011, 6.1).

A share of the links is slow: long distances. Which ones is drawn once, for both directions. A packet's time is normal
about the mean of its link's kind. It is drawn for every packet or once for the link; the paper does not say which.

The paper's nodes talk to each other over Pastry: a node reaches the nodes in its tables over one link, others over
several. Scribe's trees consist of such links, which are crossed one at a time in either direction. A timestamp's way
from manager to manager is a route. Nodes in between forward packets at once.
"""

import random
from typing import NamedTuple

from antecede.overlay.pastry import Pastry
from antecede.sim.network import Propagation


class Gaussian(NamedTuple):
    """Times of one kind of link, in ticks."""

    mean: int
    deviation: int
    least: int

    def draw(self, rng: random.Random) -> int:
        return max(self.least, int(rng.gauss(self.mean, self.deviation)))


def fast_and_slow(seed: str, fast: Gaussian, slow: Gaussian, *, slow_share: float, fixed: bool) -> Propagation:
    """`fixed`: a link always takes the time of its first packet."""
    packets = random.Random(seed)
    kinds: dict[tuple[int, int], Gaussian] = {}
    times: dict[tuple[int, int], int] = {}

    def take(sender: int, to: int) -> int:
        link = (sender, to) if sender < to else (to, sender)
        kind = kinds.get(link)
        if kind is None:
            rng = random.Random(f"{seed}/{link}")
            kind = kinds[link] = slow if rng.random() < slow_share else fast
            times[link] = kind.draw(rng)
        return times[link] if fixed else kind.draw(packets)

    return take


def over_pastry(ring: Pastry, link: Propagation) -> Propagation:
    """The links of Pastry's route, one after the other; one link where either end has the other in its tables."""
    routes: dict[tuple[int, int], tuple[int, ...]] = {}

    def take(sender: int, to: int) -> int:
        route = routes.get((sender, to))
        if route is None:
            route = ring.route(sender, to)
            if len(route) > 1 and len(ring.route(to, sender)) == 1:
                route = (to,)
            routes[sender, to] = route
        time, here = 0, sender
        for hop in route:
            time += link(here, hop)
            here = hop
        return time

    return take
