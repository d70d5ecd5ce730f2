"""The same scenarios on the simulator, on memory and on tcp."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from antecede.protocols.aggregation.packets import Bundle
from antecede.testing import MemoryWorld, Scenario, SimWorld, Subject, TcpWorld, check_transport, fair_pairs, play
from antecede.wire.codec import PacketCodec
from antecede.wire.memory import MemoryNetwork
from antecede.wire.tcp import TcpLimits, TcpTransport
from antecede.wire.transport import Transport

PAIRS = list(fair_pairs())


def name(value: object) -> str:
    return value.name if isinstance(value, Scenario | Subject) else str(value)


@pytest.mark.parametrize(("scenario", "subject"), PAIRS, ids=name)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_simulated(scenario: Scenario, subject: Subject, seed: int) -> None:
    asyncio.run(play(scenario, subject, SimWorld, seed=seed))


@pytest.mark.parametrize(("scenario", "subject"), PAIRS, ids=name)
def test_memory(scenario: Scenario, subject: Subject, tmp_path: Path) -> None:
    directory = tmp_path if "crash" in scenario.needs else None
    asyncio.run(play(scenario, subject, partial(MemoryWorld, directory=directory)))


@pytest.mark.parametrize(("scenario", "subject"), PAIRS, ids=name)
def test_tcp(scenario: Scenario, subject: Subject, tmp_path: Path) -> None:
    directory = tmp_path if subject.kept else None
    asyncio.run(play(scenario, subject, partial(TcpWorld, directory=directory)))


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "subject"), PAIRS, ids=name)
@pytest.mark.parametrize("seed", range(10, 20))
def test_live_with_other_faults(scenario: Scenario, subject: Subject, seed: int, tmp_path: Path) -> None:
    for kind in (MemoryWorld, TcpWorld):
        directory = tmp_path / kind.__name__
        directory.mkdir()
        world = partial(kind, directory=directory) if subject.kept else kind
        asyncio.run(play(scenario, subject, world, seed=seed))


Pair = tuple[Transport, Transport, Callable[[], None]]


async def memory_pair() -> Pair:
    network = MemoryNetwork(inbox_max=2_000)
    return network.transport(3), network.transport(8), lambda: None


async def tcp_pair() -> Pair:
    limits = TcpLimits(pause_s=0.01, pause_s_max=0.1)
    codec = PacketCodec("test", (Bundle,))
    one, other = (TcpTransport(node, codec, cluster="c", limits=limits) for node in (3, 8))

    def introduce() -> None:
        one.set_peer(8, *other.address)
        other.set_peer(3, *one.address)

    return one, other, introduce


def test_the_promises_of_the_memory_transport() -> None:
    asyncio.run(check_transport(memory_pair))


def test_the_promises_of_the_tcp_transport() -> None:
    asyncio.run(check_transport(tcp_pair))
