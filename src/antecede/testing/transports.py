"""What a transport owes its users (`live.transport`), checked on two ends of it and nothing else."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from antecede.core import Message, Packet, ProtocolError
from antecede.protocols.aggregation.packets import Bundle
from antecede.testing.world import ConformanceError
from antecede.wire.transport import Transport

#: Makes two ends, numbers 3 and 8, that carry `Bundle` packets and are not yet started; and a function that introduces
#: them to each other once they are, if they need it.
MakePair: TypeAlias = Callable[[], Awaitable[tuple[Transport, Transport, Callable[[], None]]]]

_PATIENCE_S: Final = 30.0
_PACKETS: Final = 2_000
#: Packets of 10 kB that a transport may hold for a peer before it calls itself congested: 1 GB is not a bound.
_SENDS_MAX: Final = 100_000


async def check_transport(make_pair: MakePair) -> None:
    """Run every check on a fresh pair. Raises `ConformanceError` with the promise that was broken."""
    for check in (
        _packets_arrive_unchanged_once_from_their_sender,
        _nobody_is_not_an_error,
        _a_paused_end_loses_nothing_it_had_room_for,
        _a_complaint_about_a_packet_is_counted,
        _the_end_is_told_and_final,
    ):
        one, other, introduce = await make_pair()
        ends = _End(one), _End(other)
        try:
            for end in ends:
                await end.transport.start(end)
            introduce()
            await check(*ends)
        finally:
            await asyncio.gather(one.close(), other.close())


class _End:
    """A handler that remembers."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.packets: list[tuple[int, Packet]] = []
        self.links: list[tuple[int, bool]] = []
        self.complains = False

    def received(self, sender: int, packets: list[Packet]) -> None:
        self.packets += [(sender, packet) for packet in packets]
        if self.complains:
            raise ProtocolError("this packet makes no sense")

    def link_up(self, node: int, incarnation: int) -> None:
        self.links.append((node, True))

    def link_down(self, node: int) -> None:
        self.links.append((node, False))

    def send(self, to: "_End", *numbers: int, size: int = 10) -> None:
        for number in numbers:
            message = Message("t", 5, number, ((1, number),), bytes(size))
            self.transport.send(to.transport.node, Bundle((message,)))
        self.transport.flush()

    @property
    def numbers(self) -> list[int]:
        return [message.seq for _, packet in self.packets for message in packet.messages]


async def _packets_arrive_unchanged_once_from_their_sender(one: _End, other: _End) -> None:
    for number in range(1, _PACKETS + 1):
        one.send(other, number)
        other.send(one, number)
        if number % 100 == 0:
            await asyncio.sleep(0)
    await _until(lambda: all(len(end.packets) >= _PACKETS for end in (one, other)), "every packet to arrive")
    await asyncio.sleep(0.02)
    for end, peer in ((one, other), (other, one)):
        _demand(sorted(end.numbers) == list(range(1, _PACKETS + 1)), "a packet arrived twice, or another did not")
        senders = {sender for sender, _ in end.packets}
        _demand(senders == {peer.transport.node}, f"packets of {peer.transport.node} came as from {senders}")
        messages = [message for _, packet in end.packets for message in packet.messages]
        _demand(all(message.deps == ((1, message.seq),) for message in messages), "a packet arrived changed")
        _demand(end.links == [(peer.transport.node, True)], f"links were told as {end.links}")
        _demand(end.transport.counts.packets_received == _PACKETS, "packets were not counted")


async def _nobody_is_not_an_error(one: _End, other: _End) -> None:
    one.transport.send(77, Bundle(()))
    one.transport.flush()
    _demand(one.transport.counts.unreachable == 1, "a packet for nobody was not counted")
    one.send(other, 1)
    await _until(lambda: other.numbers == [1], "a packet sent after one for nobody")


async def _a_paused_end_loses_nothing_it_had_room_for(one: _End, other: _End) -> None:
    one.send(other, 1)
    await _until(lambda: other.numbers == [1], "the first packet")
    other.transport.pause()
    sent = 1
    while not one.transport.congested:
        sent += 1
        _demand(sent < _SENDS_MAX, "a peer that takes nothing never counted as behind")
        one.send(other, sent, size=10_000)
        await asyncio.sleep(0)
    _demand(one.transport.counts.overflow == 0, "packets were dropped before the sender was told to hold back")
    relieved = asyncio.ensure_future(one.transport.relieved())
    await asyncio.sleep(0.02)
    _demand(not relieved.done(), "relief was told too early")
    other.transport.resume()
    await asyncio.wait_for(relieved, _PATIENCE_S)
    await _until(lambda: len(other.numbers) >= sent, "all that was sent before the pause")
    _demand(sorted(other.numbers) == list(range(1, sent + 1)), "a pause lost or repeated packets")


async def _a_complaint_about_a_packet_is_counted(one: _End, other: _End) -> None:
    other.complains = True
    one.send(other, 1)
    await _until(lambda: other.transport.counts.refused["malformed"] == 1, "the complaint to be counted")
    other.complains = False
    number = 1

    def through() -> bool:
        nonlocal number
        number += 1
        one.send(other, number)
        return len(other.numbers) > 1

    await _until(through, "packets to flow again after a complaint")


async def _the_end_is_told_and_final(one: _End, other: _End) -> None:
    one.send(other, *range(1, _PACKETS + 1))
    await _until(lambda: bool(other.links), "the link")
    await one.transport.close()
    await one.transport.close()
    await _until(lambda: len(other.numbers) == _PACKETS, "what was sent before closing")
    await _until(lambda: other.links[-1:] == [(one.transport.node, False)], "the end of the link to be told")
    received = len(one.packets)
    other.send(one, 1)
    await asyncio.sleep(0.02)
    _demand(len(one.packets) == received, "a packet arrived after the end")
    other.transport.abort()
    other.transport.abort()


async def _until(condition: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.002)
    except TimeoutError:
        raise ConformanceError(f"waited in vain for {what}") from None


def _demand(kept: bool, broken: str) -> None:
    if not kept:
        raise ConformanceError(broken)
