"""Random trees, groups and conversations for the flooding protocols, and the judge."""

import random
from collections.abc import Callable, Mapping, Sequence

from hypothesis import strategies as st

from antecede.audit import Report, audit
from antecede.core import Message, Process
from antecede.overlay.graph import BaseGraph
from antecede.protocols.flooding import Routes
from antecede.sim.engine import Simulation
from antecede.sim.network import Network, PacketSwitched, constant, heavy_tailed
from antecede.sim.tracing import Tracer
from antecede.sim.units import TICKS
from antecede.trace import Recorder, Row

Make = Callable[[int, Routes], Process]


@st.composite
def trees(draw: st.DrawFn, most: int = 9) -> BaseGraph:
    nodes = draw(st.integers(2, most))
    return BaseGraph(nodes, [(draw(st.integers(0, node - 1)), node) for node in range(1, nodes)])


@st.composite
def groups(draw: st.DrawFn, graph: BaseGraph, most: int = 4) -> dict[str, list[int]]:
    everyone = st.integers(0, graph.nodes - 1)
    return {name: sorted(draw(st.sets(everyone, min_size=1))) for name in "abcd"[: draw(st.integers(1, most))]}


def overtaking(seed: int) -> Network:
    return PacketSwitched(heavy_tailed(random.Random(f"{seed}/net"), TICKS, 1.2))


def steady() -> Network:
    return PacketSwitched(constant(TICKS))


def talk(
    make: Make,
    graph: BaseGraph,
    members: Mapping[str, Sequence[int]],
    network: Network,
    *,
    seed: int,
    messages: int = 40,
    answers: float = 0.4,
) -> tuple[list[Row], Simulation]:
    """Members say something at random, and answer what they read, on any of their topics."""
    recorder, rng, routes = Recorder(), random.Random(f"{seed}/talk"), Routes(graph, members)
    tracer = Tracer(recorder)
    simulation = Simulation(lambda node: make(node, routes), range(graph.nodes), network, [tracer])
    for topic, taken in members.items():
        for node in taken:
            tracer.changed(0, node, "subscribe", topic)
    left = messages

    def speak(node: int) -> None:
        nonlocal left
        mine = [topic for topic, taken in members.items() if node in taken]
        if left and mine:
            left -= 1
            simulation.publish(node, rng.choice(mine), b"x")

    def answer(node: int, message: Message) -> None:
        if message.source != node and rng.random() < answers:
            simulation.at(simulation.now, lambda: speak(node))

    simulation.on_delivery = answer
    for _ in range(messages // 3):
        time, node = rng.randrange(10 * TICKS), rng.randrange(graph.nodes)
        simulation.at(time, lambda node=node: speak(node))  # type: ignore[misc]
    simulation.run()
    return list(recorder.rows()), simulation


def judge(rows: list[Row], rules: Sequence[str] | None = None) -> Report:
    chosen = ("causal", "fifo", "exactly-once", "no-invention", "complete", "agreement") if rules is None else rules
    return audit(rows, rules=chosen, across_topics=True)
