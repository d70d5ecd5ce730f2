"""Gossip as the protocol of a node: the broker the simulator runs (gossip-context), with every node a broker.

The domain is one group, so what a message names is the immediate predecessors on it; thin clients are the subscribers,
whose own short list of predecessors is kept by the same `core.clocks.Frontier` (`live.client.bus`). Rounds never rest.
VCube's diagnosis runs below and says who is down.
"""

import logging
import random
from collections.abc import Hashable, Iterable
from typing import Final

from antecede.core.clocks import DomainFrontier
from antecede.node.config import NodeConfig
from antecede.protocols.diagnosis.records import Life
from antecede.protocols.gossip import Broker, GossipConfig, groups_of
from antecede.protocols.gossip.records import Delivered, Kept, Published, Reached

log = logging.getLogger("antecede.node")

#: How long something is waited for before a node goes on without it. Nobody has it then: it was asked for all the time.
_PATIENCE_S: Final = 120.0

#: Messages a restarted node still has for others, and a running one has at hand.
_MESSAGES: Final = 16_384


class GossipProcess(Broker):
    """What a node asks of its protocol, beside the protocol."""

    def __init__(self, node: int, config: NodeConfig) -> None:
        young = config.slots.bit_length() + 4
        habits = GossipConfig(
            round_us=int(config.gossip_round_s * 1_000_000),
            fanout=config.fanout,
            view=max(16, 2 * config.fanout),
            young=young,
            retain=0,
            patience=max(young, int(_PATIENCE_S / config.gossip_round_s)),
            rest=0,
            store_max=_MESSAGES,
            durable=True,
        )
        super().__init__(node, config.slots, habits, random.Random(), DomainFrontier(node, groups_of))
        self._leaving: set[str] = set()
        self._gone_without = 0

    def wake(self, timer: Hashable) -> None:
        super().wake(timer)
        without = self.order.given_up + self.order.late
        if without > self._gone_without:
            self._gone_without = without
            log.error(
                "node %d: so far it went on %d times without a message that nobody has, or refused one that came after",
                self.node,
                without,
            )

    def unsubscribe(self, topic: str) -> None:
        """Leave once what was published here has been told for as long as news is told."""
        self._leaving.add(topic)

    def _begin_round(self) -> None:
        if self._leaving and not any(rumour.message.source == self.node for rumour in self.store.young):
            for topic in sorted(self._leaving):
                super().unsubscribe(topic)
            self._leaving.clear()

    # -- what a node asks ---------------------------------------------------------------------------------------------

    def delivered(self, topic: str) -> dict[int, int]:
        """By source: how far this node is."""
        return {source: seq for (name, source), seq in self.order.levels().items() if name == topic}

    def members(self, topic: str) -> frozenset[int]:
        return frozenset((self.node, *self.views.of(topic)))

    def children(self, topic: str) -> tuple[int, ...]:
        """Those it may tell."""
        return self.views.of(topic)

    @property
    def down(self) -> frozenset[int]:
        return frozenset(self.views.down)


def compact(records: Iterable[object], node: int, config: NodeConfig) -> list[object]:
    """Fewer records that restore the same node: of old messages only how far they led."""
    kept = list(records)
    messages = [place for place, record in enumerate(kept) if isinstance(record, Published | Delivered)]
    if len(messages) <= 2 * _MESSAGES:
        return kept
    cut = messages[-_MESSAGES]
    before = [record for record in kept[:cut] if isinstance(record, Kept)]
    process = GossipProcess(max(node, 0), config)
    process.restore(before)
    levels = tuple([(*stream, level) for stream, level in process.order.levels().items()])
    lives = [record for record in kept if isinstance(record, Life)][-1:]
    changes = [record for record in before if not isinstance(record, Published | Delivered | Reached)]
    later = [record for record in kept[cut:] if not isinstance(record, Life)]
    return [*lives, *changes, Reached(levels, process.clock.entries(), process.time), *later]
