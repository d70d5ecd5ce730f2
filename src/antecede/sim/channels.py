"""Links of two sorts, and ways over several of them (MIDLAB 9/2011, 6.1).

Of all links a share is slow: long distances. Which ones is drawn once, for both directions. How long a packet takes is
normal about the mean of its link's sort, drawn for every packet or once for the link; the paper does not say which.

The paper's nodes talk to each other over Pastry: whom a node has in its tables it reaches over one link, others over
those. Scribe's trees are made of such links, so they are crossed one at a time in either direction; a timestamp's way
from manager to manager is a route. Nodes in between pass packets on at once.
"""

import random
from typing import NamedTuple

from antecede.overlay.pastry import Pastry
from antecede.sim.network import Propagation


class Gaussian(NamedTuple):
    """Times of one sort of link, in ticks."""

    mean: int
    deviation: int
    least: int

    def draw(self, rng: random.Random) -> int:
        return max(self.least, int(rng.gauss(self.mean, self.deviation)))


def fast_and_slow(seed: str, fast: Gaussian, slow: Gaussian, *, slow_share: float, fixed: bool) -> Propagation:
    """`fixed`: a link always takes the time it took first."""
    packets = random.Random(seed)
    sorts: dict[tuple[int, int], Gaussian] = {}
    times: dict[tuple[int, int], int] = {}

    def take(sender: int, to: int) -> int:
        link = (sender, to) if sender < to else (to, sender)
        sort = sorts.get(link)
        if sort is None:
            rng = random.Random(f"{seed}/{link}")
            sort = sorts[link] = slow if rng.random() < slow_share else fast
            times[link] = sort.draw(rng)
        return times[link] if fixed else sort.draw(packets)

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
