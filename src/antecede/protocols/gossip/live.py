"""Gossip as the protocol of a node: the broker the simulator runs (gossip-context), with every node a broker.

The domain is one group, so a message names its immediate predecessors in the domain. Clients are the subscribers; the
predecessors of what a client publishes are kept by the same `core.clocks.Frontier`. Rounds never rest. VCube's
diagnosis runs below and tells which nodes are down.
"""

from collections.abc import Sequence
from typing import Final

from antecede.core.clocks import DomainFrontier
from antecede.protocols.gossip.broker import Broker
from antecede.protocols.gossip.config import GossipConfig
from antecede.protocols.gossip.groups import groups_of
from antecede.protocols.gossip.packets import BROKER_PACKETS
from antecede.protocols.gossip.records import KEPT, Delivered, Kept, Published, Reached
from antecede.protocols.live import LiveProtocol, LiveSettings

#: How long a node waits for a message before it goes on without it. It asks all the while, so no node has it then.
_PATIENCE_US: Final = 120_000_000

#: Messages a restarted node still has for others, and a running one has at hand.
_MESSAGES: Final = 16_384


class LiveGossip(Broker):
    """A broker that leaves only after its own messages have been told, and compacts what it kept."""

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
            store_max=_MESSAGES,
            durable=True,
        )
        super().__init__(node, settings.slots, config, settings.rng, DomainFrontier(node, groups_of))
        self._leaving: set[str] = set()

    def unsubscribe(self, topic: str) -> None:
        """Leave once what was published here has been told for as long as news is told."""
        self._leaving.add(topic)

    def _begin_round(self) -> None:
        if self._leaving and not any(rumour.message.source == self.node for rumour in self.store.young):
            for topic in sorted(self._leaving):
                super().unsubscribe(topic)
            self._leaving.clear()

    def compact(self, records: Sequence[object]) -> list[object]:
        """Of old messages only how far they led is kept."""
        kept = list(records)
        messages = [index for index, record in enumerate(kept) if isinstance(record, Published | Delivered)]
        if len(messages) <= 2 * _MESSAGES:
            return kept
        cut = messages[-_MESSAGES]
        before = [record for record in kept[:cut] if isinstance(record, Kept)]
        self.restore(before)
        levels = tuple([(*stream, level) for stream, level in self.order.levels().items()])
        changes = [record for record in before if not isinstance(record, Published | Delivered | Reached)]
        return [*changes, Reached(levels, self.clock.entries(), self.time), *kept[cut:]]

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
