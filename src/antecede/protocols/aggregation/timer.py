"""Bundling with timers over VCube trees (thesis 3.4.5, Rodrigues et al. 2018), to compare with causal aggregation.

Each child has a buffer. The first message in a buffer starts a timer; the buffer is sent when the timer expires, or
when the next message would not fit. Unrelated messages can share a packet, at the price of a delay that must be tuned
to the load. Delivery goes through the same gate as in causal aggregation, so the two differ in bundling only. The
original's acknowledgement wave is left out, since links here lose nothing (thesis 4.2).
"""

from collections.abc import Hashable
from typing import NamedTuple

from antecede.core import Message, Verdict
from antecede.overlay.trees import Trees
from antecede.protocols.aggregation.broadcast import CausalBroadcast
from antecede.protocols.aggregation.packets import Bundle
from antecede.protocols.sizes import ByteModel


class _BufferTimer(NamedTuple):
    hop: int
    begun: int


class TimerBundling(CausalBroadcast):
    """`CausalBroadcast` whose packets wait up to `wait_us` for further messages."""

    def __init__(self, node: int, trees: Trees, sizes: ByteModel, *, wait_us: int) -> None:
        super().__init__(node, trees, sizes)
        self._wait_us = wait_us
        self._buffers: dict[int, list[Message]] = {}
        # By child: how many buffers were begun. The timer of a buffer that has been sent is stale.
        self._begun: dict[int, int] = {}

    def wake(self, timer: Hashable) -> None:
        assert isinstance(timer, _BufferTimer)
        if self._begun[timer.hop] == timer.begun:
            self._flush(timer.hop)

    def _send_own(self, message: Message) -> None:
        for hop in self._trees.next_hops(self.node, self.node, None):
            self._put(hop, message)

    def _pass_on(self, sender: int, message: Message, packet: Bundle, verdict: Verdict) -> None:
        for hop in self._trees.next_hops(self.node, message.source, sender):
            self._put(hop, message)

    def _put(self, hop: int, message: Message) -> None:
        buffer = self._buffers.setdefault(hop, [])
        if buffer and self._sizes.packet([*buffer, message]) > self._sizes.mtu:
            self._flush(hop)
            buffer = self._buffers.setdefault(hop, [])
        if not buffer:
            self._begun[hop] = self._begun.get(hop, 0) + 1
            self.out.wake_after(self._wait_us, _BufferTimer(hop, self._begun[hop]))
        buffer.append(message)

    def _flush(self, hop: int) -> None:
        messages = self._buffers.pop(hop, None)
        if messages:
            self.out.send(hop, Bundle(tuple(messages)))
