"""CBCAST, Causal Barriers and Delta-Neighbourhood: what each promises, on random trees with random groups."""

import asyncio
import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import Message, Packet, Process, ProtocolError, UsageError
from antecede.overlay.graph import BaseGraph
from antecede.overlay.graph_shapes import complete_tree, line, star
from antecede.protocols.flooding import CausalBarriers, Cbcast, DeltaNeighbourhood, Routes
from antecede.protocols.flooding.causal_barriers import Barred
from antecede.protocols.flooding.delta_neighbourhood import Confirm
from antecede.protocols.flooding.process import GROUP, HEADER, Carry
from antecede.protocols.options import GroupOptions, MakeProcess
from antecede.protocols.registry import options
from antecede.sim.engine import Simulation
from antecede.sim.faults import duplicating
from antecede.sim.network import PacketSwitched
from antecede.sim.tracing import Tracer
from antecede.sim.units import TICKS
from antecede.testing import SCENARIOS, TOPIC, MemoryWorld, Scenario, SimWorld, Subject, TcpWorld, play
from antecede.trace import Event, Recorder, Row
from tests.protocols.flooding.worlds import groups, judge, overtaking, steady, talk, trees

CAUSAL = [Cbcast, CausalBarriers]
SEEDS = st.integers(0, 10**6)


# -- routes -----------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.data())
def test_a_message_takes_the_paths_to_the_members_and_no_others(data: st.DataObject) -> None:
    graph = data.draw(trees(most=14))
    members = data.draw(groups(graph, most=1))["a"]
    routes = Routes(graph, {"a": members})
    source = data.draw(st.sampled_from(members))
    crossed = {step for member in members for step in _steps(graph.path(source, member))}
    found, todo = set(), [(source, None)]
    while todo:
        node, came_from = todo.pop()
        for hop in routes.hops("a", node, came_from):
            found.add((node, hop))
            todo.append((hop, node))
    assert found == crossed


def _steps(path: tuple[int, ...]) -> list[tuple[int, int]]:
    return list(pairwise(path))


# -- order ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", CAUSAL)
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_causal_complete_and_once_whatever_overtakes_or_comes_twice(make: type[Process], data: st.DataObject) -> None:
    graph = data.draw(trees())
    members = data.draw(groups(graph))
    seed = data.draw(SEEDS)
    network = overtaking(seed)
    if data.draw(st.booleans()):
        network = duplicating(network, 0.3, random.Random(seed), 5 * TICKS)
    rows, simulation = talk(make, graph, members, network, seed=seed)  # type: ignore[arg-type]
    report = judge(rows)
    assert report.ok, str(report)
    assert sum(process.held for process in simulation.processes.values()) == 0


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_delta_neighbourhood_keeps_each_publishers_order_and_delivers_all_once(data: st.DataObject) -> None:
    graph = data.draw(trees())
    members = data.draw(groups(graph))
    rows, simulation = talk(DeltaNeighbourhood, graph, members, overtaking(seed := data.draw(SEEDS)), seed=seed)
    report = judge(rows, ("fifo", "exactly-once", "no-invention", "complete", "agreement"))
    assert report.ok, str(report)
    for process in simulation.processes.values():
        assert process.held == 0
        assert process.state_bytes == 0, "it remembers nothing but what is in its hands"  # type: ignore[attr-defined]
    # One in flight: nobody publishes before everyone has its last.
    last: dict[int, tuple[str, int]] = {}
    missing: dict[int, int] = {}
    for row in rows:
        if row.event is Event.PUBLISH:
            assert missing.get(row.source, 0) == 0, f"{row.source} has {last[row.source]} in flight"
            last[row.source], missing[row.source] = (row.topic, row.seq), len(members[row.topic])
        elif row.event is Event.DELIVER:
            assert last[row.source] == (row.topic, row.seq)
            missing[row.source] -= 1


def test_delta_neighbourhood_violates_causal_order_by_design() -> None:
    """0 – 1 – 2: 1 answers 0 at once, the answer overtakes the question on the link to 2. The judge says which."""
    slow = iter([TICKS, 50 * TICKS])  # 0 → 1, then the question 1 → 2; all else is quick
    network = PacketSwitched(lambda sender, to: next(slow, TICKS) if to > sender else TICKS)
    rows, _ = _question_and_answer(DeltaNeighbourhood, network)
    report = judge(rows, ("causal", "fifo", "exactly-once", "complete"))
    assert [rule.name for rule in report.rules if rule.violations] == ["causal"]
    (broken,) = [rule for rule in report.rules if rule.violations]
    assert broken.example is not None
    assert "1.1" in broken.example.words
    assert "0.1" in broken.example.words


