"""The faithful mode: what thesis chapter 5 says of its algorithm, with our figures."""

from functools import partial

import pytest

from antecede.audit import audit
from antecede.core import ProtocolError, UsageError
from antecede.protocols.registry import options
from antecede.protocols.vcube_ps import FaithfulVCubePs, TopicOrder
from antecede.protocols.vcube_ps.options import VCubePsOptions
from antecede.protocols.vcube_ps.packets import Ack, Probe
from antecede.sim import RunSpec, simulate
from antecede.sim.engine import Simulation
from antecede.sim.network import PacketSwitched, constant
from antecede.sim.tracing import Tracer
from antecede.sim.units import TICKS, ticks
from antecede.sim.workload import ignore
from antecede.trace import Event, Recorder


class Joins(Tracer):
    """Notes who has joined when, and nothing else."""

    def __init__(self, joined: list[tuple[float, int]]) -> None:
        super().__init__(Recorder())
        self._joined = joined

    def changed(self, now: int, node: int, what: str, topic: str) -> None:
        self._joined.append((now / TICKS, node))

    def sent(self, *event: object) -> None: ...
    def received(self, *event: object) -> None: ...


class World:
    """A simulation over links of 100 u.t., with its trace."""

    def __init__(self, nodes: int, members: dict[str, list[int]], *, trace: bool = True, **values: object) -> None:
        chosen = options("vcube-ps", {"mode": "faithful", **values})
        assert isinstance(chosen, VCubePsOptions)
        self.recorder = Recorder()
        self.joined: list[tuple[float, int]] = []
        tracer = Tracer(self.recorder) if trace else Joins(self.joined)
        network = PacketSwitched(constant(ticks(100)))
        self.simulation = Simulation(chosen.build_groups(nodes, members), range(nodes), network, [tracer])
        for topic, taken in members.items():
            for node in taken:
                tracer.changed(0, node, "subscribe", topic)

    def process(self, node: int) -> FaithfulVCubePs:
        process = self.simulation.processes[node]
        assert isinstance(process, FaithfulVCubePs)
        return process

    def publish_at(self, time: float, node: int) -> None:
        self.simulation.at(ticks(time), lambda: ignore(self.simulation.publish(node, "t", b"")))

    def times(self, event: Event, node: int | None = None) -> list[float]:
        return [row.time_us / TICKS for row in self.recorder.rows() if row.event is event and node in (None, row.node)]

    def ok(self) -> bool:
        return audit(self.recorder.rows(), across_topics=False).ok


@pytest.mark.parametrize("nodes", [2, 8, 13, 64])
@pytest.mark.parametrize("share", [0.25, 1.0])
def test_5_6_2_one_pub_and_one_ack_a_subscriber_and_no_relay(nodes: int, share: float) -> None:
    spec = RunSpec(
        protocol="vcube-ps", nodes=nodes, workload=f"uniform:subscribers={share}", options={"mode": "faithful"}
    )
    metrics = simulate(spec).metrics
    members = max(1, round(nodes * share))
    assert metrics["published"] == members
    assert metrics["sent"] == ({"pub": members * (members - 1), "ack": members * (members - 1)} if members > 1 else {})
    assert metrics["relayed"] == metrics["duplicates"] == metrics["still_held"] == 0


def test_5_4_2_stop_and_wait_sends_one_message_a_round_trip() -> None:
    """Three links of 100 down the tree of 8 nodes and three back: 600 u.t. a message."""
    world = World(8, {"t": list(range(8))})
    for _ in range(3):
        world.simulation.publish(0, "t", b"")
    world.simulation.run()
    assert world.times(Event.PUBLISH) == [0, 600, 1200]
    assert world.ok()


def test_a_message_that_waits_for_its_turn_is_stamped_then() -> None:
    world = World(4, {"t": [0, 1]})
    assert world.simulation.publish(0, "t", b"first") is not None
    assert world.simulation.publish(0, "t", b"second") is None
    world.publish_at(50, 1)
    world.simulation.run()
    (second,) = [row for row in world.recorder.rows() if row.event is Event.PUBLISH and (row.source, row.seq) == (0, 2)]
    assert second.deps == (("t", 1, 1),), "it was stamped after the message of 1 was delivered"


def test_only_subscribers_publish() -> None:
    world = World(4, {"t": [0, 1]})
    with pytest.raises(UsageError, match="node 3 does not subscribe to it; subscribe first"):
        world.simulation.publish(3, "t", b"")
    world.simulation.unsubscribe(0, "t")
    with pytest.raises(UsageError, match="subscribe first"):
        world.simulation.publish(0, "t", b"")


