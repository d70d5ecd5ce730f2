"""VCube's diagnosis against thesis 2.4: who tests whom, how soon everybody knows, what happens to mistakes."""

import random
from math import log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.audit import DEFAULT_RULES, audit
from antecede.core import Message, Packet, Process, ProtocolError, UsageError
from antecede.overlay.vcube import VCube
from antecede.protocols.diagnosis.diagnosed import Diagnosed
from antecede.protocols.diagnosis.packets import Probe, Reply
from antecede.protocols.diagnosis.process import Diagnosis
from antecede.protocols.diagnosis.records import Life
from antecede.sim import RunSpec, simulate
from antecede.sim.engine import Simulation
from antecede.sim.faults import losing, partitioned
from antecede.sim.network import PacketSwitched, constant, heavy_tailed
from antecede.sim.units import TICKS
from tests.protocols.diagnosis_world import DELAY, INTERVAL, TIMEOUT, World, crash_and_count


def knowing(node: int, nodes: int, down: set[int]) -> Diagnosis:
    """A node that takes `down` for down."""
    diagnosis = Diagnosis(node, nodes, interval_us=10, timeout_us=5)
    diagnosis.receive(min(set(range(nodes)) - down - {node}), Reply(0, 0, 1, tuple((other, 1) for other in down)))
    return diagnosis


# -- who tests whom ---------------------------------------------------------------------------------------------------


def test_without_failures_a_node_tests_its_neighbours_in_the_cube() -> None:
    """Thesis 2.4: "p0 only performs tests on nodes 1, 2, 4"."""
    assert Diagnosis(0, 8, interval_us=10, timeout_us=5).tested() == (1, 2, 4)


@given(st.data())
def test_a_node_is_tested_by_the_first_live_node_of_each_of_its_clusters(data: st.DataObject) -> None:
    nodes = data.draw(st.integers(3, 70))
    node = data.draw(st.integers(0, nodes - 1))
    down = data.draw(st.sets(st.integers(0, nodes - 1).filter(lambda other: other != node), max_size=nodes - 2))
    cube = VCube(nodes, absent=down)
    expected = {
        other for other in range(nodes) if other != node and cube.first_child(other, VCube.cluster(other, node)) == node
    }
    tested = knowing(node, nodes, down).tested()
    assert set(tested) == expected
    assert len(tested) == len(expected)


@given(st.data())
def test_a_round_costs_the_same_however_many_numbers_are_vacant(data: st.DataObject) -> None:
    nodes = data.draw(st.integers(2, 12))
    node = data.draw(st.integers(0, nodes - 1))
    plain = Diagnosis(node, nodes, interval_us=10, timeout_us=5)
    roomy = Diagnosis(node, 1024, interval_us=10, timeout_us=5)
    for number in range(nodes, 1024):
        roomy.vacate(number)
    assert roomy.tested() == plain.tested()
    roomy.occupy(nodes)
    assert set(roomy.tested()) == set(Diagnosis(node, nodes + 1, interval_us=10, timeout_us=5).tested())
    roomy.vacate(nodes)
    roomy.hear(nodes)  # a sign of its node is enough
    assert set(roomy.tested()) == set(Diagnosis(node, nodes + 1, interval_us=10, timeout_us=5).tested())


@pytest.mark.parametrize("nodes", [8, 64])
def test_a_round_costs_n_log_n_tests_and_everyone_is_tested_log_n_times(nodes: int) -> None:
    world = World(nodes, rounds=1)
    world.simulation.run()
    assert world.simulation.packets == 2 * nodes * log2(nodes)  # tests and answers
    assert world.changes == []


# -- how soon everybody knows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [8, 16, 32, 64])
def test_log_n_rounds_on_average_for_one_failure(nodes: int) -> None:
    """Thesis 2.4: log₂N rounds on average, log₂²N in the worst case."""
    counts: list[int] = []
    for node in random.Random(nodes).sample(range(nodes), 8):
        world, rounds = crash_and_count(nodes, [node], rounds=int(log2(nodes)) + 2)
        assert world.agreed([node])
        counts += rounds[node]
    assert sum(counts) / len(counts) <= log2(nodes)
    assert max(counts) <= log2(nodes)


