"""Total notification order over a real NATS server, beside plain NATS."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats as nats_py
import pytest

from antecede.core import AntecedeError, UsageError
from antecede.gateway import NatsService, Notification, OrderedBus, ServiceError
from antecede.protocols.tno.options import managers_of
from tests.client.running import awaited
from tests.gateway.nats_server import free_port, nats_server

EVENTS = 400


@pytest.fixture(scope="module")
def nats() -> Iterator[str]:
    with nats_server() as url:
        yield url


def disagreements(one: list[Any], other: list[Any]) -> int:
    """Pairs of events that two readers saw in different orders."""
    place = {event: index for index, event in enumerate(one)}
    seen = [place[event] for event in other if event in place]
    return sum(earlier > later for index, later in enumerate(seen) for earlier in seen[:index])


def test_disagreements() -> None:
    assert disagreements("abcd", "abcd") == 0
    assert disagreements("abcd", "abdc") == 1
    assert disagreements("abcd", "dcba") == 6
    assert disagreements("abc", "xcay") == 1


async def read(bus: OrderedBus, count: int) -> list[Notification]:
    async with asyncio.timeout(120):
        return [await anext(bus) for _ in range(count)]


@awaited
async def test_two_readers_of_overlapping_topics_agree(nats: str) -> None:
    """Two publishers, two readers, three topics of which they share two. Everything comes once, in one order."""

    def bus(number: int) -> OrderedBus:
        return OrderedBus(NatsService(nats), number=number, managers=1, system="agree")

    async with bus(0), bus(1) as left, bus(2) as right, bus(3) as one, bus(4) as other:
        await left.subscribe("trades", "quotes", "news")
        await right.subscribe("quotes", "trades", "weather")

        async def publish(publisher: OrderedBus) -> None:
            for number in range(EVENTS):
                await publisher.publish(("trades", "quotes")[number % 2], b"%d" % number)
                if number % 20 == 0:
                    await asyncio.sleep(0)

        await asyncio.gather(publish(one), publish(other))
        seen_left, seen_right = await asyncio.gather(read(left, 2 * EVENTS), read(right, 2 * EVENTS))
        assert not [event for event in seen_left + seen_right if event.out_of_order]
        assert len(set(seen_left)) == 2 * EVENTS
        assert disagreements(seen_left, seen_right) == 0
        assert one.unfinished() == other.unfinished() == []


@awaited
async def test_events_go_through_a_stream_where_there_is_one_and_outlive_its_server(tmp_path: Path) -> None:
    """Subjects of a stream are stored: events that come while the readers' connections are broken are read later."""
    port = free_port()
    server = nats_server("-js", "-sd", str(tmp_path), port=port)
    url = await asyncio.to_thread(server.__enter__)
    try:
        connection = await nats_py.connect(url)
        await connection.jetstream().add_stream(name="market", subjects=["trades", "quotes"])
        raw = NatsService(url)
        await raw.open()
        await raw.publish("trades", b"before anybody subscribed")

        def bus(number: int) -> OrderedBus:
            service = NatsService(url, reconnect_time_wait=0.1, max_reconnect_attempts=-1)
            return OrderedBus(service, number=number, managers=1, system="stored", patience_s=60)

        async with bus(0), bus(1) as left, bus(2) as right, bus(3) as publisher:
            await left.subscribe("trades", "quotes", "plain")
            await right.subscribe("quotes", "trades", "plain")
            for number in range(60):
                await publisher.publish(("trades", "quotes")[number % 2], b"%d" % number)
                if number == 30:
                    await read(left, 5)
                    await asyncio.to_thread(server.__exit__, None, None, None)
                    server = nats_server("-js", "-sd", str(tmp_path), port=port)
                    await asyncio.to_thread(server.__enter__)
            await publisher.publish("plain", b"on a subject of no stream")
            seen_left, seen_right = await asyncio.gather(read(left, 56), read(right, 61))
            assert len(set(seen_right)) == 61
            assert disagreements(seen_left, seen_right) == 0
            assert not [event for event in seen_left + seen_right if event.out_of_order]
            assert left.refused == right.refused == 0
        info = await raw._client.jetstream().stream_info("market")
        assert info.state.messages == 61, "each event is stored once"
        await raw.close()
        await connection.close()
    finally:
        server.__exit__(None, None, None)


