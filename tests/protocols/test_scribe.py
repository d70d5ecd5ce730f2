"""Scribe against its paper: where trees run, that they carry everything and heal, and what it does not promise.

DRScribe and Magnet choose other trees, and keep the same promises.
"""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.audit import audit
from antecede.core import Packet, ProtocolError
from antecede.overlay.pastry import Pastry, name_of
from antecede.protocols.magnet.positions import likeness, positions
from antecede.protocols.registry import options
from antecede.protocols.scribe.options import ScribeOptions
from antecede.sim import RunSpec, simulate
from antecede.sim.engine import Simulation
from antecede.sim.network import Network, PacketSwitched, constant, heavy_tailed
from antecede.sim.tracing import Tracer
from antecede.sim.units import TICKS, ticks
from antecede.trace import Event, Recorder

T = "t"
PROMISED = ("exactly-once", "no-invention", "complete", "agreement")
#: A filter of one bit says of a node that takes any topic that it takes all. All nodes take another topic then.
SYSTEMS: dict[str, dict[str, object]] = {
    "scribe": {},
    "drscribe": {},
    "drscribe, wrong filters": {"filter_bits": 1, "hashes": 1, "refresh": 50},
    "magnet": {},
}


def world(
    nodes: int, members: list[int], network: Network | None = None, system: str = "scribe"
) -> tuple[Simulation, Recorder]:
    chosen = options(system.partition(",")[0], {"digit": 2, "leaves": 2, **SYSTEMS[system]})
    assert isinstance(chosen, ScribeOptions)
    make = chosen.build_groups(nodes, {T: members, "other": range(nodes) if "wrong" in system else []})
    recorder = Recorder()
    tracer = Tracer(recorder)
    simulation = Simulation(make, range(nodes), network or PacketSwitched(constant(100 * TICKS)), [tracer])
    for node in members:
        tracer.changed(0, node, "subscribe", T)
    return simulation, recorder


def delivered(recorder: Recorder) -> list[tuple[int, int, int]]:
    return [(row.node, row.source, row.seq) for row in recorder.rows() if row.event is Event.DELIVER]


def test_a_message_goes_to_the_root_and_down_the_ways_the_joins_came() -> None:
    members = [0, 3, 7, 11, 19]
    simulation, recorder = world(24, members)
    simulation.publish(5, T, b"")
    simulation.run()
    ring, key = Pastry(24, digit_bits=2, leaves=2), name_of(T)
    hops = set()
    for start in members:
        here = start
        while (hop := ring.next_hop(here, key)) is not None:
            hops.add((hop, here))
            here = hop
    sends = [(row.node, row.peer) for row in recorder.rows() if row.event is Event.SEND]
    root = ring.root(key)
    to_root = sends[: next(place for place, (sender, _) in enumerate(sends) if sender == root)]
    assert to_root[0][0] == 5
    assert to_root[-1][1] == root
    assert set(sends[len(to_root) :]) == hops, "and every edge once"
    assert len(sends) == len(to_root) + len(hops)
    assert sorted(node for node, _, _ in delivered(recorder)) == members


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(0, 10_000))
def test_nothing_is_lost_while_members_come_and_go(nodes: int, seed: int) -> None:
    """On links that reorder: from the moment a node is told it has joined, it gets all that is published."""
    come_and_go("scribe", nodes, seed)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(SYSTEMS.keys() - {"scribe"})), st.integers(1, 40), st.integers(0, 10_000))
def test_nothing_is_lost_by_those_with_fewer_relays(system: str, nodes: int, seed: int) -> None:
    come_and_go(system, nodes, seed)


def come_and_go(system: str, nodes: int, seed: int) -> None:
    rng = random.Random(seed)
    network = PacketSwitched(heavy_tailed(rng, 50 * TICKS, 1.5))
    simulation, recorder = world(nodes, [node for node in range(nodes) if rng.random() < 0.3], network, system)
    for _ in range(60):
        node, when = rng.randrange(nodes), ticks(rng.uniform(0, 4000))
        deed = rng.choice([simulation.subscribe, simulation.unsubscribe, None, None])
        if deed is None:
            simulation.at(when, lambda node=node: simulation.publish(node, T, b""))
        else:
            simulation.at(when, lambda node=node, deed=deed: deed(node, T))
    simulation.run()
    report = audit(recorder.rows(), rules=PROMISED)
    assert report.ok, report


