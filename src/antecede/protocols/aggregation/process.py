"""Causal aggregation broadcast (thesis chapter 4, Algorithm 2; ICPP'18): bundling without timers.

A node keeps a message back from a child as long as it knows the child could not deliver it: as long as a predecessor
is missing here that this very node will have to pass on to that child. When the predecessor comes, they travel in one
packet. Nothing is lost by the delay; the message would have waited at the child anyway.

How the printed algorithm is carried out here. CHECKAGG(k, m) rescans everything pending whenever a message m arrives.
What it finds is exactly what had been waiting, on the edge to k, for the counter `vector_max[m.s]` that m has just
moved, since whatever was not waiting had been sent before. So an edge is a set of waiters on counters of what was
*received*, as the delivery gate is a set of waiters on counters of what was *delivered*: one idea, used twice
(`core.gate.Counters`), at a cost proportional to a message's own clock.

Clocks are delta-compressed (`core.clocks.VectorClock`) and never decoded. An entry left out of m's clock was in an
earlier message of the same source; so it is enough that m leaves for a child only after its source's previous message
has, which had waited for that entry.

Messages keep the order of their arrival inside a packet. Sorted causally, every bundle would split at the next hop.
"""

from collections.abc import Sequence

from antecede.core import Counters, Dependency, Message, Verdict
from antecede.core.gate import READY, Need
from antecede.overlay.trees import Trees
from antecede.protocols.aggregation.broadcast import CausalBroadcast
from antecede.protocols.aggregation.packets import Bundle
from antecede.protocols.sizes import ByteModel

#: A message on an edge: the child it is meant for, its place in the order of arrival, itself.
_OnEdge = tuple[int, int, Message]


class CausalAggregation(CausalBroadcast):
    """`CausalBroadcast` that bundles causally related messages on the edges they share."""

    def __init__(self, node: int, trees: Trees, sizes: ByteModel) -> None:
        super().__init__(node, trees, sizes)
        # Streams: a source, at the number of its messages received here without a hole (`vector_max`);
        # and (child, source), at the number of that source's messages passed on to that child. The latter is kept up
        # to date only while one of them is kept back: nobody else asks.
        self._edges: Counters[_OnEdge] = Counters()
        # By source, then child: the numbers of the messages kept back, while there are any.
        self._kept: dict[int, dict[int, set[int]]] = {}
        self._arrivals = 0

    def _send_own(self, message: Message) -> None:
        super()._send_own(message)
        if not self._trees.returns(self.node):
            self._edges.raise_to(self.node, message.seq)

    def _pass_on(self, sender: int, message: Message, packet: Bundle, verdict: Verdict) -> None:
        self._arrivals += 1
        source, seq = message.source, message.seq
        received = self._edges.level.get
        missing: Sequence[Dependency] = ()
        after_a_hole = False
        if verdict is not READY:  # else this node delivered, hence received, all that the message depends on
            missing = [entry for entry in message.deps if received(entry[0], 0) < entry[1]]
            after_a_hole = seq > received(source, 0) + 1
        leaving = self._edges.add(source, seq)
        hops = self._trees.next_hops(self.node, source, sender)
        if not hops:
            return
        kept = self._kept.get(source)
        free = hops
        if missing or kept or after_a_hole:
            free = ()
            for hop in hops:
                needs: list[Need] = [entry for entry in missing if self._trees.carries(self.node, hop, entry[0])]
                if after_a_hole or (kept and seq - 1 in kept.get(hop, ())):
                    needs.insert(0, ((hop, source), seq - 1))
                if needs:
                    self._kept.setdefault(source, {}).setdefault(hop, set()).add(seq)
                    self._edges.wait((hop, self._arrivals, message), needs)
                else:
                    leaving.append((hop, self._arrivals, message))
        if leaving:
            self._send_bundled(hops, leaving + [(hop, self._arrivals, message) for hop in free])
        else:
            alone = packet if len(packet.messages) == 1 else Bundle((message,))
            send = self.out.send
            for hop in free:
                send(hop, alone)

    def _send_bundled(self, hops: tuple[int, ...], leaving: list[_OnEdge]) -> None:
        """Send what may leave for `hops`, and what waited only for that: a bundle each, more when it gets too big."""
        by_hop: dict[int, list[tuple[int, Message]]] = {}
        for hop, arrival, message in leaving:  # grows while we walk it
            by_hop.setdefault(hop, []).append((arrival, message))
            kept = self._kept.get(message.source)
            if kept and hop in kept:
                kept[hop].discard(message.seq)
                leaving.extend(self._edges.raise_to((hop, message.source), message.seq))
                if not kept[hop]:
                    del kept[hop]
                if not kept:
                    del self._kept[message.source]
        for hop in hops:
            if hop in by_hop:
                in_order = [message for _, message in sorted(by_hop[hop], key=_arrival)]
                for messages in self._sizes.split(in_order):
                    self.out.send(hop, Bundle(messages))


def _arrival(kept: tuple[int, Message]) -> int:
    return kept[0]