def test_the_example_counts_both(nats: str) -> None:
    """Plain NATS may agree by luck; with an order there is nothing to disagree about."""
    path = Path(__file__).parents[2] / "examples" / "one_order_over_nats.py"
    command = [sys.executable, str(path), nats, "500"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    plain, ordered = done.stdout.splitlines()
    assert plain.startswith("plain NATS: 1000 events, ")
    assert ordered == "total notification order over it: 1000 events, 0 pairs in different orders"


@awaited
async def test_what_is_published_past_the_layer_is_counted_and_left_out(nats: str) -> None:
    async with OrderedBus(NatsService(nats), number=0, system="past") as bus:
        await bus.subscribe("topic")
        raw = NatsService(nats)
        await raw.open()
        await raw.publish("topic", b"no timestamp")
        await raw.publish("_past.to.0", b"\x00\x01nonsense")
        await raw.publish("_past.beat", b"nonsense")
        assert await bus.publish("topic", b"with one") == (0, 1)
        (event,) = await read(bus, 1)
        assert (event.topic, event.payload, event.out_of_order) == ("topic", b"with one", False)
        while bus.refused < 3:
            await asyncio.sleep(0.01)
        await raw.close()


async def start_manager(nats: str, *more: str) -> asyncio.subprocess.Process:
    """A process of its own, once it says that it manages."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "antecede", "manager", "--nats", nats, *more, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        assert (await process.stdout.readline()).startswith(b"manager")
    return process


@awaited
async def test_a_topic_manager_killed_amid_timestamping(nats: str) -> None:
    """Three processes manage the topics together. The one that leads is killed while events are being numbered."""
    shared = ("--managers", "3", "--replicas", "3", "--system", "killed")
    managers = await asyncio.gather(*[start_manager(nats, "--number", str(number), *shared) for number in range(3)])
    try:
        leader = managers_of("a", 3, 3)[0]

        def bus(number: int) -> OrderedBus:
            return OrderedBus(
                NatsService(nats), number=number, managers=3, replicas=3, system="killed", patience_s=30, beat_s=0.3
            )

        async with bus(10) as left, bus(11) as right, bus(12) as publisher:
            await left.subscribe("a", "b")
            await right.subscribe("b", "a")
            for number in range(200):
                await publisher.publish("ab"[number % 2], b"%d" % number)
                if number == 100:
                    await asyncio.sleep(0)
                    managers[leader].kill()
                    await managers[leader].wait()
            seen_left, seen_right = await asyncio.gather(read(left, 200), read(right, 200))
            both = [(event.topic, event.payload) for event in seen_left if not event.out_of_order]
            others = [(event.topic, event.payload) for event in seen_right if not event.out_of_order]
            assert disagreements(both, others) == 0
            assert len(set(seen_left)) == len(set(seen_right)) == 200, "nothing is lost, nothing comes twice"
    finally:
        for process in managers:
            if process.returncode is None:
                process.terminate()
            await process.wait()


@awaited
async def test_the_only_manager_killed_and_started_again(nats: str, tmp_path: Path) -> None:
    """It goes on counting where it was, and knows who takes what: one order, nothing lost, nothing twice."""
    command = ["--number", "0", "--system", "alone", "--journal", str(tmp_path / "manager.db")]
    manager = await start_manager(nats, *command)

    def bus(number: int) -> OrderedBus:
        return OrderedBus(NatsService(nats), number=number, system="alone", patience_s=60, beat_s=0.3)

    try:
        async with bus(10) as left, bus(11) as right, bus(12) as one, bus(13) as other:
            await left.subscribe("a", "b")
            await right.subscribe("b", "a")
            for number in range(240):
                await (one, other)[number % 3 % 2].publish("ab"[number % 2], b"%d" % number)
                if number == 120:
                    first = await anext(left)  # it is in the middle of it
                    manager.kill()
                    await manager.wait()
                    manager = await start_manager(nats, *command)
            seen_left, seen_right = await asyncio.gather(read(left, 239), read(right, 240))
            seen_left = [first, *seen_left]
            assert len(set(seen_left)) == len(set(seen_right)) == 240
            assert (
                disagreements(*[[one for one in seen if not one.out_of_order] for seen in (seen_left, seen_right)]) == 0
            )
            while one.unfinished() or other.unfinished():
                await asyncio.sleep(0.01)
    finally:
        if manager.returncode is None:
            manager.kill()
        await manager.wait()


@awaited
async def test_a_journal_is_one_managers_who_only_manages(nats: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="participant 1 does not manage topics"):
        OrderedBus(NatsService(nats), number=1, journal=tmp_path / "journal")
    managing = OrderedBus(NatsService(nats), number=1, managers=2, system="kept", journal=tmp_path / "journal")
    async with managing:
        with pytest.raises(UsageError, match="keeps the state of a manager only"):
            await managing.publish("t", b"")
        with pytest.raises(UsageError, match="keeps the state of a manager only"):
            await managing.subscribe("t")
    for change, problem in ({"number": 0}, "is that of manager 1"), ({"replicas": 2}, "belongs to cluster"):
        whole = {"number": 1, "managers": 2, "system": "kept", "journal": tmp_path / "journal", **change}
        with pytest.raises(AntecedeError, match=problem):
            async with OrderedBus(NatsService(nats), **whole):  # type: ignore[arg-type]
                pass


@awaited
async def test_mistakes_are_named(nats: str) -> None:
    with pytest.raises(ServiceError, match="no NATS server answers"):
        async with OrderedBus(NatsService("nats://127.0.0.1:1"), number=0):
            pass
    with pytest.raises(UsageError, match="replicas"):
        OrderedBus(NatsService(nats), number=0, managers=2, replicas=3)
    with pytest.raises(UsageError, match="number"):
        OrderedBus(NatsService(nats), number=-1)
    with pytest.raises(UsageError, match="system 'two words': is not a subject of NATS"):
        OrderedBus(NatsService(nats), number=0, system="two words")
    async with OrderedBus(NatsService(nats), number=1, system="unmanaged") as bus:
        waiting = asyncio.ensure_future(bus.subscribe("t"))
        await asyncio.sleep(0)
        await bus.unsubscribe("t")
        with pytest.raises(UsageError, match="was unsubscribed before"):
            await waiting
    async with OrderedBus(NatsService(nats), number=0, system="mistakes") as bus:
        with pytest.raises(UsageError, match="not a subject of NATS"):
            await bus.subscribe("with space")
    with pytest.raises(UsageError, match="is closed"):
        await bus.publish("t", b"")