@pytest.mark.parametrize("make", CAUSAL)
def test_the_same_run_in_order_with_the_others(make: type[Process]) -> None:
    slow = iter([TICKS, 50 * TICKS])
    network = PacketSwitched(lambda sender, to: next(slow, TICKS) if to > sender else TICKS)
    rows, simulation = _question_and_answer(make, network)
    assert judge(rows).ok
    at_2 = [(row.time_us // TICKS, row.source) for row in rows if row.event is Event.DELIVER and row.node == 2]
    assert at_2 == [(51, 0), (51, 1)], "the answer waits for the question"
    assert simulation.processes[2].held == 0


def test_over_links_that_keep_order_a_tree_is_causal_by_itself() -> None:
    """Why the violation needs links that reorder: the paper's remark on acyclic overlays (its section II)."""
    for seed in range(20):
        rows, _ = talk(DeltaNeighbourhood, complete_tree(9), {"a": range(9), "b": [0, 3, 8]}, steady(), seed=seed)
        assert judge(rows).ok


def _question_and_answer(make: Callable[..., Process], network: PacketSwitched) -> tuple[list[Row], Simulation]:
    recorder, routes = Recorder(), Routes(line(3), {"t": range(3)})
    tracer = Tracer(recorder)
    simulation = Simulation(lambda node: make(node, routes), range(3), network, [tracer])
    for node in range(3):
        tracer.changed(0, node, "subscribe", "t")

    def answer(node: int, message: Message) -> None:
        if node == 1 and message.source == 0:
            simulation.publish(1, "t", b"answer")

    simulation.on_delivery = answer
    simulation.publish(0, "t", b"question")
    simulation.run()
    return list(recorder.rows()), simulation


# -- mistakes the search finds ----------------------------------------------------------------------------------------


class _OwnGroupsOnly(Cbcast):
    """Clocks of groups one does not take are not passed on."""

    def _observe(self, packet: Carry) -> None:
        self._clocks.note(packet.message.topic, packet.message.source, packet.message.seq)


class _SinceTheLastMessageAnywhere(Cbcast):
    """Entries are left out that changed before the last message to *another* group."""

    def _stamp(self, topic: str, seq: int, payload: bytes) -> Carry:
        self._clocks._stamped[topic] = max(self._clocks._stamped.values(), default=0)
        return super()._stamp(topic, seq, payload)


class _RowsOfOthersDropped(CausalBarriers):
    """What a message says of destinations that are not its own is forgotten."""

    def _observe(self, packet: Carry) -> None:
        assert isinstance(packet, Barred)
        mine = 0
        for topic in self._taken:
            mine |= self._routes.mask(topic)
        kept = tuple((*entry[:3], entry[3] & mine) for entry in packet.matrix)
        super()._observe(Barred(packet.message, kept))


class _CoveredForAll(CausalBarriers):
    """A message is taken to cover what it depends on for everybody, also for those it does not go to."""

    def _observe(self, packet: Carry) -> None:
        assert isinstance(packet, Barred)
        super()._observe(packet)
        for topic, source, seq, _ in packet.matrix:
            if self._matrix.get((topic, source), (0, 0))[0] == seq:
                del self._matrix[topic, source]


@pytest.mark.parametrize(
    "make",
    [_OwnGroupsOnly, _SinceTheLastMessageAnywhere, _RowsOfOthersDropped, _CoveredForAll],
    ids=lambda m: m.__name__,
)
def test_each_mistake_breaks_causal_order_within_a_few_runs(make: type[Cbcast | CausalBarriers]) -> None:
    members = {"a": [0, 1, 3, 5], "b": [1, 2, 4], "c": [2, 3, 5], "d": [0, 4, 5]}
    for seed in range(200):
        rows, _ = talk(make, star(6), members, overtaking(seed), seed=seed, messages=60, answers=0.7)
        report = judge(rows, ("causal",))
        if not report.ok:
            return
    pytest.fail("two hundred runs without a violation")


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_the_matrix_by_entry_is_within_the_one_by_row(data: st.DataObject) -> None:
    """Prakash et al. keep a row for each destination; ours names no message theirs does not."""

    class ByRow(CausalBarriers):
        def __init__(self, node: int, routes: Routes) -> None:
            super().__init__(node, routes)
            self.rows: dict[int, dict[tuple[str, int], int]] = {k: {} for k in range(routes.graph.nodes)}
            self.seen: dict[tuple[str, int, int], dict[int, dict[tuple[str, int], int]]] = SENT

        def _stamp(self, topic: str, seq: int, payload: bytes) -> Barred:
            self.seen[topic, self.node, seq] = {k: dict(row) for k, row in self.rows.items()}
            for k in self._routes.groups[topic]:
                self.rows[k] = {(topic, self.node): seq}
            packet = super()._stamp(topic, seq, payload)
            self.check()
            return packet

        def _observe(self, packet: Carry) -> None:
            super()._observe(packet)
            message = packet.message
            theirs = self.seen[message.id]
            for k, row in self.rows.items():
                if k in self._routes.groups[message.topic]:
                    for key, seq in theirs[k].items():
                        if row.get(key, seq + 1) <= seq:
                            del row[key]
                    row[message.topic, message.source] = message.seq
                else:
                    for key, seq in theirs[k].items():
                        row[key] = max(seq, row.get(key, 0))
            self.check()

        def check(self) -> None:
            for key, (seq, destinations) in self._matrix.items():
                for k, row in self.rows.items():
                    assert not destinations >> k & 1 or row.get(key, 0) >= seq

    SENT: dict[tuple[str, int, int], dict[int, dict[tuple[str, int], int]]] = {}
    graph = data.draw(trees(most=6))
    members = data.draw(groups(graph))
    rows, _ = talk(ByRow, graph, members, overtaking(seed := data.draw(SEEDS)), seed=seed)
    assert judge(rows).ok


# -- bytes ------------------------------------------------------------------------------------------------------------


def everyone(make: type[Process], graph: BaseGraph, members: dict[str, range] | None = None) -> Simulation:
    routes = Routes(graph, members or {"t": range(graph.nodes)})
    return Simulation(lambda node: make(node, routes), range(graph.nodes), steady())  # type: ignore[call-arg]


def last_header(simulation: Simulation, node: int, topic: str = "t") -> int:
    """Bytes of metadata in what `node` sends now."""
    process = simulation.processes[node]
    process.publish(topic, bytes(32))
    sizes = {process.size(packet) for _, packet in process.out.sends}
    process.out.clear()
    (size,) = sizes
    return size - 32 - HEADER - GROUP


def test_section_6_a_clock_of_1024_nodes_is_4_kilobytes() -> None:
    simulation = everyone(Cbcast, star(1024))
    for node in range(1, 1024):
        simulation.processes[0].receive(node, Carry(Message("t", node, 1)))
    simulation.processes[0].out.clear()
    assert last_header(simulation, 0) == 4096


def test_a_short_clock_names_its_entries() -> None:
    """Two others have spoken: their entries and one's own, 8 bytes each. A second message right after: one's own."""
    simulation = everyone(Cbcast, complete_tree(63))
    for node in (5, 60):
        simulation.publish(node, "t", b"")
    simulation.run()
    assert [last_header(simulation, 7), last_header(simulation, 7)] == [24, 8]


def test_clocks_of_other_groups_are_named() -> None:
    simulation = everyone(Cbcast, complete_tree(15), {"a": range(15), "b": range(4), "c": range(3)})
    simulation.publish(0, "b", b"")
    simulation.publish(0, "c", b"")
    assert last_header(simulation, 0, "a") == 8 + (2 + 8) + (2 + 8)
    for node in (1, 2):
        simulation.publish(node, "c", b"")
    simulation.run()
    assert last_header(simulation, 0, "a") == 8 + (2 + 12), "three entries of c: the full clock is shorter"


def test_section_6_barriers_grow_with_the_square_of_the_nodes() -> None:
    """Everyone has sent to everyone, pair by pair, and one has heard of it all: an entry for each pair not its own."""
    nodes = 12
    pairs = {f"{a}>{b}": sorted((a, b)) for a in range(nodes) for b in range(nodes) if a != b}
    pairs["t"] = [0, *range(1, nodes)]
    simulation = everyone(CausalBarriers, star(nodes), pairs)  # type: ignore[arg-type]
    for name in pairs:
        if name != "t" and not name.endswith(">0"):
            simulation.publish(int(name.split(">")[0]), name, b"")
    # Nobody has read anything yet: then all tell node 0, which knows of every message to every other.
    for node in range(1, nodes):
        simulation.publish(node, f"{node}>0", b"")
    simulation.run()
    entries = last_header(simulation, 0) // 8 - 1
    assert nodes**2 / 2 < entries <= nodes**2
    assert 8 * 1024**2 == 8_388_608, "the paper's 8 MB is this square"


def test_a_name_is_all_delta_neighbourhood_adds() -> None:
    simulation = everyone(DeltaNeighbourhood, complete_tree(7))
    assert last_header(simulation, 0) == 8


# -- what is refused --------------------------------------------------------------------------------------------------


class _Stranger(Packet, frozen=True, tag="stranger"):
    pass


@pytest.mark.parametrize("name", ["cbcast", "causal-barriers", "delta-neighbourhood"])
def test_strangers_outsiders_and_changes_of_groups_are_refused(name: str) -> None:
    process = _build(name, 4, {"t": [0, 1], "u": [0]})(2)
    with pytest.raises(UsageError, match="does not take it"):
        process.publish("t", b"")
    with pytest.raises(UsageError, match="not a group"):
        process.publish("v", b"")
    for change in (process.subscribe, process.unsubscribe):
        with pytest.raises(UsageError, match="do not change"):
            change("t")
    with pytest.raises(ProtocolError, match="got a _stranger from 0"):
        process.receive(0, _Stranger())
    with pytest.raises(ProtocolError, match="no such group"):
        process.receive(0, (Barred if name == "causal-barriers" else Carry)(Message("v", 0, 1)))
    with pytest.raises(UsageError, match="no such node"):
        _build(name, 4, {"t": [7]})


def test_graphs_by_name() -> None:
    build = _build("cbcast", 5, {"t": range(5)}, graph="edges", edges="0-1;1-2;2-3;3-4")
    assert [to for to, _ in _sends(build(2))] == [1, 3]
    assert [to for to, _ in _sends(_build("cbcast", 5, {"t": range(5)}, graph="star")(0))] == [1, 2, 3, 4]
    assert [to for to, _ in _sends(_build("cbcast", 5, {"t": range(5)}, graph="line")(0))] == [1]
    assert [to for to, _ in _sends(_build("cbcast", 13, {"t": range(13)}, degree=4)(0))] == [1, 2, 3]
    for values, words in (
        ({"graph": "edges"}, "lists no edge"),
        ({"edges": "0-1"}, "list edges"),
        ({"graph": "edges", "edges": "0-1;1-2;2-0"}, "cycle"),
        ({"graph": "edges", "edges": "0-1"}, "not connected"),
        ({"graph": "ring"}, "ring"),
    ):
        with pytest.raises(UsageError, match=words):
            _build("cbcast", 5, {"t": range(5)}, **values)


def test_delta_neighbourhood_is_not_told_of_what_it_does_not_have() -> None:
    process = _build("delta-neighbourhood", 2, {"t": [0, 1]})(0)
    with pytest.raises(ProtocolError, match="nothing called"):
        process.receive(1, Confirm("t", 0, 1))


def _build(name: str, nodes: int, members: dict[str, object], **values: object) -> MakeProcess:
    chosen = options(name, values)
    assert isinstance(chosen, GroupOptions)
    return chosen.build_groups(nodes, members)  # type: ignore[arg-type]


def _sends(process: Process) -> list[tuple[int, Packet]]:
    process.publish("t", b"")
    return process.out.sends


# -- the conformance suite, where they promise what it asks -----------------------------------------------------------

SUBJECTS = [
    Subject(
        name=name,
        build=lambda nodes, name=name: _build(name, nodes, {TOPIC: range(nodes)}),  # type: ignore[misc]
        packets=(packet,),
        tolerates=frozenset({"duplicates"}),
    )
    for name, packet in (("cbcast", Carry), ("causal-barriers", Barred))
]
FAIR = [
    (scenario, subject)
    for scenario in SCENARIOS.values()
    for subject in SUBJECTS
    if not scenario.needs - {"duplicates"}
]


@pytest.mark.parametrize(("scenario", "subject"), FAIR, ids=lambda value: value.name)
@pytest.mark.parametrize("world", [SimWorld, MemoryWorld, TcpWorld])
def test_conformance(scenario: Scenario, subject: Subject, world: type[SimWorld]) -> None:
    asyncio.run(play(scenario, subject, world))
