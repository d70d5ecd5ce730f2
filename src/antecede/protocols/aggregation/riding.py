"""Causal aggregation with messages that ride along (thesis 6.2.2.2): unrelated messages share a bundle, without timers.

While a message is kept back from a child, a packet will leave for that child: when the predecessor comes. Until then
every other message for the same child waits as well, and leaves in that packet. So bundles grow, and messages that have
nothing to do with the one that waits come later. Plain aggregation delays only messages that their receiver could not
deliver.

One kind of message never rides: one that a message on the same edge waits for. Were it to wait for the packet that its
own departure releases, both would wait for ever.

*No deadlock.* The dimension of an edge is the highest bit in which the numbers of its ends differ. On every path down a
VCube tree dimensions fall. A message that rides on an edge of dimension c waits for one that is kept back there. That
one waits for a predecessor that will take the same edge, and so comes over an edge of a higher dimension. Waiting
always points to a higher dimension, and on the highest nothing is kept back: only publishers send on it. On one tree
for all, the way to the root comes first, and nothing waits there.
"""

from collections.abc import Sequence

from antecede.core import Message
from antecede.overlay.trees import Trees
from antecede.protocols.aggregation.packets import Bundle
from antecede.protocols.aggregation.process import BITS, CHILD, CausalAggregation, OnEdge
from antecede.protocols.sizes import ByteModel


class RidingAlong(CausalAggregation):
    """`CausalAggregation` in which messages for a child wait while another one is kept back from that child."""

    def __init__(self, node: int, trees: Trees, sizes: ByteModel) -> None:
        super().__init__(node, trees, sizes)
        # By child: messages that leave with the next packet. None are there unless a message is kept back from it.
        self._riders: dict[int, list[OnEdge]] = {}

    @property
    def riding(self) -> int:
        """Messages that wait for the next packet, one for each child."""
        return sum(len(riders) for riders in self._riders.values())

    def _send_own(self, message: Message) -> None:
        self._arrivals += 1
        packet = Bundle((message,))
        for hop in self._trees.next_hops(self.node, self.node, None):
            if self._keeps_back(hop):
                self._riders.setdefault(hop, []).append((hop, self._arrivals, message, ()))
            else:
                self.out.send(hop, packet)
        self._count_own(message)

    def _depart(
        self, hops: tuple[int, ...], leaving: list[OnEdge], free: Sequence[int], message: Message, packet: Bundle
    ) -> None:
        departing = {hop for hop, _, _, _ in leaving}
        at_once = []
        for hop in free:
            if hop in departing or not self._keeps_back(hop) or self._is_awaited(hop, message):
                at_once.append(hop)
            else:
                self._riders.setdefault(hop, []).append((hop, self._arrivals, message, ()))
        departing.update(at_once)
        for hop in hops:
            if hop in departing and hop in self._riders:
                leaving += self._riders.pop(hop)
        super()._depart(hops, leaving, at_once, message, packet)

    def _keeps_back(self, hop: int) -> bool:
        """Is a message kept back from `hop`?"""
        return any(name & CHILD == hop for kept in self._kept.values() for name in kept)

    def _is_awaited(self, hop: int, message: Message) -> bool:
        """Does a later message of the same source wait, on the edge to `hop`, for this one to leave?"""
        kept = self._kept.get(message.source, ())
        return any(name & CHILD == hop and name >> BITS > message.seq for name in kept)
