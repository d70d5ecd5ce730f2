"""Bundling with timers over VCube trees (thesis 3.4.5, Rodrigues et al. 2018), to compare with causal aggregation.

Each child has a buffer. The first message in a buffer starts a timer; the buffer is sent when the timer expires, or
when the next message would not fit. Unrelated messages can share a packet, at the price of a delay that must be tuned
to the load. Delivery goes through the same gate as in causal aggregation, so the two differ in bundling only. The
original's acknowledgement wave is left out, since links here lose nothing (thesis 4.2).

An *adaptive* wait follows the load, for each child by itself (thesis 3.4.1, Chetlur et al. 1998). The thesis says only
that it follows the rate of messages. Our rule, which needs no clock: a buffer that left with one message halves the
wait of the next one, a buffer with company doubles it. The wait stays between the given one and a 32nd of it.
"""

from collections.abc import Hashable
from typing import NamedTuple

from antecede.core import Message, Verdict
from antecede.core.process import Outbox
from antecede.overlay.trees import Trees
from antecede.protocols.aggregation.broadcast import CausalBroadcast
from antecede.protocols.aggregation.packets import Bundle
from antecede.protocols.sizes import ByteModel


class _BufferTimer(NamedTuple):
    hop: int
    begun: int


class Buffers:
    """By child: the messages that wait for others, and for how long."""

    def __init__(self, sizes: ByteModel, wait_us: int, *, adaptive: bool) -> None:
        self._sizes = sizes
        self._wait_us = wait_us
        self._adaptive = adaptive
        self._messages: dict[int, list[Message]] = {}
        # By child: how many buffers were begun. The timer of a buffer that has been sent is stale.
        self._begun: dict[int, int] = {}
        # By child, with an adaptive wait: that of the next buffer.
        self._next_us: dict[int, int] = {}

    def __contains__(self, hop: int) -> bool:
        return hop in self._messages

    def put(self, out: Outbox, hop: int, message: Message) -> None:
        buffer = self._messages.setdefault(hop, [])
        if buffer and self._sizes.packet([*buffer, message]) > self._sizes.mtu:
            self.flush(out, hop)
            buffer = self._messages.setdefault(hop, [])
        if not buffer:
            self._begun[hop] = self._begun.get(hop, 0) + 1
            out.wake_after(self._next_us.get(hop, self._wait_us), _BufferTimer(hop, self._begun[hop]))
        buffer.append(message)

    def wake(self, out: Outbox, timer: Hashable) -> None:
        assert isinstance(timer, _BufferTimer)
        if self._begun[timer.hop] == timer.begun:
            self.flush(out, timer.hop)

    def flush(self, out: Outbox, hop: int) -> None:
        messages = self._messages.pop(hop, None)
        if messages:
            out.send(hop, Bundle(tuple(messages)))
            if self._adaptive:
                wait_us = self._next_us.get(hop, self._wait_us)
                doubled, halved = min(self._wait_us, 2 * wait_us), max(self._wait_us // 32, wait_us // 2, 1)
                self._next_us[hop] = doubled if len(messages) > 1 else halved


class TimerBundling(CausalBroadcast):
    """`CausalBroadcast` whose packets wait up to `wait_us` for further messages."""

    def __init__(self, node: int, trees: Trees, sizes: ByteModel, *, wait_us: int, adaptive: bool = False) -> None:
        super().__init__(node, trees, sizes)
        self.shares_outbox = False
        self._buffers = Buffers(sizes, wait_us, adaptive=adaptive)

    def wake(self, timer: Hashable) -> None:
        self._buffers.wake(self.out, timer)

    def _send_own(self, message: Message) -> None:
        for hop in self._trees.next_hops(self.node, self.node, None):
            self._buffers.put(self.out, hop, message)

    def _pass_on(self, sender: int, message: Message, packet: Bundle, verdict: Verdict) -> None:
        for hop in self._trees.next_hops(self.node, message.source, sender):
            self._buffers.put(self.out, hop, message)
