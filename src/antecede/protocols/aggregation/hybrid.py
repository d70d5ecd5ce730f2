"""Causal aggregation, and timers at the nodes where it bundles little (thesis 6.2.2.2): a hybrid of the two.

Causal aggregation bundles only what arrives out of causal order. Where that is rare, its packets carry one message
each, and a timer could bundle unrelated ones, at the cost of latency. The thesis leaves open which nodes use timers.
Our rule: a node counts, among the last `RECENT` packets that aggregation would send, those with several messages. While
their share is below `few`, packets wait in a buffer for each child, with an adaptive wait (`timer`). Otherwise they
leave at once, together with what waits for the same child.

Buffers keep the order in which messages leave for a child, which the clocks of causal aggregation rely on.
"""

from collections import deque
from collections.abc import Hashable

from antecede.core import Message, Verdict
from antecede.overlay.trees import Trees
from antecede.protocols.aggregation.packets import Bundle
from antecede.protocols.aggregation.process import CausalAggregation
from antecede.protocols.aggregation.timer import Buffers
from antecede.protocols.sizes import ByteModel

#: How many packets a node looks back at.
RECENT = 32


class HybridBundling(CausalAggregation):
    """`CausalAggregation` whose packets wait for others where few of them are bundles."""

    def __init__(self, node: int, trees: Trees, sizes: ByteModel, *, wait_us: int, few: float) -> None:
        super().__init__(node, trees, sizes)
        self.shares_outbox = False
        self._buffers = Buffers(sizes, wait_us, adaptive=True)
        self._few = few
        self._recent: deque[bool] = deque(maxlen=RECENT)

    def wake(self, timer: Hashable) -> None:
        self._buffers.wake(self.out, timer)

    def _send_own(self, message: Message) -> None:
        before = len(self.out.sends)
        super()._send_own(message)
        self._collect(before)

    def _pass_on(self, sender: int, message: Message, packet: Bundle, verdict: Verdict) -> None:
        before = len(self.out.sends)
        super()._pass_on(sender, message, packet, verdict)
        self._collect(before)

    def _collect(self, before: int) -> None:
        """Put what aggregation would send now into the buffers, if packets wait here."""
        leaving = self.out.sends[before:]
        if not leaving:
            return
        del self.out.sends[before:]
        for hop, packet in leaving:
            self._recent.append(len(packet.messages) > 1)
            waits = sum(self._recent) < self._few * len(self._recent)
            if not waits and hop not in self._buffers:
                self.out.send(hop, packet)
                continue
            for message in packet.messages:
                self._buffers.put(self.out, hop, message)
            if not waits:
                self._buffers.flush(self.out, hop)
