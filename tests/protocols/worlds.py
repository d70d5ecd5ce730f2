"""Small worlds for protocol tests: processes, a network, a load, a trace."""

import random
from collections.abc import Callable

from antecede.audit import Report, audit
from antecede.core import Process
from antecede.overlay.trees import PerSourceTrees
from antecede.overlay.vcube import VCube
from antecede.protocols.aggregation.broadcast import CausalBroadcast
from antecede.protocols.aggregation.process import CausalAggregation
from antecede.protocols.sizes import ByteModel
from antecede.sim.engine import Simulation
from antecede.sim.network import Network, PacketSwitched, heavy_tailed
from antecede.sim.tracing import Tracer
from antecede.sim.units import TICKS
from antecede.trace import Event, Recorder, Row


def aggregation(nodes: int, sizes: ByteModel = ByteModel()) -> Callable[[int], Process]:  # noqa: B008 - frozen
    trees = PerSourceTrees(VCube(nodes))
    return lambda node: CausalAggregation(node, trees, sizes)


def one_by_one(nodes: int) -> Callable[[int], Process]:
    trees = PerSourceTrees(VCube(nodes))
    return lambda node: CausalBroadcast(node, trees, ByteModel())


def heavy(seed: int) -> Network:
    return PacketSwitched(heavy_tailed(random.Random(f"{seed}/net"), 100 * TICKS, 1.2), processing=TICKS)


def play(
    make_process: Callable[[int], Process],
    nodes: int,
    network: Network,
    *,
    messages: int,
    window: int,
    seed: int,
    steps_max: int = 200_000,
) -> tuple[list[Row], Simulation]:
    """Every node publishes `messages` times at random in the window. Returns what happened."""
    recorder = Recorder()
    tracer = Tracer(recorder)
    simulation = Simulation(make_process, range(nodes), network, [tracer])
    for node in range(nodes):
        tracer.changed(0, node, "subscribe", "t")
    rng = random.Random(f"{seed}/load")
    for node in range(nodes):
        for _ in range(messages):
            simulation.at(rng.randrange(window * TICKS), lambda node=node: simulation.publish(node, "t", bytes(50)))
    # A broken variant may send for ever: a bound, so that its test fails instead of hanging.
    while simulation.pending and simulation.steps < steps_max:
        simulation.run(until=simulation.now + 1000 * TICKS)
    return list(recorder.rows()), simulation


def judge(rows: list[Row]) -> Report:
    return audit(rows)


def deliveries(rows: list[Row]) -> list[tuple[int, int, int, int]]:
    return [(row.time_us, row.node, row.source, row.seq) for row in rows if row.event is Event.DELIVER]


def packets(rows: list[Row]) -> list[tuple[int, int, int, int, int, int]]:
    return [
        (row.time_us, row.node, row.peer, row.packet, row.source, row.seq) for row in rows if row.event is Event.SEND
    ]
