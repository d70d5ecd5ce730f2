"""Causal aggregation broadcast: thesis chapter 4, corrected (docs/errors_in_papers.md)."""

import statistics
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import Message, Process, ProtocolError
from antecede.core.packet import Packet
from antecede.protocols.aggregation.packets import Bundle
from antecede.protocols.sizes import ByteModel
from antecede.sim import RunSpec, simulate
from antecede.sim.network import PacketSwitched, fixed_per_link
from antecede.sim.units import TICKS
from tests.protocols.printed_algorithm_2 import MISTAKES, PrintedAlgorithm2
from tests.protocols.worlds import aggregation, deliveries, heavy, judge, one_by_one, packets, play

SMALL = {"nodes": st.integers(2, 32), "messages": st.integers(1, 5), "seed": st.integers(0, 10**9)}


@settings(max_examples=100, deadline=None)
@given(**SMALL)
def test_order_holds_and_nothing_is_lost_whatever_overtakes(nodes: int, messages: int, seed: int) -> None:
    rows, simulation = play(aggregation(nodes), nodes, heavy(seed), messages=messages, window=300, seed=seed)
    report = judge(rows)
    assert report.ok, f"seed {seed}:\n{report}"
    assert not any(process.held for process in simulation.processes.values())


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(**SMALL)
def test_order_holds_in_a_thousand_runs(nodes: int, messages: int, seed: int) -> None:
    rows, _ = play(aggregation(nodes), nodes, heavy(seed), messages=messages, window=300, seed=seed)
    report = judge(rows)
    assert report.ok, f"seed {seed}:\n{report}"


@settings(max_examples=40, deadline=None)
@given(nodes=st.sampled_from([2, 4, 8, 16]), messages=st.integers(1, 5), seed=st.integers(0, 10**9))
def test_sends_exactly_the_packets_of_the_printed_algorithm(nodes: int, messages: int, seed: int) -> None:
    """Delta clocks, waiters and closed forms against full clocks and rescanning: same packets at the same times."""
    load = {"messages": messages, "window": 300, "seed": seed}
    # Full clocks are larger than deltas: without a limit on packets, so that both split nothing.
    fast, _ = play(aggregation(nodes, ByteModel(mtu=10**9)), nodes, heavy(seed), **load)
    slow, _ = play(lambda node: PrintedAlgorithm2(node, nodes), nodes, heavy(seed), **load)
    assert packets(fast) == packets(slow)
    # Concurrent messages that become deliverable in the same instant may be delivered in either order.
    assert sorted(deliveries(fast)) == sorted(deliveries(slow))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_error_in_print_is_caught(mistake: str) -> None:
    broken = frozenset({mistake})
    for seed in range(40):
        rows, simulation = play(
            lambda node: PrintedAlgorithm2(node, 8, broken), 8, heavy(seed), messages=3, window=300, seed=seed,
            steps_max=20_000,
        )  # fmt: skip
        stuck = any(process.held for process in simulation.processes.values())
        if stuck or not judge(rows).ok:
            return
    pytest.fail(f"no test would notice: {MISTAKES[mistake]}")


@settings(max_examples=40, deadline=None)
@given(nodes=st.sampled_from([4, 8, 13, 16, 32]), messages=st.integers(1, 3), seed=st.integers(0, 10**9))
def test_section_4_3_aggregation_delays_no_delivery_when_links_are_fixed(nodes: int, messages: int, seed: int) -> None:
    """Exactly: with fixed delays and no queue every delivery time is the same with and without."""

    def network() -> PacketSwitched:
        return PacketSwitched(fixed_per_link(f"{seed}", lambda rng: rng.randrange(1, 200 * TICKS)))

    load = {"messages": messages, "window": 200, "seed": seed}
    with_it, _ = play(aggregation(nodes), nodes, network(), **load)
    without, _ = play(one_by_one(nodes), nodes, network(), **load)
    assert sorted(deliveries(with_it)) == sorted(deliveries(without))
    assert len({row[3] for row in packets(with_it)}) <= len({row[3] for row in packets(without)})


@pytest.mark.slow
def test_section_4_5_4_with_queues_deliveries_are_not_later_on_average() -> None:
    """512 nodes, ten seeds."""
    means = {}
    for aggregate in (True, False):
        runs = [
            simulate(RunSpec(protocol="causal-aggregation", nodes=512, seed=seed, options={"aggregate": aggregate}))
            for seed in range(1, 11)
        ]
        means[aggregate] = statistics.fmean(run.metrics["delivery_latency"]["mean"] for run in runs)  # type: ignore[index]
    assert means[True] <= means[False]