@pytest.mark.parametrize("system", SYSTEMS)
def test_trees_heal_around_the_dead(system: str) -> None:
    """Every node but the members and the publisher is taken down in turn, the root too; what comes after arrives."""
    members, nodes = [2, 9, 14, 21, 30], 32
    for victim in sorted(set(range(nodes)) - {*members, 5}):
        simulation, recorder = world(nodes, members, system=system)
        simulation.publish(5, T, b"before")
        simulation.run()
        simulation.crash(victim)
        for node in range(nodes):
            if node != victim:
                simulation.suspect(node, victim)
        simulation.run()
        simulation.publish(5, T, b"while it is down")
        simulation.run()
        simulation.recover(victim)
        for node in range(nodes):
            simulation.trust(node, victim)
        simulation.run()
        simulation.publish(5, T, b"after")
        simulation.run()
        expected = sorted((node, 5, seq) for node in members for seq in (1, 2, 3))
        assert sorted(delivered(recorder)) == expected, f"{victim} was down"


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_false_suspicion_costs_nothing_that_comes_after_it(system: str) -> None:
    members = [1, 6, 12, 13]
    simulation, recorder = world(16, members, system=system)
    for accused in range(16):
        for node in range(16):
            if node != accused:
                simulation.suspect(node, accused)
        simulation.run()
        for node in range(16):
            if node != accused:
                simulation.trust(node, accused)
        simulation.run()
    simulation.publish(0, T, b"")
    simulation.run()
    assert sorted(delivered(recorder)) == [(node, 0, 1) for node in members]


def test_it_orders_nothing() -> None:
    """Why it needs something on top of it: on links that reorder, answers overtake questions."""
    spec = RunSpec(protocol="scribe", nodes=32, network="heavy-tailed", workload="discussion")
    trace = simulate(spec, trace=True).trace
    assert trace is not None
    assert audit(trace.rows(), rules=PROMISED).ok
    assert "causal" in audit(trace.rows()).violated


def test_foreign_packets_are_refused() -> None:
    simulation, _ = world(4, [])
    with pytest.raises(ProtocolError, match="none of Scribe's"):
        simulation.processes[0].receive(1, Packet())


def relays(system: str, workload: str) -> int:
    protocol = system.partition(",")[0]
    spec = RunSpec(protocol=protocol, nodes=256, workload=workload, options={"digit": 2, **SYSTEMS[system]})
    return int(simulate(spec).metrics["relayed"])  # type: ignore[call-overload]


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_others_have_fewer_relays_than_scribe(share: float) -> None:
    scribe, *others = [relays(system, f"one:subscribers={share}") for system in ("scribe", "drscribe", "magnet")]
    assert max(others) < scribe / 2


def test_a_wrong_filter_costs_relays() -> None:
    """And no message: see above."""
    right, wrong = (relays(system, "overlapping:taken=1,messages=20") for system in list(SYSTEMS)[1:3])
    assert wrong > 2 * right


def test_magnet_puts_the_like_minded_together() -> None:
    """In the order of positions, round the circle, the subscribers of each of three topics follow each other."""
    interests = {node: {"abc"[node % 3]} for node in range(0, 80, 2)}
    placed = positions(80, interests, sample=100)
    assert len(set(placed.nodes)) == 80
    around = sorted(range(80), key=placed.nodes.__getitem__)
    topics = ["".join(interests.get(node, "")) for node in around]
    begins = [topic for before, topic in zip([topics[-1], *topics], topics, strict=False) if topic != before]
    assert sorted(filter(None, begins)) == ["a", "b", "c"]
    assert placed.topics == {"abc"[node % 3]: placed.nodes[node] for node in (0, 2, 4)}, "at the first subscriber"


def test_magnet_puts_nodes_nearer_the_more_they_have_in_common() -> None:
    """Of 40 nodes that take three topics in a row of ten, a node and the next on the ring have most in common."""
    interests = {node: {str((node * 7 + step) % 10) for step in range(3)} for node in range(40)}
    placed = positions(40, interests, sample=40)
    around = sorted(range(40), key=placed.nodes.__getitem__)
    beside = [likeness(interests[one], interests[other]) for one, other in pairwise(around)]
    by_number = [likeness(interests[one], interests[one + 1]) for one in range(39)]
    assert sum(beside) > 3 * sum(by_number)