@settings(max_examples=25, deadline=None)
@given(st.integers(3, 5), st.data())
def test_log_squared_rounds_at_worst_whoever_fails(dimension: int, data: st.DataObject) -> None:
    nodes = 1 << dimension
    down = data.draw(st.sets(st.integers(0, nodes - 1), min_size=1, max_size=nodes - 1))
    world, rounds = crash_and_count(nodes, sorted(down), rounds=dimension**2 + 1)
    assert world.agreed(down)
    assert max(count for counts in rounds.values() for count in counts) <= dimension**2


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_log_squared_rounds_after_the_last_failure(seed: int) -> None:
    """Failures one after the other, also of those who had just found out: the bound counts from the last one."""
    dimension, rng = 4, random.Random(seed)
    world = World(16, rounds=60)
    simulation = world.simulation
    down: set[int] = set()
    simulation.run(until=INTERVAL - TICKS)
    for _ in range(rng.randint(1, 12)):
        knows = [node for node in simulation.processes if down & world.down_at(node)]
        node = rng.choice(knows if knows and rng.random() < 0.7 else sorted(simulation.processes))
        down.add(node)
        simulation.crash(node)
        simulation.run(until=simulation.now + rng.randint(0, 2) * INTERVAL)
    simulation.run(until=simulation.now + (dimension**2 + 1) * INTERVAL)
    assert world.agreed(down)


def test_the_last_node_standing_finds_out() -> None:
    world, rounds = crash_and_count(16, range(1, 16), rounds=16)
    assert world.agreed(range(1, 16))
    assert max(count for counts in rounds.values() for count in counts) <= 16


# -- coming back, and mistakes ----------------------------------------------------------------------------------------


