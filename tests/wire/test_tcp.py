"""Links between nodes on real sockets: one a pair, whoever dials; nothing lost without a break; all bounds kept."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import UsageError
from antecede.protocols.aggregation.packets import Bundle
from antecede.wire.codec import PacketCodec
from antecede.wire.tcp import TcpTransport

from .helpers import CODEC, QUICK, Recorded, bundle, introduce, message, tcp, until


async def started(*transports: TcpTransport) -> list[Recorded]:
    told = [Recorded() for _ in transports]
    for transport, heard in zip(transports, told, strict=True):
        await transport.start(heard)
    introduce(transports)
    return told


async def close(*transports: TcpTransport) -> None:
    await asyncio.gather(*(transport.close() for transport in transports))


def push(transport: TcpTransport, to: int, *seqs: int) -> None:
    for seq in seqs:
        transport.send(to, bundle(seq))
    transport.flush()


def test_packets_cross_both_ways_on_one_connection() -> None:
    async def test() -> None:
        one, other = tcp(0), tcp(1)
        told = await started(one, other)
        push(one, 1, 1, 2, 3)
        await until(lambda: told[1].seqs == [1, 2, 3])
        push(other, 0, 4)
        await until(lambda: told[0].seqs == [4])
        assert one.counts.links_up == other.counts.links_up == 1
        assert (told[0].links, told[1].links) == ([(1, 1)], [(0, 1)])
        assert one.counts.packets_sent == other.counts.packets_received == 3
        one.send(7, bundle(1))
        assert one.counts.unreachable == 1
        await close(one, other)
        assert one.counts.refused == other.counts.refused == {}

    asyncio.run(test())


@settings(max_examples=8, deadline=None)
@given(st.integers(2, 6), st.data())
def test_when_all_dial_at_once_nothing_is_lost_and_one_link_a_pair_remains(nodes: int, data: st.DataObject) -> None:
    order = data.draw(st.permutations([(a, b) for a in range(nodes) for b in range(nodes) if a != b]))

    async def test() -> None:
        everybody = [tcp(node) for node in range(nodes)]
        told = await started(*everybody)
        for seq in (1, 2, 3):
            for a, b in order:
                push(everybody[a], b, seq)
            await asyncio.sleep(0)
        await until(lambda: all(len(heard.packets) == 3 * (nodes - 1) for heard in told))

        def one_each() -> bool:
            return all(
                peer.link is not None and len(one._links) == nodes - 1
                for one in everybody
                for peer in one.peers.values()
            )

        await until(one_each)
        for one in everybody:
            for peer in one.peers.values():
                theirs = everybody[peer.node].peers[one.node].link
                assert peer.link is not None
                assert theirs is not None
                assert peer.link.dialled_by == theirs.dialled_by
        await close(*everybody)

    asyncio.run(test())


def test_closing_loses_nothing() -> None:
    async def test() -> None:
        one, other = tcp(0), tcp(1)
        told = await started(one, other)
        push(one, 1, *range(1, 5001))
        await until(lambda: one.counts.links_up == 1)
        await one.close()
        await until(lambda: len(told[1].packets) == 5000)
        assert told[1].seqs == list(range(1, 5001))
        assert told[1].links == [(0, 1), (0, None)]
        await close(one, other)

    asyncio.run(test())


def test_a_peer_that_comes_back_gets_what_waited_for_it() -> None:
    async def test() -> None:
        one, other = tcp(0), tcp(1)
        told = await started(one, other)
        push(one, 1, 1)
        await until(lambda: told[1].seqs == [1])
        address = other.address
        other.abort()
        await until(lambda: told[0].links[-1] == (1, None))
        push(one, 1, 2, 3)
        again = TcpTransport(1, CODEC, cluster="test", incarnation=2, port=address[1], limits=QUICK)
        (heard,) = await started(again)
        await until(lambda: heard.seqs == [2, 3])
        assert told[0].links == [(1, 1), (1, None), (1, 2)]
        await close(one, again)

    asyncio.run(test())


def test_a_later_life_replaces_an_earlier_one_never_the_other_way_round() -> None:
    async def test() -> None:
        one, old, new = tcp(0), tcp(1), tcp(1, incarnation=2)
        told, heard_old, heard_new = [(await started(transport))[0] for transport in (one, old, new)]
        old.set_peer(0, *one.address)
        new.set_peer(0, *one.address)
        old.connect(0)
        await until(lambda: told.links == [(1, 1)])
        new.connect(0)
        await until(lambda: told.links == [(1, 1), (1, None), (1, 2)])
        await until(lambda: old.counts.refused["by peer: stale"] > 0)  # it dials again, and is told
        assert one.counts.refused["stale"] > 0
        push(one, 1, 1)
        await until(lambda: heard_new.seqs == [1])
        assert heard_old.seqs == []
        await close(one, old, new)

    asyncio.run(test())


@pytest.mark.parametrize("first", ["lower", "higher"])
def test_of_two_processes_with_one_incarnation_the_lower_life_stays(first: str) -> None:
    """Whichever is linked first, at whichever peer: so all peers decide alike. The other one is told."""

    async def test() -> None:
        one = tcp(0)
        told: dict[str, list[str]] = {"lower": [], "higher": []}
        twins = {
            name: TcpTransport(1, CODEC, cluster="test", limits=QUICK, life=life, superseded=told[name].append)
            for name, life in (("lower", 10), ("higher", 20))
        }
        (here,) = await started(one)
        heard = {name: (await started(twin))[0] for name, twin in twins.items()}
        for name in (first, *(set(twins) - {first})):
            twins[name].set_peer(0, *one.address)
            twins[name].connect(0)
            await until(lambda name=name: bool(heard[name].links) or bool(told[name]))
        await until(lambda: bool(told["higher"]))
        assert "another process has been here as incarnation 1" in told["higher"][0]
        assert told["lower"] == []
        await until(lambda: one.peers[1].link is not None)
        push(one, 1, 1)
        await until(lambda: heard["lower"].seqs == [1])
        assert heard["higher"].seqs == []
        assert here.links[-1] == (1, 1)
        await close(one, *twins.values())

    asyncio.run(test())


def test_a_stale_life_is_told_that_it_is_superseded() -> None:
    async def test() -> None:
        told: list[str] = []
        one, new = tcp(0), tcp(1, incarnation=2)
        old = TcpTransport(1, CODEC, cluster="test", limits=QUICK, incarnation=1, life=3, superseded=told.append)
        for transport in (one, new, old):
            await started(transport)
        new.set_peer(0, *one.address)
        new.connect(0)
        await until(lambda: 1 in one.peers and one.peers[1].link is not None)
        old.set_peer(0, *one.address)
        old.connect(0)
        await until(lambda: bool(told))
        assert told[0] == "node 0 says that incarnation 2 has been here"
        await close(one, new, old)

    asyncio.run(test())


@pytest.mark.parametrize("reason", ["self", "cluster", "packets"])
def test_strangers_and_doubles_are_refused(reason: str) -> None:
    async def test() -> None:
        one = tcp(0)
        other = tcp(0 if reason == "self" else 1, cluster="another" if reason == "cluster" else "test")
        if reason == "packets":
            other = TcpTransport(1, PacketCodec("another", (Bundle,)), cluster="test", limits=QUICK)
        await one.start(told := Recorded())
        await other.start(Recorded())
        other._peer(0).address = one.address
        other.connect(0)
        await until(lambda: other.counts.refused[f"by peer: {reason}"] > 0)
        assert one.counts.refused[reason] > 0
        assert told.links == []
        await close(one, other)

    asyncio.run(test())


def test_the_wrong_node_at_an_address_is_not_linked() -> None:
    async def test() -> None:
        one, other = tcp(0), tcp(1)
        await one.start(told := Recorded())
        await other.start(Recorded())
        one.set_peer(5, *other.address)
        one.connect(5)
        await until(lambda: "node 1 answered for 5" in one.peers[5].problem)
        assert told.links == []
        with pytest.raises(UsageError, match="is this node itself"):
            one.set_peer(0, "127.0.0.1", 1)
        await close(one, other)

    asyncio.run(test())


def test_a_node_that_only_answers_learns_where_to_dial() -> None:
    async def test() -> None:
        one, other = tcp(0), tcp(1)
        told, _ = [(await started(transport))[0] for transport in (one, other)]
        one.set_peer(1, *other.address)
        push(one, 1, 1)
        await until(lambda: 0 in other.peers)
        assert other.peers[0].address == one.address
        await until(lambda: told.links == [(1, 1)])
        await close(one, other)

    asyncio.run(test())


def test_a_slow_peer_is_seen_then_dropped_from_and_never_unbounded() -> None:
    async def test() -> None:
        limits = replace(QUICK, queue_bytes_high=100_000, queue_bytes_max=400_000)
        one, other = tcp(0, limits=limits), tcp(1)
        told = await started(one, other)
        push(one, 1, 1)
        await until(lambda: told[1].seqs == [1])
        other.pause()
        sent = 0
        while not one.counts.overflow:
            sent += 1
            one.send(1, Bundle((message(sent + 1, payload=bytes(10_000)),)))
            one.flush()
            assert one.peers[1].queued <= 400_000
            await asyncio.sleep(0)
        assert one.congested
        relief = asyncio.ensure_future(one.relieved())
        await asyncio.sleep(0.01)
        assert not relief.done()
        other.resume()
        await relief
        await until(lambda: len(told[1].packets) == sent)
        assert told[1].seqs == list(range(1, sent + 1))  # all but the newest
        assert one.counts.overflow == 1
        await close(one, other)

    asyncio.run(test())


def test_a_dead_peer_congests_nobody() -> None:
    async def test() -> None:
        limits = replace(QUICK, queue_bytes_high=1000, queue_bytes_max=5000)
        one = tcp(0, limits=limits)
        await one.start(Recorded())
        one.set_peer(1, "127.0.0.1", 1)
        for seq in range(1, 1000):
            one.send(1, bundle(seq))
            one.flush()
        assert one.counts.overflow > 0
        assert not one.congested
        await until(lambda: one.peers[1].failures > 2)
        queued = len(one.peers[1].queue)
        one.forget(1)
        one.forget(1)
        assert one.counts.unreachable == queued
        await close(one)

    asyncio.run(test())


def test_forgetting_a_peer_breaks_its_link() -> None:
    async def test() -> None:
        one, other = tcp(0), tcp(1)
        told = await started(one, other)
        push(one, 1, 1)
        await until(lambda: told[1].links == [(0, 1)])
        other.forget(0)
        await until(lambda: told[0].links[:2] == [(1, 1), (1, None)])
        await close(one, other)

    asyncio.run(test())


def test_a_frame_larger_than_anything_read_at_once() -> None:
    async def test() -> None:
        one, other = tcp(0), tcp(1)
        told = await started(one, other)
        large = Bundle((message(1, payload=bytes(900_000)),))
        one.send(1, bundle(1))
        one.send(1, large)
        one.send(1, bundle(2))
        one.flush()
        await until(lambda: len(told[1].packets) == 3)
        assert told[1].packets[1] == (0, large)
        await close(one, other)

    asyncio.run(test())


def test_nobody_listens_off_loopback_without_tls() -> None:
    async def test() -> None:
        with pytest.raises(UsageError, match="without TLS"):
            await TcpTransport(0, CODEC, cluster="test", host="0.0.0.0").start(Recorded())
        one = tcp(0)
        await one.start(Recorded())
        with pytest.raises(UsageError, match="cannot be listened on"):
            await TcpTransport(1, CODEC, cluster="test", port=one.address[1]).start(Recorded())
        await close(one)

    asyncio.run(test())