def test_asking_twice_changes_nothing() -> None:
    world = World(4, {"t": [0]})
    world.simulation.subscribe(0, "t")
    world.simulation.unsubscribe(3, "t")
    world.simulation.subscribe(2, "t")
    world.simulation.subscribe(2, "t")
    world.simulation.run()
    assert len(world.times(Event.SUBSCRIBE, 2)) == 1
    assert world.times(Event.UNSUBSCRIBE) == []
    assert world.process(2).unfinished() == []


def test_what_is_asked_is_done_in_the_order_it_was_asked() -> None:
    """Publish, leave, join again, publish: each when what came before it is acknowledged."""
    world = World(4, {"t": [0, 1]})
    for step in ("publish", "leave", "join", "publish"):
        {
            "publish": lambda: world.simulation.publish(0, "t", b""),
            "leave": lambda: world.simulation.unsubscribe(0, "t"),
            "join": lambda: world.simulation.subscribe(0, "t"),
        }[step]()
    world.simulation.run()
    story = [row.event.name for row in world.recorder.rows() if row.node == 0 and row.event in (0, 5, 6)]
    assert story == ["SUBSCRIBE", "PUBLISH", "UNSUBSCRIBE", "SUBSCRIBE", "PUBLISH"]
    assert world.ok()


def test_relays_are_temporary() -> None:
    """5.5.5: who has left forwards while its UNS spreads, and not after."""
    world = World(16, {"t": list(range(16))})
    for time in range(0, 6000, 50):
        world.publish_at(time, 5)
    world.simulation.at(ticks(1590), lambda: world.simulation.unsubscribe(4, "t"))
    world.simulation.run()
    relayed = [
        row.time_us / TICKS
        for row in world.recorder.rows()
        if row.event is Event.RECEIVE and row.node == 4 and row.source == 5 and row.time_us > ticks(1590)
    ]
    assert relayed == [1700]
    assert world.ok()


def test_barriers_without_pruning_name_more_and_order_the_same() -> None:
    sizes = {}
    for prune in (True, False):
        spec = RunSpec(
            protocol="vcube-ps",
            nodes=32,
            workload="uniform:window=1000",
            options={"mode": "faithful", "prune": prune},
        )
        result = simulate(spec, trace=True)
        assert result.trace is not None
        assert audit(result.trace.rows(), across_topics=False).ok
        counts = result.metrics["dependencies"]
        assert isinstance(counts, dict)
        sizes[prune] = sum(int(size) * count for size, count in counts.items()) / 32
    assert sizes[True] < sizes[False] / 2


def test_pruning_goes_with_order_by_topic() -> None:
    chosen = options("vcube-ps", {"mode": "pipelined", "prune": False})
    assert isinstance(chosen, VCubePsOptions)
    with pytest.raises(UsageError, match="across topics barriers are always pruned"):
        chosen.build_groups(4, {})


def test_what_it_does_not_know_is_refused() -> None:
    process = FaithfulVCubePs(0, 4, lambda: TopicOrder(0), {"t": 0b11})
    with pytest.raises(ProtocolError, match="not for this mode"):
        process.receive(1, Probe("t", 1))
    with pytest.raises(ProtocolError, match="does not wait for"):
        process.receive(1, Ack("t", 1, 1))


def test_46_joins_a_minute_leave_no_backlog() -> None:
    """Joins run side by side: each takes its two waves, however many there are (in turn: 21 a minute)."""
    took = join_times(nodes=128, members=64, joins=46, interval=60_000 / 46 / 10)
    assert took == [2 * 2 * 7 * 100] * 46


@pytest.mark.slow
def test_46_joins_a_minute_among_4000_leave_no_backlog() -> None:
    """The paper's churn (5.6.6): 4,000 subscribers, hops of 100 ms. Two waves down and up 12 hops: 4.8 s a join."""
    took = join_times(nodes=4096, members=4000, joins=46, interval=60_000 / 46)
    assert took == [2 * 2 * 12 * 100] * 46


def join_times(nodes: int, members: int, joins: int, interval: float) -> list[float]:
    """How long each of `joins` joins took, one begun every `interval`."""
    world = World(nodes, {"t": list(range(members))}, trace=False)
    for number in range(joins):
        world.simulation.at(ticks(number * interval), partial(world.simulation.subscribe, members + number, "t"))
    world.simulation.run()
    done = {node: time for time, node in world.joined}
    return [round(done[members + number] - number * interval, 3) for number in range(joins)]
