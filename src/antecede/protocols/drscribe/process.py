"""DRScribe: Scribe whose joins go through subscribers where they can (Li & Gao, WAIM 2011; thesis 3.5.1.1).

In Scribe a JOIN goes to the next hop of the ring's route, and a node on the way that does not subscribe becomes a
*relay*. In DRScribe every node knows the subscriptions of its neighbours on the ring, as Bloom filters. Of the
neighbours that are further on the way to the root, a JOIN goes to one that subscribes. Only if there is none, it goes
to Scribe's next hop. Messages travel as in Scribe: along the ring to the root, and down the tree.

A filter is a hint. A wrong one costs a relay or a hop, never a message: each hop leads towards the root in any case.
A node that subscribes sends its filter to the nodes that have it as a neighbour. Topics cannot be taken out of a
filter, so a node that has given up a topic makes its filter anew some time later.

Assumed, since the thesis gives the idea and no algorithm:

* The ring is Pastry's, as for Scribe here, so that only the choice of the next hop differs; the thesis has Chord.
* Of several subscribers on the way, the furthest is chosen. If the root is among the node's leaves, the JOIN goes
  straight to it, since the root is in the tree anyway.
* Founders know their neighbours' filters when they join.
* A node keeps its parent until that is suspected; it does not move to a neighbour that subscribes later.
* The maintenance interval that depends on a node's level is not built: here failure detectors find dead parents.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Set
from functools import cached_property
from types import MappingProxyType
from typing import Final

from antecede.core import Packet, ProtocolError
from antecede.overlay.pastry import Pastry
from antecede.protocols.drscribe.filters import FilterShape
from antecede.protocols.drscribe.packets import Filter
from antecede.protocols.scribe.process import Founded, Scribe
from antecede.protocols.sizes import ByteModel

#: The timer after which a node makes its filter anew.
REFRESH: Final = "refresh"
EMPTY: Final[Mapping[int, int]] = MappingProxyType({})


class Neighbourhood:
    """The ring, and the filters that all nodes know of their neighbours when the run begins."""

    def __init__(self, ring: Pastry, shape: FilterShape, filters: Mapping[int, int]) -> None:
        self.ring = ring
        self.shape = shape
        self.filters = filters

    def hop(self, node: int, topic: str, news: Mapping[int, int] = EMPTY, down: Set[int] = frozenset()) -> int | None:
        """The node that `node` joins on `topic`; None if `node` is the root. `news` are filters that have changed."""
        key, wanted = self.ring.key_of(topic), self.shape.of([topic])
        for other in self.ring.ahead(node, key, down):
            filter_bits = news[other] if other in news else self.filters.get(other, 0)
            if filter_bits & wanted == wanted:
                return other
        return self.ring.next_hop(node, key, down)

    @cached_property
    def known_by(self) -> Mapping[int, list[int]]:
        """By node: the nodes that have it as a neighbour."""
        known_by: dict[int, list[int]] = defaultdict(list)
        for node in range(self.ring.nodes):
            for neighbour in self.ring.neighbours(node):
                known_by[neighbour].append(node)
        return known_by


class DRScribe(Scribe):
    """A node of a DRScribe system."""

    def __init__(
        self, node: int, near: Neighbourhood, sizes: ByteModel, founded: Mapping[str, Founded], refresh_us: int
    ) -> None:
        super().__init__(node, near.ring, sizes, founded)
        self._near = near
        self._refresh_us = refresh_us
        #: By neighbour, as far as it has changed since the run began.
        self._news: dict[int, int] = {}
        self._refreshing = False

    def subscribe(self, topic: str) -> None:
        if not self.takes(topic):
            self._tell_filter([topic], anew=False)
        super().subscribe(topic)

    def unsubscribe(self, topic: str) -> None:
        if self.takes(topic) and not self._refreshing:
            self._refreshing = True
            self.out.wake_after(self._refresh_us, REFRESH)
        super().unsubscribe(topic)

    def wake(self, timer: Hashable) -> None:
        if timer != REFRESH:
            raise ProtocolError(f"node {self.node} was woken for {timer!r}, which is none of DRScribe's timers")
        self._refreshing = False
        self._tell_filter([topic for topic, group in self._groups.items() if group.takes], anew=True)

    def receive(self, sender: int, packet: Packet) -> None:
        if not isinstance(packet, Filter):
            super().receive(sender, packet)
            return
        before = 0 if packet.anew else self._news.get(sender, self._near.filters.get(sender, 0))
        self._news[sender] = before | int.from_bytes(packet.bits, "big")

    def size(self, packet: Packet) -> int:
        return super().size(packet) + (len(packet.bits) if isinstance(packet, Filter) else 0)

    def _hop(self, topic: str) -> int | None:
        return self._near.hop(self.node, topic, self._news, self._down)

    def _tell_filter(self, topics: list[str], *, anew: bool) -> None:
        packet = Filter(self._near.shape.packed(self._near.shape.of(topics)), anew)
        for other in self._near.known_by[self.node]:
            self.out.send(other, packet)
