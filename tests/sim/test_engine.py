"""The engine: order of events, crashes, timers, determinism."""

from collections.abc import Hashable, Iterable
from itertools import pairwise

import pytest

from antecede.core import LimitError, Message, Packet, Process, UsageError
from antecede.sim import RunSpec, Simulation, run, simulate
from antecede.sim.faults import crashing
from antecede.sim.network import PacketSwitched, constant
from antecede.sim.units import TICKS
from antecede.trace import Event, Recorder
from antecede.trace.files import write_trace
from tests.sim.plain_queue import PlainSimulation


class Note(Packet, frozen=True):
    text: str


class Counter(Process):
    """Counts wake-ups and packets, keeps the count, and answers each packet."""

    def __init__(self, node: int) -> None:
        super().__init__(node)
        self.count = 0
        self.log: list[str] = []

    def start(self) -> None:
        self.out.wake_after(10 * TICKS, "tick")

    def publish(self, topic: str, payload: bytes) -> Message:
        message = Message(topic, self.node, 1, (), payload)
        self.out.send(1 - self.node, Note("hello"))
        return message

    def receive(self, sender: int, packet: Packet) -> None:
        assert isinstance(packet, Note)
        self.log.append(packet.text)

    def wake(self, timer: Hashable) -> None:
        self.count += 1
        self.out.keep(self.count)
        if self.count < 4:
            self.out.wake_after(10 * TICKS, "tick")

    def restore(self, records: Iterable[object]) -> None:
        for record in records:
            assert isinstance(record, int)
            self.count = record

    def size(self, packet: Packet) -> int:
        return 100


def test_a_crash_loses_memory_and_packets_but_not_what_was_kept() -> None:
    simulation = Simulation(Counter, range(2), PacketSwitched(constant(5 * TICKS)))
    crashing(simulation, 0, at=25 * TICKS, back=100 * TICKS)
    simulation.at(22 * TICKS, lambda: simulation.publish(1, "t", b"") and None)  # arrives at 27, while 0 is down
    simulation.run(until=24 * TICKS)
    before = simulation.processes[0]
    assert isinstance(before, Counter)
    assert before.count == 2
    simulation.run()
    after = simulation.processes[0]
    assert isinstance(after, Counter)
    assert after is not before
    assert after.log == []
    assert after.count == 4, "restored at 2, then two more timers; the old incarnation's timer must not fire"
    assert simulation.now == 120 * TICKS


def test_nothing_is_published_at_a_node_that_is_down() -> None:
    simulation = Simulation(Counter, range(2), PacketSwitched(constant(1)))
    simulation.crash(0)
    assert simulation.publish(0, "t", b"") is None


def test_run_until_stops_the_clock_there() -> None:
    simulation = Simulation(Counter, range(2), PacketSwitched(constant(1)))
    simulation.run(until=15 * TICKS)
    assert simulation.now == 15 * TICKS
    assert simulation.pending == 2


@pytest.mark.parametrize("protocol", ["causal-aggregation", "timer-bundling"])
def test_same_seed_same_trace_to_the_byte(protocol: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    def file(seed: int, name: str) -> bytes:
        spec = RunSpec(protocol=protocol, nodes=16, seed=seed, faults=("duplication:share=0.1",))
        trace = simulate(spec, trace=True).trace
        assert trace is not None
        write_trace(trace.table("run"), tmp_path / name)
        return (tmp_path / name).read_bytes()

    assert file(7, "a") == file(7, "b")
    assert file(7, "c") != file(8, "d")


@pytest.mark.parametrize(
    "spec",
    [
        RunSpec(protocol="causal-aggregation", nodes=32, seed=3),
        RunSpec(protocol="causal-aggregation", nodes=16, seed=3, network="constant", workload="uniform:window=3"),
        RunSpec(protocol="timer-bundling", nodes=16, seed=3, network="peersim", faults=("duplication:share=0.2",)),
        RunSpec(protocol="vcube-ps", nodes=32, seed=3, network="peersim", options={"mode": "faithful"}),
        RunSpec(
            protocol="vcube-ps",
            nodes=16,
            seed=3,
            network="peersim",
            workload="churn:size=8,messages=20",
            faults=("loss:share=0.1", "crash:node=3,at=300,back=2000"),
            options={"diagnosis": 8},
        ),
    ],
    ids=lambda spec: f"{spec.protocol} on {spec.network}",
)
def test_the_queue_is_the_plainest_one_only_quicker(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = simulate(spec, trace=True)
    monkeypatch.setattr(run, "Simulation", PlainSimulation)
    plain = simulate(spec, trace=True)
    assert quick.trace is not None
    assert plain.trace is not None
    assert list(quick.trace.rows()) == list(plain.trace.rows())
    assert quick.metrics == plain.metrics


def test_observing_changes_nothing() -> None:
    spec = RunSpec(protocol="causal-aggregation", nodes=32, seed=2)
    bare, watched = simulate(spec, measure=False), simulate(spec, trace=True)
    assert bare.metrics["finished"] == watched.metrics["finished"]
    assert bare.metrics["events"] == watched.metrics["events"]
    assert bare.trace is None


def test_trace_rows_of_one_packet() -> None:
    """A send row and a receive row a message, the same number on both, hops counted from the publisher."""
    trace = simulate(RunSpec(protocol="causal-aggregation", nodes=4, seed=1, network="constant"), trace=True).trace
    assert isinstance(trace, Recorder)
    rows = list(trace.rows())
    sends = {(row.packet, row.source, row.seq): row for row in rows if row.event is Event.SEND}
    receives = [row for row in rows if row.event is Event.RECEIVE]
    assert len(receives) == len(sends) == 4 * 3
    for row in receives:
        sent = sends[row.packet, row.source, row.seq]
        assert (sent.node, sent.peer) == (row.peer, row.node)
        assert row.time_us - sent.time_us >= 102 * TICKS
        assert row.bytes == sent.bytes >= 76
        assert row.hops == (row.node ^ row.source).bit_count()
    assert all(later.time_us >= earlier.time_us for earlier, later in pairwise(rows))


def test_the_command_of_a_run_describes_it_whole() -> None:
    spec = RunSpec(
        protocol="causal-aggregation",
        nodes=8,
        seed=9,
        network="constant:delay=5",
        workload="uniform:window=10",
        faults=("loss:share=0.5",),
        options={"aggregate": False},
    )
    assert spec.command() == (
        "antecede simulate causal-aggregation --nodes 8 --seed 9 --network constant:delay=5 --workload "
        "uniform:window=10 --fault loss:share=0.5 --option aggregate=false"
    )
    assert spec.key() != RunSpec(protocol="causal-aggregation", nodes=8, seed=9).key()


# -- runs that do not end ---------------------------------------------------------------------------------------------


def test_a_run_that_never_comes_to_rest_is_ended_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """LoCaMu retransmits to a crashed neighbour that it does not suspect, for ever."""
    monkeypatch.setattr(run, "IDLE_EVENTS_MAX", 20_000)
    unnoticed = RunSpec(protocol="locamu", nodes=6, faults=("crash:node=3,at=150",))
    with pytest.raises(LimitError, match="let crashes be noticed"):
        simulate(unnoticed)
    simulate(RunSpec(protocol="locamu", nodes=6, faults=("crash:node=3,at=150,noticed=50",)))


def test_negative_seeds_are_refused() -> None:
    """Python's generator would take −1, and other parts of a run might not."""
    with pytest.raises(UsageError, match="choose 0 or more"):
        simulate(RunSpec(protocol="vcube-ps", nodes=4, seed=-1))
