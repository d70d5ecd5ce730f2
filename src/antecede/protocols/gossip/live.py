"""Gossip as the protocol of a node: the broker the simulator runs (gossip-context), with every node a broker.

The domain is one group, so a message names its immediate predecessors in the domain. Clients are the subscribers; the
predecessors of what a client publishes are kept by the same `core.clocks.Frontier`. Rounds never rest. VCube's
diagnosis runs below and tells which nodes are down.
"""

from typing import Final

from antecede.core.clocks import DomainFrontier
from antecede.protocols.gossip.broker import Broker
from antecede.protocols.gossip.config import GossipConfig
from antecede.protocols.gossip.groups import groups_of
from antecede.protocols.gossip.packets import BROKER_PACKETS
from antecede.protocols.gossip.records import KEPT
from antecede.protocols.live import LiveProtocol, LiveSettings

#: How long a node waits before it goes on without a message that no node has. With a journal it waits so long for nodes
#: that are down, and does not go on before another node said that it had the message and removed it.
_PATIENCE_US: Final = 120_000_000


class LiveGossip(Broker):
    """A broker that leaves only after its own messages have been told, and tells readers of gaps."""

    def __init__(self, node: int, settings: LiveSettings) -> None:
        young = settings.slots.bit_length() + 4
        config = GossipConfig(
            round_us=settings.gossip_round_us,
            fanout=settings.fanout,
            view=max(16, 2 * settings.fanout),
            young=young,
            retain=0,
            patience=max(young, _PATIENCE_US // settings.gossip_round_us),
            rest=0,
            # Messages it has in memory for others; older ones are in the journal.
            store_max=4 * settings.window,
            durable=True,
        )
        clock = DomainFrontier(node, groups_of)
        super().__init__(node, settings.slots, config, settings.rng, clock, logged=settings.logged)
        self._leaving: set[str] = set()

    def unsubscribe(self, topic: str) -> None:
        """Leave once what was published here has been told for as long as news is told."""
        self._leaving.add(topic)

    def _begin_round(self) -> None:
        if self._leaving and not any(rumour.message.source == self.node for rumour in self.store.young):
            for topic in sorted(self._leaving):
                super().unsubscribe(topic)
            self._leaving.clear()

    def tell_gap(self) -> None:
        """The node's readers get a `GapError`: it leaves its topics and takes them again."""
        for topic in sorted(self.takes_groups):
            self.out.left(topic)
            self.out.joined(topic)

    # -- questions ----------------------------------------------------------------------------------------------------

    def delivered(self, topic: str) -> dict[int, int]:
        return {source: seq for (name, source), seq in self.order.levels().items() if name == topic}

    def members(self, topic: str) -> frozenset[int]:
        return frozenset((self.node, *self.views.of(topic)))

    def children(self, topic: str) -> tuple[int, ...]:
        """The nodes it may tell."""
        return self.views.of(topic)

    @property
    def down(self) -> frozenset[int]:
        return frozenset(self.views.down)


GOSSIP: Final = LiveProtocol("gossip", BROKER_PACKETS, KEPT, LiveGossip)
