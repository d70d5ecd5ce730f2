"""Options of causal broadcast over FIFO links."""

from typing import Annotated

from msgspec import Meta

from antecede.core.rng import MakeRng
from antecede.protocols.options import PROMISES, TICKS, Founders, MakeProcess, RngOptions, taken_by
from antecede.protocols.safe_links.process import SafeLinks, UnsafeLinks


class SafeLinksOptions(RngOptions, frozen=True, kw_only=True):
    """A ring in both directions, and links to nodes drawn at random."""

    #: Links of a node beside those of the ring.
    links: Annotated[int, Meta(ge=0, le=64)] = 2
    #: How often a node replaces one of them, and about every how many units of time.
    changes: Annotated[int, Meta(ge=0)] = 0
    every: Annotated[float, Meta(gt=0)] = 200.0
    #: Use a new link only when it is safe; otherwise at once, as without Nédelec et al.
    ping: bool = True

    @property
    def across_topics(self) -> bool:
        return True

    @property
    def promises(self) -> tuple[str, ...]:
        if self.ping or not self.changes:
            return PROMISES
        return tuple([rule for rule in PROMISES if rule not in ("causal", "fifo")])

    def build_with_rng(self, nodes: int, founders: Founders, rng: MakeRng) -> MakeProcess:
        taken = taken_by(founders)
        kind = SafeLinks if self.ping else UnsafeLinks

        def make(node: int) -> SafeLinks:
            drawn = rng(node)
            ring = sorted({(node - 1) % nodes, (node + 1) % nodes} - {node})
            others = sorted(set(range(nodes)) - {node, *ring})
            links = [*ring, *drawn.sample(others, min(self.links, len(others)))]
            every_us = round(self.every * TICKS)
            changes = self.changes if others else 0
            topics = taken.get(node, frozenset())
            return kind(node, topics, drawn, links, ring=len(ring), changes=changes, every_us=every_us)

        return make
