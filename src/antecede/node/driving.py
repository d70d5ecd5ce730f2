"""The driver of a node: `live.driver`, with somebody looking over its shoulder.

The hub sees messages as they arrive (for feeds that do not wait for order), acknowledgements of peers are counted for
publishers who asked for copies, and messages in this node's name that it never published are refused.
"""

import asyncio
from collections.abc import Callable

from antecede.core import Message, Packet, ProtocolError
from antecede.core.errors import StoppedError
from antecede.journal.batch import Batch
from antecede.node.driver import Driver
from antecede.node.hub import Hub
from antecede.protocols.vcube_ps.packets import Have
from antecede.wire.transport import Transport


class Replicas:
    """How far other nodes have what this one published, by their own word, and who waits for that.

    A node says `Have` after it has kept what it says: keep comes before send. So a copy that is counted here survives
    the end of both processes, where the other has a journal.
    """

    def __init__(self, domain: str, node: int) -> None:
        self._domain = domain
        self._node = node
        self._done: dict[int, int] = {}
        self._waiting: list[tuple[int, int, asyncio.Future[Message], Message]] = []

    def note(self, sender: int, packets: list[Packet]) -> None:
        moved = False
        for packet in packets:
            if not isinstance(packet, Have) or packet.source != self._node or packet.topic != self._domain:
                continue
            if packet.done > self._done.get(sender, 0):
                self._done[sender] = packet.done
                moved = True
        if moved and self._waiting:
            self._settle()

    def wait(self, message: Message, copies: int) -> "asyncio.Future[Message]":
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting.append((message.seq, copies, future, message))
        self._settle()
        return future

    def stop(self, why: str) -> None:
        for _, _, future, _ in self._waiting:
            if not future.done():
                future.set_exception(StoppedError(why))
        self._waiting.clear()

    def _settle(self) -> None:
        reached = sorted(self._done.values(), reverse=True)
        left = []
        for entry in self._waiting:
            seq, copies, future, message = entry
            if future.done():
                continue
            if len(reached) >= copies and reached[copies - 1] >= seq:
                future.set_result(message)
            else:
                left.append(entry)
        self._waiting = left


class NodeDriver(Driver):
    """Told of arrivals before the process is."""

    hub: Hub | None = None
    replicas: Replicas | None = None
    #: How many messages are our own, by how many of them were delivered here.
    published: Callable[[int], int] = staticmethod(lambda delivered: delivered)
    #: Looks at what messages carry, where the protocol has to read that: raises `ProtocolError`.
    inspect: Callable[[list[Packet]], None] | None = None

    def received(self, sender: int, packets: list[Packet]) -> None:
        if self.hub is not None:
            self._check_source(packets, self.published(self.hub.delivered.get(self.process.node, 0)))
            if self.inspect is not None:
                self.inspect(packets)
            self.hub.arrived(packets)
        super().received(sender, packets)
        if self.replicas is not None:
            self.replicas.note(sender, packets)

    def _check_source(self, packets: list[Packet], published: int) -> None:
        """Nobody publishes in this node's name. (Between others, nodes of a cluster trust each other to pass on.)"""
        node = self.process.node
        for packet in packets:
            for message in packet.messages:
                if message.source == node and message.seq > published:
                    raise ProtocolError(f"message {message.id} is said to be ours, and is not")


Application = Callable[[Batch], None]

__all__ = ["Application", "NodeDriver", "Replicas", "Transport"]
