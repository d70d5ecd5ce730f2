"""Options of causal broadcast over FIFO links."""

from typing import Annotated

from msgspec import Meta

from antecede.core import UsageError
from antecede.core.rng import MakeRng, Rng
from antecede.protocols.options import PROMISES, TICKS, Founders, MakeProcess, RngOptions, taken_by
from antecede.protocols.safe_links.forgetting import ForgettingLinks
from antecede.protocols.safe_links.process import Changes, SafeLinks, UnsafeLinks


class SafeLinksOptions(RngOptions, frozen=True, kw_only=True):
    """A ring in both directions, and links to nodes drawn at random."""

    #: Links of a node beside those of the ring.
    links: Annotated[int, Meta(ge=0, le=64)] = 2
    #: How often a node replaces one of them, and about every how many units of time.
    changes: Annotated[int, Meta(ge=0)] = 0
    every: Annotated[float, Meta(gt=0)] = 200.0
    #: Use a new link only when it is safe; otherwise at once, as without Nédelec et al.
    ping: bool = True
    #: Forget a message once every link into the node has brought a copy (Nédelec et al. 2018b).
    forget: bool = False

    @property
    def across_topics(self) -> bool:
        return True

    @property
    def promises(self) -> tuple[str, ...]:
        if self.ping or not self.changes:
            return PROMISES
        return tuple([rule for rule in PROMISES if rule not in ("causal", "fifo")])

    def build_with_rng(self, nodes: int, founders: Founders, rng: MakeRng) -> MakeProcess:
        if self.forget and not self.ping:
            raise UsageError("forget", self.forget, "needs links that are safe", "leave ping at true")
        taken = taken_by(founders)
        every_us = round(self.every * TICKS)
        incoming: dict[int, set[int]] = {node: set() for node in range(nodes)}
        if self.forget:
            for node in range(nodes):
                for link in self._links(node, nodes, rng(node))[0]:
                    incoming[link].add(node)

        def make(node: int) -> SafeLinks:
            drawn = rng(node)
            links, ring = self._links(node, nodes, drawn)
            change = Changes(ring=ring, times=self.changes if nodes > ring + 1 else 0, every_us=every_us)
            topics = taken.get(node, frozenset())
            if self.forget:
                return ForgettingLinks(node, topics, drawn, links, change, incoming[node], nodes)
            return (SafeLinks if self.ping else UnsafeLinks)(node, topics, drawn, links, change)

        return make

    def _links(self, node: int, nodes: int, rng: Rng) -> tuple[list[int], int]:
        """The nodes to which `node` sends at first, those of the ring in front, and how many these are."""
        ring = sorted({(node - 1) % nodes, (node + 1) % nodes} - {node})
        others = sorted(set(range(nodes)) - {node, *ring})
        return [*ring, *rng.sample(others, min(self.links, len(others)))], len(ring)
