"""The embedded transport, and the simulator's faults around it."""

import asyncio
import random

import pytest

from antecede.core import ProtocolError, UsageError
from antecede.node.fault_injection import FaultyTransport, LinkFaults, NoFaults, Partition
from antecede.sim.faults import duplicating, losing
from antecede.sim.network import PacketSwitched, constant
from antecede.wire.memory import MemoryNetwork

from .helpers import Recorded, bundle, until


def test_packets_cross_and_links_are_told() -> None:
    async def test() -> None:
        network = MemoryNetwork()
        ends = [network.transport(node, incarnation=node + 1) for node in range(3)]
        told = [Recorded() for _ in ends]
        for end, heard in zip(ends, told, strict=True):
            await end.start(heard)
        packet = bundle(1)
        ends[0].send(1, packet)
        ends[0].send(1, bundle(2))
        ends[2].send(1, bundle(3))
        ends[0].send(9, packet)
        await until(lambda: len(told[1].packets) == 3)
        assert told[1].packets[0] == (0, packet)
        assert told[1].packets[0][1] is packet
        assert ends[0].counts.unreachable == 1
        assert told[0].links == [(1, 2), (2, 3)]
        ends[2].send(0, bundle(7))
        await ends[2].close()
        await ends[2].close()
        assert told[0].links[-1] == (2, None)
        assert told[0].seqs == [7]
        ends[0].send(2, packet)
        assert ends[0].counts.unreachable == 2

    asyncio.run(test())


def test_a_number_is_taken_once() -> None:
    async def test() -> None:
        network = MemoryNetwork()
        await network.transport(1).start(Recorded())
        with pytest.raises(UsageError, match="is in this network already"):
            await network.transport(1).start(Recorded())

    asyncio.run(test())


def test_a_paused_node_makes_its_peers_wait_and_then_drops_the_newest() -> None:
    async def test() -> None:
        network = MemoryNetwork(inbox_max=10)
        one, other, told = network.transport(0), network.transport(1), Recorded()
        await one.start(Recorded())
        await other.start(told)
        other.pause()
        for seq in range(1, 13):
            one.send(1, bundle(seq))
            assert one.congested == (seq > 5)
        assert one.counts.overflow == 2
        waiting = asyncio.ensure_future(one.relieved())
        await asyncio.sleep(0.01)
        assert told.seqs == []
        assert not waiting.done()
        other.resume()
        await waiting
        assert told.seqs == list(range(1, 11))

    asyncio.run(test())


def test_a_handlers_complaint_is_counted() -> None:
    class Complains(Recorded):
        def received(self, sender: int, packets: object) -> None:
            raise ProtocolError("no")

    async def test() -> None:
        network = MemoryNetwork()
        one, other = network.transport(0), network.transport(1)
        await one.start(Recorded())
        await other.start(Complains())
        one.send(1, bundle(1))
        await until(lambda: other.counts.refused["malformed"] == 1)

    asyncio.run(test())


def test_injected_faults_are_the_simulators() -> None:
    async def test() -> None:
        rng = random.Random(1)
        rain = duplicating(losing(NoFaults(), 0.3, rng), 0.3, rng, spread=1000)
        expected = random.Random(1)
        copies = 0
        for _ in range(300):  # the same draws, by hand
            if expected.random() >= 0.3:
                copies += 1
                if expected.random() < 0.3:
                    copies += 1
                    expected.randrange(1001)
        network, faults, told = MemoryNetwork(), LinkFaults(rain), Recorded()
        one = FaultyTransport(network.transport(0), faults)
        other = FaultyTransport(network.transport(1), faults)
        await one.start(Recorded())
        await other.start(told)
        for seq in range(1, 301):
            one.send(1, bundle(seq))
        one.flush()
        await until(lambda: len(told.packets) == copies)
        assert 200 < copies < 400

    asyncio.run(test())


def test_delays_sizes_cuts_and_endings() -> None:
    async def test() -> None:
        network, told = MemoryNetwork(), Recorded()
        slow = PacketSwitched(constant(2000), ticks_per_byte=10.0)
        cut = Partition(slow)
        faults = LinkFaults(cut)
        one = FaultyTransport(network.transport(0), faults, size=lambda packet: 100)
        other = FaultyTransport(network.transport(1), faults)
        await one.start(Recorded())
        await other.start(told)
        one.send(1, bundle(1))
        await asyncio.sleep(0)
        assert told.packets == []
        await until(lambda: told.seqs == [1])
        assert slow._wire_free[0] > 0  # it was weighed
        cut.cut([1, 2])
        one.send(1, bundle(2))
        cut.heal()
        one.send(1, bundle(3))
        await until(lambda: told.seqs == [1, 3])
        other.pause()
        other.resume()
        one.send(1, bundle(4))
        await one.close()
        await asyncio.sleep(0.01)
        assert told.seqs == [1, 3]
        other.abort()

    asyncio.run(test())