def test_a_node_that_comes_back_is_seen_to() -> None:
    world = World(16, rounds=20)
    world.simulation.at(INTERVAL // 2, lambda: world.simulation.crash(5))
    world.simulation.at(8 * INTERVAL + 1, lambda: world.simulation.recover(5))
    world.simulation.run(until=8 * INTERVAL)
    assert world.agreed([5])
    world.simulation.run()
    assert world.agreed([])
    assert max(world.rounds_to_know(5, 8 * INTERVAL + 1, up=True)) <= log2(16)


def test_a_failure_nobody_noticed_is_still_told() -> None:
    """Between two rounds a node stops and starts again, its memory gone: peers hear of both."""
    world = World(8, rounds=8)
    world.simulation.at(INTERVAL // 2, lambda: world.simulation.crash(3))
    world.simulation.at(INTERVAL // 2 + 2 * DELAY, lambda: world.simulation.recover(3))
    world.simulation.run()
    for node in set(range(8)) - {3}:
        assert [change.up for change in world.changes if change.node == node and change.about == 3] == [False, True]


def test_a_wrong_suspicion_is_corrected() -> None:
    """Node 2 is cut off for two rounds: everybody suspects it, it suspects everybody, and all of it is taken back."""
    network = partitioned(PacketSwitched(constant(DELAY)), [2], INTERVAL - 1, 3 * INTERVAL - 1)
    world = World(8, rounds=12, network=network)
    world.simulation.run(until=3 * INTERVAL - 1)
    assert world.down_at(2) != frozenset()
    assert any(2 in world.down_at(node) for node in range(8))
    world.simulation.run()
    assert world.agreed([])


def test_a_node_refutes_its_own_failure() -> None:
    diagnosis = Diagnosis(1, 4, interval_us=10, timeout_us=5)
    diagnosis.receive(0, Reply(0, 0, 1, ((1, 1),)))
    assert diagnosis.is_up(1)
    diagnosis.receive(0, Probe(7, 0, 0))
    (to, reply) = diagnosis.out.sends[-1]
    assert to == 0
    assert isinstance(reply, Reply)
    assert reply.news == ((1, 2),)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_after_any_confusion_everybody_agrees_with_the_truth(seed: int) -> None:
    """Crashes, recoveries, lost and late packets for a while; then a calm network, and all is known as it is."""
    nodes, rng = 12, random.Random(seed)
    wild = losing(
        PacketSwitched(heavy_tailed(random.Random(f"{seed}/net"), DELAY, 1.3)), 0.1, random.Random(f"{seed}/loss")
    )
    calm = PacketSwitched(constant(DELAY))

    class LinkFaults:
        weighs = False

        def arrivals(self, now: int, sender: int, to: int, size: int):  # type: ignore[no-untyped-def]
            if now >= 10 * INTERVAL:
                return calm.arrivals(now, sender, to, size)
            return [time for time in wild.arrivals(now, sender, to, size) if time < 15 * INTERVAL]

    world = World(nodes, rounds=32, network=LinkFaults())
    for _ in range(6):
        node, when = rng.randrange(nodes), rng.randrange(8 * INTERVAL)
        world.simulation.at(when, lambda node=node: world.simulation.crash(node))
        if rng.random() < 0.7:
            back = when + rng.randrange(2 * INTERVAL)
            world.simulation.at(back, lambda node=node: world.simulation.recover(node))
    world.simulation.run()
    up = set(world.simulation.processes)
    assert world.agreed(set(range(nodes)) - up)


def test_answers_carry_only_what_is_new() -> None:
    diagnosis = knowing(0, 8, {3, 5})
    diagnosis.receive(1, Probe(1, 0, 0))
    first = diagnosis.out.sends[-1][1]
    assert isinstance(first, Reply)
    assert set(first.news) == {(3, 1), (5, 1)}
    diagnosis.receive(1, Probe(2, first.life, first.version))
    assert diagnosis.out.sends[-1][1] == Reply(2, first.life, first.version, ())


# -- under a protocol -------------------------------------------------------------------------------------------------


class Listening(Process):
    """A protocol that writes down what its failure detector says."""

    def __init__(self, node: int) -> None:
        super().__init__(node)
        self.heard: list[tuple[int, bool]] = []

    def publish(self, topic: str, payload: bytes) -> Message:
        message = Message(topic, self.node, 1, (), payload)
        self.out.deliver(message)
        return message

    def receive(self, sender: int, packet: Packet) -> None:
        raise AssertionError("nobody sends")

    def size(self, packet: Packet) -> int:
        return 1

    def peer_down(self, node: int) -> None:
        self.heard.append((node, False))

    def peer_up(self, node: int) -> None:
        self.heard.append((node, True))


def test_a_protocol_hears_from_the_diagnosis_under_it() -> None:
    inner: dict[int, Listening] = {}

    def make(node: int) -> Process:
        inner[node] = Listening(node)
        return Diagnosed(
            inner[node],
            lambda tell: Diagnosis(node, 8, interval_us=INTERVAL, timeout_us=TIMEOUT, rounds=12, tell=tell),
        )

    simulation = Simulation(make, range(8), PacketSwitched(constant(DELAY)))
    simulation.at(INTERVAL // 2, lambda: simulation.crash(6))
    simulation.at(5 * INTERVAL + TICKS, lambda: simulation.recover(6))
    simulation.run()
    for node in set(range(8)) - {6}:
        assert inner[node].heard == [(6, False), (6, True)]
    assert simulation.publish(2, "t", b"x") == Message("t", 2, 1, (), b"x")


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_refusals() -> None:
    with pytest.raises(UsageError, match="must be shorter than a round"):
        Diagnosis(0, 4, interval_us=10, timeout_us=10)
    with pytest.raises(UsageError, match="node 4"):
        Diagnosis(4, 4, interval_us=10, timeout_us=5)
    diagnosis = Diagnosis(0, 4, interval_us=10, timeout_us=5)
    with pytest.raises(UsageError, match="carries no messages"):
        diagnosis.publish("t", b"")
    with pytest.raises(ProtocolError, match="not another node"):
        diagnosis.receive(0, Probe(1, 0, 0))
    with pytest.raises(ProtocolError, match="news of node 9"):
        diagnosis.receive(1, Reply(1, 0, 1, ((9, 1),)))


def test_the_next_life_is_higher() -> None:
    diagnosis = Diagnosis(0, 4, interval_us=10, timeout_us=5)
    diagnosis.restore([Life(0), Life(2)])
    diagnosis.start()
    assert diagnosis.out.kept == [Life(4)]


def test_vcube_ps_over_its_own_diagnosis_survives_crashes() -> None:
    """One node stops for good, one comes back after a while, one before anybody notices; forwarders and publishers."""
    for seed in (1, 2):
        run = simulate(
            RunSpec(
                protocol="vcube-ps",
                nodes=16,
                seed=seed,
                workload="churn:subscribers=0.75,messages=40,interval=100",
                options={"mode": "pipelined", "diagnosis": 30},
                faults=("crash:node=5,at=1700", "crash:node=3,at=2100,back=9000", "crash:node=9,at=2100,back=2200"),
            ),
            trace=True,
        )
        assert run.trace is not None
        # Edges are crossed again: what a dead node may not have passed on is sent once more.
        report = audit(run.trace.rows(), rules=tuple(rule for rule in DEFAULT_RULES if rule != "tree-edges-once"))
        assert report.ok, report
        assert run.metrics["still_held"] == 0


def test_a_diagnosed_protocol_answers_every_question_of_the_contract() -> None:
    """A member of the contract that `Diagnosed` does not pass on would answer with the default for a live node."""
    same = {"reports_membership", "reads_log", "shares_outbox"}  # it arms timers, so it never shares an outbox
    questions = {name for name in vars(Process) if not name.startswith("_")} - same
    above = Diagnosed.__mro__[: Diagnosed.__mro__.index(Process)]
    answered = {name for one in above for name in vars(one)}
    assert questions <= answered, questions - answered
