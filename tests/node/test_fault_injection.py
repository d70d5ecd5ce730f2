"""A cluster over links that lose, repeat, delay and are cut in two: the simulator's faults on real sockets."""

import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from antecede import Node
from antecede.audit import audit
from antecede.core import Packet, UsageError
from antecede.journal import export_rows
from antecede.node.fault_injection import FaultyTransport, LinkFaults, NoFaults, Partition, inject_faults
from antecede.protocols.aggregation.packets import Bundle
from antecede.sim.faults import duplicating, losing
from antecede.sim.network import Network
from antecede.wire.transport import Handler, Transport
from tests.client.running import awaited, until
from tests.node.clusters import make, restart, until_all_have


class Delaying:
    """Every packet takes up to `spread` ticks longer, so packets overtake each other."""

    weighs = False

    def __init__(self, network: Network, rng: random.Random, spread: int) -> None:
        self._network = network
        self._rng = rng
        self._spread = spread

    def arrivals(self, now: int, sender: int, to: int, size: int) -> Sequence[int]:
        return [t + self._rng.randrange(self._spread) for t in self._network.arrivals(now, sender, to, size)]


async def storm(base: Path, *, nodes: int, messages: int, crash: bool, seed: int) -> None:
    rng = random.Random(seed)
    cut = Partition(Delaying(duplicating(losing(NoFaults(), 0.1, rng), 0.05, rng, 10_000), rng, 20_000))
    faults = LinkFaults(cut)

    def around(transport: Transport) -> Transport:
        return FaultyTransport(transport, faults)

    running: list[Node] = []
    for number in range(nodes):
        node = make(number, (running[0].address,) if running else (), base, round_s=1.0, timeout_s=0.8)
        node.transport_kind = node.transport_kind.around(around)
        await node.start()
        running.append(node)

    async def publish(node: Node) -> None:
        async with node.connect() as bus:
            for number in range(messages):
                await bus.publish(f"t/{node.slot}", b"%d" % number)
                await asyncio.sleep(0.001)

    publishing = asyncio.gather(*[publish(node) for node in running[: nodes - 1 if crash else nodes]])
    await asyncio.sleep(0.3)
    cut.cut(range(nodes // 2))
    if crash:
        running[-1].abort()
    await asyncio.sleep(2.5)
    cut.heal()
    if crash:
        running[-1] = await restart(running[-1], base, running[0])
    await publishing
    count = messages * (nodes - 1 if crash else nodes)
    await until_all_have(running, count, within_s=60)
    report = audit(list(export_rows([base / f"n{number}" / "journal.db" for number in range(nodes)])))
    for node in running:
        await node.stop()
    assert report.ok, f"seed {seed}: {report}"


@awaited
async def test_four_nodes_in_a_storm(tmp_path: Path) -> None:
    await storm(tmp_path, nodes=4, messages=60, crash=False, seed=1)


@awaited
async def test_a_node_crashes_in_the_storm(tmp_path: Path) -> None:
    await storm(tmp_path, nodes=4, messages=60, crash=True, seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 14))
def test_more_storms(tmp_path: Path, seed: int) -> None:
    asyncio.run(asyncio.wait_for(storm(tmp_path, nodes=8, messages=200, crash=bool(seed % 2), seed=seed), 200))


class Sink(Transport):
    """Takes note of to whom packets go."""

    def __init__(self, node: int) -> None:
        super().__init__(node)
        self.sent: list[int] = []

    async def start(self, handler: Handler) -> None: ...

    def send(self, to: int, packet: Packet) -> None:
        self.sent.append(to)

    def flush(self) -> None: ...

    async def close(self) -> None: ...

    def abort(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


def send(words: list[str], node: int, to: int, count: int, *, age_s: float = 0.0) -> Sink:
    """What is left of `count` packets, under faults that began `age_s` ago."""
    sink = Sink(node)
    transport = inject_faults(words, 4, time.time() - age_s)(sink)
    for _ in range(count):
        transport.send(to, Bundle(()))
    return sink


@awaited
async def test_faults_in_words() -> None:
    assert len(send([], 0, 1, 100).sent) == 100
    assert 300 < len(send(["loss:share=0.5"], 0, 1, 1000).sent) < 700
    cut = ["partition:nodes=2,begin=100,end=200"]
    assert not send(cut, 1, 2, 10, age_s=150).sent
    for sender, to, age_s in ((0, 1, 150), (3, 2, 150), (1, 2, 50), (1, 2, 250)):
        assert len(send(cut, sender, to, 10, age_s=age_s).sent) == 10
    late = send(["constant:delay=0.02,t_pc=0,t_t=0", "duplication:share=1,spread=0"], 0, 1, 10)
    assert not late.sent
    await until(lambda: len(late.sent) == 20)


@pytest.mark.parametrize("words", [["crash:node=1,at=3"], ["loss:share=2"], ["loss", "constant"], ["hail"]], ids=str)
def test_faults_that_make_no_sense(words: list[str]) -> None:
    with pytest.raises(UsageError, match="fault_injection"):
        Node(fault_injection=words)
