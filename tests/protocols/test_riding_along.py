"""Messages that ride along with a bundle (thesis 6.2.2.2)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import Process, UsageError
from antecede.overlay.trees import PerSourceTrees, SingleTree, Trees
from antecede.overlay.vcube import VCube
from antecede.protocols.aggregation import RidingAlong
from antecede.protocols.registry import options
from antecede.protocols.sizes import ByteModel
from antecede.sim import RunSpec, simulate
from tests.protocols.test_causal_aggregation import Script, m
from tests.protocols.worlds import heavy, judge, play


def trees(kind: str, nodes: int) -> Trees:
    cube = VCube(nodes)
    return PerSourceTrees(cube) if kind == "per-source" else SingleTree(cube, 0)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(["per-source", "single"]),
    nodes=st.integers(2, 24),
    messages=st.integers(1, 4),
    seed=st.integers(0, 10**9),
)
def test_order_holds_and_no_rider_is_left_behind(kind: str, nodes: int, messages: int, seed: int) -> None:
    over = trees(kind, nodes)
    rows, simulation = play(
        lambda node: RidingAlong(node, over, ByteModel()), nodes, heavy(seed), messages=messages, window=300, seed=seed
    )
    report = judge(rows)
    assert report.ok, f"seed {seed}:\n{report}"
    for process in simulation.processes.values():
        assert isinstance(process, RidingAlong)
        assert not process.held
        assert not process.riding


class RidingScript(Script):
    """Node 4 of eight. It passes messages of even sources on to 5; those of 2 and 6 come from 6, those of 0 from 0."""

    def __init__(self) -> None:
        over = trees("per-source", 8)
        self.process: Process = RidingAlong(4, over, ByteModel())


def test_an_unrelated_message_leaves_with_the_bundle() -> None:
    node_4 = RidingScript()
    assert node_4.receive(0, m(0, 1, (2, 1))) == {6: [("m0,1",)]}  # kept back from 5, until m2,1 comes
    assert node_4.receive(6, m(6, 1)) == {}
    assert node_4.receive(6, m(2, 1)) == {5: [("m0,1", "m6,1", "m2,1")]}
    assert node_4.receive(6, m(6, 2)) == {5: [("m6,2",)]}  # nothing waits any more


def test_a_message_of_the_node_itself_rides_where_one_waits() -> None:
    node_4 = RidingScript()
    node_4.receive(0, m(0, 1, (2, 1)))
    node_4.process.out.clear()
    node_4.process.publish("t", bytes(50))
    assert sorted(to for to, _ in node_4.process.out.sends) == [0, 6]
    assert node_4.receive(6, m(2, 1)) == {5: [("m0,1", "m4,1", "m2,1")]}


def test_a_message_that_another_one_waits_for_does_not_ride() -> None:
    """m2,2 waits for m2,1 to leave. If m2,1 waited for the next packet, there would be none."""
    node_4 = RidingScript()
    assert node_4.receive(0, m(0, 1, (6, 1))) == {6: [("m0,1",)]}
    assert node_4.receive(6, m(2, 2)) == {}
    assert node_4.receive(6, m(2, 1)) == {5: [("m2,2", "m2,1")]}
    assert node_4.receive(6, m(6, 1)) == {5: [("m0,1", "m6,1")]}


def test_more_is_bundled_and_received_later_than_by_plain_aggregation() -> None:
    plain, riding = (
        simulate(RunSpec(protocol="causal-aggregation", nodes=64, options={"ride_along": ride})).metrics
        for ride in (False, True)
    )
    assert riding["packets"] < 0.97 * plain["packets"]  # type: ignore[operator]
    assert riding["reception_latency"]["mean"] > plain["reception_latency"]["mean"]  # type: ignore[index]
    assert riding["deliveries"] == plain["deliveries"]


def test_riders_need_bundles() -> None:
    with pytest.raises(UsageError, match="leave aggregate at true"):
        options("causal-aggregation", {"aggregate": False, "ride_along": True}).build(4)
