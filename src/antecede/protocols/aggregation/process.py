"""Causal aggregation broadcast (thesis chapter 4, Algorithm 2; ICPP'18): bundling without timers.

A node keeps a message back from a child while it knows that the child could not deliver it: a predecessor is missing
here, and this node will forward that predecessor to the child. When the predecessor arrives, both travel in one packet.
The delay costs nothing, since the message would have waited at the child.

Printed rule: CHECKAGG(k, m) rescans all pending messages whenever a message m arrives. It finds exactly the messages
that waited, on the edge to k, for the counter `vector_max[m.s]` that m has just raised; all others were sent before. So
here an edge is a set of messages that wait on counters of *received* messages, as in the gate messages wait on counters
of *delivered* ones (`core.source_gate.SourceCounters`). A message costs time in proportion to its own clock.

Printed rule: Algorithm 2 calls CHECKAGG (lines 19–22) inside the loop that advances `vector_max` → with several
messages from a source, copies are sent twice → the loop ends first, then each child is checked once.

Clocks are delta-compressed (`core.clocks.VectorClock`) and never decoded. An entry left out of m's clock was in an
earlier message of the same source. It suffices that m leaves for a child after its source's previous message, which had
waited for that entry.

Messages keep their order of arrival inside a packet. Sorted causally, every bundle would split at the next hop.
"""

from collections.abc import Sequence
from typing import Final

from antecede.core import Dependency, Message, Verdict
from antecede.core.gate import READY
from antecede.core.limits import CUBE_DIMENSION_MAX
from antecede.core.source_gate import Needs, SourceCounters
from antecede.overlay.trees import Trees
from antecede.protocols.aggregation.broadcast import CausalBroadcast
from antecede.protocols.aggregation.packets import Bundle
from antecede.protocols.sizes import ByteModel

#: A message on an edge: (the child it is for, its number in the order of arrival, the message, what it waits for).
OnEdge = tuple[int, int, Message, Needs]

#: A sequence number and a child make one number: `seq << BITS | child`.
BITS: Final = CUBE_DIMENSION_MAX
CHILD: Final = (1 << BITS) - 1


class CausalAggregation(CausalBroadcast):
    """`CausalBroadcast` that bundles causally related messages on the edges they share."""

    def __init__(self, node: int, trees: Trees, sizes: ByteModel) -> None:
        super().__init__(node, trees, sizes)
        # By source: its messages received here without a hole (`vector_max`), and the messages that wait for more.
        self._received: SourceCounters[OnEdge] = SourceCounters()
        # By source: the messages kept back, as `seq << BITS | child`.
        self._kept: dict[int, set[int]] = {}
        # By source, sequence number and child: the messages that wait until that message leaves for that child.
        self._behind: dict[tuple[int, int], list[OnEdge]] = {}
        self._arrivals = 0

    def _send_own(self, message: Message) -> None:
        super()._send_own(message)
        self._count_own(message)

    def _count_own(self, message: Message) -> None:
        """This node has its own message, unless that goes to the root first and comes back from there."""
        if not self._trees.returns(self.node):
            self._received.add(self.node, message.seq, [])

    def _pass_on(self, sender: int, message: Message, packet: Bundle, verdict: Verdict) -> None:
        self._arrivals += 1
        source: int = message.source
        seq: int = message.seq
        received = self._received
        missing: Sequence[Dependency] = ()
        after_a_hole = False
        if verdict is not READY:  # if READY, this node delivered, hence received, all that the message depends on
            missing = received.unmet(message.deps)
            after_a_hole = seq > received.reached(source) + 1
        leaving: list[OnEdge] = []
        received.add(source, seq, leaving)
        hops = self._trees.next_hops(self.node, source, sender)
        if not hops:
            return
        kept = self._kept.get(source) if self._kept else None
        free: Sequence[int] = hops
        if missing or kept is not None or after_a_hole:
            unhindered: list[int] = []
            for hop in hops:
                needs = tuple([need for need in missing if self._trees.carries(self.node, hop, need[0])])
                before = seq - 1 << BITS | hop
                if after_a_hole or (kept is not None and before in kept):
                    self._keep_back(source, seq, hop)
                    self._behind.setdefault((source, before), []).append((hop, self._arrivals, message, needs))
                elif needs:
                    self._keep_back(source, seq, hop)
                    received.wait((hop, self._arrivals, message, needs), needs)
                else:
                    unhindered.append(hop)
            free = unhindered
        self._depart(hops, leaving, free, message, packet)

    def _keep_back(self, source: int, seq: int, hop: int) -> None:
        kept = self._kept.get(source)
        if kept is None:
            kept = self._kept[source] = set()
        kept.add(seq << BITS | hop)

    def _depart(
        self, hops: tuple[int, ...], leaving: list[OnEdge], free: Sequence[int], message: Message, packet: Bundle
    ) -> None:
        """Send `message` to the hops that are `free`, and `leaving`, the messages that waited for it."""
        if leaving or message.source in self._kept:
            self._send_bundled(hops, leaving + [(hop, self._arrivals, message, ()) for hop in free])
        else:
            alone = packet if len(packet.messages) == 1 else Bundle((message,))
            for hop in free:
                self.out.send(hop, alone)

    def _send_bundled(self, hops: tuple[int, ...], leaving: list[OnEdge]) -> None:
        """Send the messages that may leave for `hops`, and those that waited only for them, bundled by hop."""
        by_hop: dict[int, list[tuple[int, Message]]] = {}
        for hop, arrival, message, _ in leaving:  # grows during the loop
            by_hop.setdefault(hop, []).append((arrival, message))
            source: int = message.source
            kept = self._kept.get(source)
            if kept is not None:
                name = message.seq << BITS | hop
                kept.discard(name)
                if not kept:
                    del self._kept[source]
                elif self._behind:
                    for item in self._behind.pop((source, name), ()):
                        if self._received.wait(item, item[3]):
                            leaving.append(item)
        for hop in hops:
            if hop in by_hop:
                leave = by_hop[hop]
                if len(leave) > 1:
                    leave.sort(key=_arrival)
                in_order = [message for _, message in leave]
                for messages in self._sizes.split(in_order):
                    self.out.send(hop, Bundle(messages))


def _arrival(kept: tuple[int, Message]) -> int:
    return kept[0]
