"""What several tests need: nodes over a transport, waiting for a condition, a protocol that keeps what it does."""

import asyncio
from collections.abc import Callable, Iterable
from typing import ClassVar

import msgspec

from antecede.core import Message, Packet, Process
from antecede.journal.batch import Batch
from antecede.node.driver import Driver
from antecede.protocols.aggregation.packets import Bundle
from antecede.wire.codec import PacketCodec
from antecede.wire.tcp import TcpLimits, TcpTransport

CODEC = PacketCodec("test", (Bundle,))

#: Short pauses: nothing here asserts how long anything takes.
QUICK = TcpLimits(pause_s=0.01, pause_s_max=0.1, grace_s=0.5)


async def until(condition: Callable[[], bool], within_s: float = 20.0) -> None:
    """Wait for `condition`; a deadline only so that a failing test ends."""
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.002)


def message(seq: int, *, source: int = 0, topic: str = "t", payload: bytes = b"x") -> Message:
    return Message(topic, source, seq, (), payload)


def bundle(*seqs: int, source: int = 0) -> Bundle:
    return Bundle(tuple(message(seq, source=source) for seq in seqs))


class Recorded:
    """A handler that writes down what it is told."""

    def __init__(self) -> None:
        self.packets: list[tuple[int, Packet]] = []
        self.links: list[tuple[int, int | None]] = []

    def received(self, sender: int, packets: list[Packet]) -> None:
        self.packets += [(sender, packet) for packet in packets]

    def link_up(self, node: int, incarnation: int) -> None:
        self.links.append((node, incarnation))

    def link_down(self, node: int) -> None:
        self.links.append((node, None))

    @property
    def seqs(self) -> list[int]:
        return [one.seq for _, packet in self.packets for one in packet.messages]


def tcp(node: int, *, limits: TcpLimits = QUICK, incarnation: int = 1, cluster: str = "test") -> TcpTransport:
    return TcpTransport(node, CODEC, cluster=cluster, limits=limits, incarnation=incarnation)


def introduce(transports: Iterable[TcpTransport]) -> None:
    everybody = list(transports)
    for one in everybody:
        for other in everybody:
            if one is not other:
                one.set_peer(other.node, *other.address)


class Sent(msgspec.Struct, frozen=True, array_like=True, tag="test.sent"):
    """Kept by `Keeper`: this was published."""

    message: Message


class Got(msgspec.Struct, frozen=True, array_like=True, tag="test.got"):
    """Kept by `Keeper`: this came from elsewhere."""

    message: Message


class Keeper(Process):
    """FIFO to a fixed set of peers over reliable links; keeps everything, and restores it."""

    records: ClassVar[tuple[type, ...]] = (Sent, Got)

    def __init__(self, node: int, peers: Iterable[int] = ()) -> None:
        super().__init__(node)
        self.peers = tuple(peers)
        self.seq = 0
        self.seen: dict[int, int] = {}

    def publish(self, topic: str, payload: bytes) -> Message:
        self.seq += 1
        sent = Message(topic, self.node, self.seq, (), payload)
        self.out.keep(Sent(sent))
        self.out.deliver(sent)
        packet = Bundle((sent,))
        for peer in self.peers:
            self.out.send(peer, packet)
        return sent

    def receive(self, sender: int, packet: Packet) -> None:
        for one in packet.messages:
            if one.seq > self.seen.get(one.source, 0):
                self.seen[one.source] = one.seq
                self.out.keep(Got(one))
                self.out.deliver(one)

    def restore(self, records: Iterable[object]) -> None:
        for record in records:
            if isinstance(record, Sent):
                self.seq = record.message.seq
            elif isinstance(record, Got):
                self.seen[record.message.source] = record.message.seq

    def size(self, packet: Packet) -> int:
        return 100


class Node:
    """A driver, and what its application saw."""

    def __init__(self, driver: Callable[[Callable[[Batch], None]], Driver]) -> None:
        self.batches: list[Batch] = []
        self.driver = driver(self.batches.append)

    @property
    def delivered(self) -> list[Message]:
        return [one for batch in self.batches for one in batch.deliveries]