class Script:
    """Node 4 of eight, fed by hand: the worked examples of section 4.4.3."""

    def __init__(self) -> None:
        self.process = aggregation(8)(4)

    def receive(self, sender: int, *messages: Message) -> dict[int, list[tuple[str, ...]]]:
        self.process.out.clear()
        self.process.receive(sender, Bundle(messages))
        sent: dict[int, list[tuple[str, ...]]] = {}
        for to, packet in self.process.out.sends:
            sent.setdefault(to, []).append(tuple(f"m{m.source},{m.seq}" for m in packet.messages))
        return sent


def m(source: int, seq: int, *deps: tuple[int, int]) -> Message:
    return Message("t", source, seq, deps, bytes(50))


def test_figure_4_2_node_4_keeps_m0_from_5_until_m2_comes() -> None:
    node_4 = Script()
    # m2 -> m1 -> m0. Node 5 is its child in the trees of 0 and of 2, node 6 only in that of 0.
    assert node_4.receive(0, m(0, 1, (2, 1), (1, 1))) == {6: [("m0,1",)]}
    assert node_4.receive(6, m(2, 1)) == {5: [("m0,1", "m2,1")]}
    assert node_4.receive(5, m(1, 1, (2, 1))) == {}


def test_figure_4_2_in_causal_order_nothing_is_bundled() -> None:
    node_4 = Script()
    assert node_4.receive(6, m(2, 1)) == {5: [("m2,1",)]}
    assert node_4.receive(0, m(0, 1, (2, 1), (1, 1))) == {5: [("m0,1",)], 6: [("m0,1",)]}


def test_section_4_4_3_first_example() -> None:
    """m2,1 -> m2,2 -> m2,3 -> m0,1; node 4 has all but m2,2."""
    node_4 = Script()
    assert node_4.receive(6, m(2, 1)) == {5: [("m2,1",)]}
    assert node_4.receive(6, m(2, 3)) == {}
    assert node_4.receive(0, m(0, 1, (2, 3))) == {6: [("m0,1",)]}
    assert node_4.receive(6, m(2, 2)) == {5: [("m2,3", "m0,1", "m2,2")]}


def test_section_4_4_3_second_example() -> None:
    """m2,1 -> m0,1 -> m0,2, received as m0,1, m0,2, m2,1: node 6 gets nothing twice, node 5 all three at once."""
    node_4 = Script()
    assert node_4.receive(0, m(0, 1, (2, 1))) == {6: [("m0,1",)]}
    assert node_4.receive(0, m(0, 2)) == {6: [("m0,2",)]}
    assert node_4.receive(6, m(2, 1)) == {5: [("m0,1", "m0,2", "m2,1")]}


def test_section_4_5_3_bytes() -> None:
    sizes = ByteModel()
    assert sizes.packet([m(0, 1)]) == 76  # header 20, payload 50, source 2, own entry 4
    assert sizes.packet([m(0, 1), m(1, 1, (0, 1))]) == 136  # "less than 136 bytes contains only one message"


@given(st.lists(st.integers(0, 400), min_size=1, max_size=40), st.integers(64, 1500))
def test_bundles_respect_the_mtu_and_keep_everything_in_order(payloads: list[int], mtu: int) -> None:
    sizes = ByteModel(mtu=mtu)
    messages = [Message("t", 0, seq, (), bytes(size)) for seq, size in enumerate(payloads, start=1)]
    bundles = sizes.split(messages)
    assert [message for bundle in bundles for message in bundle] == messages
    for bundle in bundles:
        assert sizes.packet(bundle) <= mtu or len(bundle) == 1
    for first, second in pairwise(bundles):
        assert sizes.packet([*first, second[0]]) > mtu  # none could have held one more


def test_a_foreign_packet_is_refused_and_changes_nothing() -> None:
    class Hello(Packet, frozen=True):
        pass

    process: Process = aggregation(4)(1)
    with pytest.raises(ProtocolError, match="node 1 got a Hello from 2"):
        process.receive(2, Hello())
    assert not process.out.sends


@pytest.mark.parametrize("options", [{}, {"trees": "single"}, {"aggregate": False, "trees": "single"}])
@pytest.mark.parametrize("nodes", [1, 2, 7, 16])
def test_every_variant_is_causal_complete_and_exactly_once(options: dict[str, object], nodes: int) -> None:
    spec = RunSpec(
        protocol="causal-aggregation", nodes=nodes, seed=3, network="heavy-tailed", options=options,
        workload="uniform:messages=3,window=200",
    )  # fmt: skip
    result = simulate(spec, trace=True)
    assert result.trace is not None
    report = judge(list(result.trace.rows()))
    assert report.ok, report
    assert result.metrics["deliveries"] == 3 * nodes * (nodes - 1)
