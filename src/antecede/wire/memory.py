"""The embedded transport: any number of nodes in one process and one event loop, without sockets.

Packets are frozen records and pass by reference. Packets sent in one turn of the loop arrive in the next, in one call
for each sender. A node that is paused or slow has an inbox of `inbox_max` packets from each peer. When half of it is
full, the sender is congested; when all of it is, packets are dropped and counted at the sender (`transport`).
"""

import asyncio
from typing import Final

from antecede.core import Packet, ProtocolError, UsageError
from antecede.wire.transport import Handler, Reason, Transport

#: Packets that wait at a node for its attention, from each peer. They are references; at a few hundred bytes of payload
#: this is tens of megabytes, and a node so far behind is better served by its peers' journals.
INBOX_PACKETS_MAX: Final = 65_536


class MemoryNetwork:
    """Connects the transports of one process."""

    def __init__(self, *, inbox_max: int = INBOX_PACKETS_MAX) -> None:
        self.inbox_max = inbox_max
        self.nodes: dict[int, MemoryTransport] = {}

    def transport(self, node: int, *, incarnation: int = 1) -> "MemoryTransport":
        return MemoryTransport(self, node, incarnation)


class MemoryTransport(Transport):
    """One node of a `MemoryNetwork`, linked with every other node that has started."""

    def __init__(self, network: MemoryNetwork, node: int, incarnation: int) -> None:
        super().__init__(node)
        self.incarnation = incarnation
        self._network = network
        self._handler: Handler | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inbox: dict[int, list[Packet]] = {}
        self._due = False
        self._paused = False

    async def start(self, handler: Handler) -> None:
        nodes = self._network.nodes
        if self.node in nodes:
            raise UsageError("node", self.node, "is in this network already", "use another number, or close that one")
        self._loop = asyncio.get_running_loop()
        self._handler = handler
        nodes[self.node] = self
        for other in list(nodes.values()):
            if other is not self:
                self._greet(other)
                other._greet(self)

    def send(self, to: int, packet: Packet) -> None:
        other = self._network.nodes.get(to)
        if other is None:
            self.counts.unreachable += 1
            return
        inbox = other._inbox.get(self.node)
        if inbox is None:
            inbox = other._inbox[self.node] = []
        size = len(inbox)
        if size >= self._network.inbox_max:
            self.counts.overflow += 1
            return
        inbox.append(packet)
        self.counts.packets_sent += 1
        if size * 2 >= self._network.inbox_max:
            self.relief.set(to, True)
        if not other._due and not other._paused:
            other._call()

    def flush(self) -> None:
        """Nothing waits at the sender's end."""

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        if self._inbox and not self._due:
            self._call()

    async def close(self) -> None:
        self.abort()
        await asyncio.sleep(0)  # what was sent in this turn arrives

    def abort(self) -> None:
        if self._network.nodes.get(self.node) is not self:
            return
        del self._network.nodes[self.node]
        self._handler = None
        self._inbox.clear()
        self.relief.release()
        for other in list(self._network.nodes.values()):
            other._lose(self.node)

    def _call(self) -> None:
        assert self._loop is not None
        self._due = True
        self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        self._due = False
        if self._paused:
            return
        inbox, self._inbox = self._inbox, {}
        for sender, packets in inbox.items():
            handler = self._handler
            if handler is None:
                return  # closed, perhaps by the handler just called
            self.counts.packets_received += len(packets)
            other = self._network.nodes.get(sender)
            if other is not None:
                other.relief.set(self.node, False)
            try:
                handler.received(sender, packets)
            except ProtocolError:
                self.counts.refused[Reason.MALFORMED] += 1

    def _greet(self, other: "MemoryTransport") -> None:
        self.counts.links_up += 1
        if self._handler is not None:
            self._handler.link_up(other.node, other.incarnation)

    def _lose(self, node: int) -> None:
        self.counts.links_down += 1
        self.relief.set(node, False)
        if self._handler is not None:
            self._handler.link_down(node)
