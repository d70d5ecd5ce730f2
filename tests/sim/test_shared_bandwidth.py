"""A node's interface as a queue (LoCaMu IV-A): first in, first out; nothing lost; never more than its bandwidth."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import UsageError
from antecede.core.choices import parse
from antecede.sim import RunSpec, simulate
from antecede.sim.network import PacketSwitched
from antecede.sim.networks import NETWORKS
from antecede.sim.throughput import Throughput
from antecede.sim.units import TICKS

#: (pause before it in ticks, to whom, bytes)
SENDS = st.lists(st.tuples(st.integers(0, 200_000), st.integers(1, 3), st.integers(0, 3_000)), max_size=60)
MBPS = st.sampled_from([10.0, 100.0, 3.0, 0.7])


def built(text: str) -> PacketSwitched:
    network = parse("network", text, NETWORKS).build(4, "seed")
    assert isinstance(network, PacketSwitched)
    return network


def offered(network: PacketSwitched, sends: list[tuple[int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Node 0 sends: (when, to, bytes, when it arrives), one arrival each."""
    now, done = 0, []
    for pause, to, size in sends:
        now += pause
        (arrival,) = network.arrivals(now, 0, to, size)
        done.append((now, to, size, arrival))
    return done


def test_the_papers_two_bandwidths_and_its_latency() -> None:
    """572 bytes at 100 Mb/s occupy an interface for 45.76 µs; the latency of 1 ms comes after, for each packet anew."""
    fast, slow = built("shared-bandwidth"), built("shared-bandwidth:mbps=10")
    assert [fast.arrivals(0, 0, to, 572)[0] for to in (1, 2)] == [TICKS + 45_760, TICKS + 91_520]
    assert slow.arrivals(0, 0, 1, 572) == (TICKS + 457_600,)
    assert fast.arrivals(0, 1, 0, 572) == (TICKS + 45_760,), "every node has an interface of its own"


@settings(deadline=None)
@given(SENDS, MBPS)
def test_first_in_first_out_whomever_it_is_for(sends: list[tuple[int, int, int]], mbps: float) -> None:
    arrivals = [arrival for *_, arrival in offered(built(f"shared-bandwidth:mbps={mbps}"), sends)]
    assert arrivals == sorted(arrivals)


@settings(deadline=None)
@given(SENDS, MBPS)
def test_nothing_is_lost_and_the_interface_rests_only_when_it_has_nothing(
    sends: list[tuple[int, int, int]], mbps: float
) -> None:
    """Every packet leaves once its bytes are out, which begins when it is given or when the one before has left."""
    left = 0
    for now, _, size, arrival in offered(built(f"shared-bandwidth:mbps={mbps},latency=2"), sends):
        left = max(now, left) + round(size * 8 * TICKS / (mbps * 1000))
        assert arrival == left + 2 * TICKS


@settings(deadline=None)
@given(SENDS, MBPS)
def test_never_more_than_its_bandwidth(sends: list[tuple[int, int, int]], mbps: float) -> None:
    """Between any two departures no more bytes have left than fit, to half a tick a packet."""
    done = offered(built(f"shared-bandwidth:mbps={mbps},latency=0"), sends)
    for first in range(len(done)):
        bytes_, packets = 0, 0
        for _, _, size, left in done[first + 1 :]:
            bytes_, packets = bytes_ + size, packets + 1
            assert bytes_ * 8 * TICKS / (mbps * 1000) <= left - done[first][3] + packets / 2


# -- the workload that fills it ---------------------------------------------------------------------------------------


def measured(workload: str, protocol: str = "cbcast", mbps: int = 100, nodes: int = 15) -> dict[str, float]:
    watch = Throughput()
    spec = RunSpec(
        protocol=protocol, nodes=nodes, network=f"shared-bandwidth:mbps={mbps}", workload=f"saturating:{workload}"
    )
    simulate(spec, measure=False, watch=[watch])
    return watch.metrics()  # type: ignore[return-value]


@pytest.mark.parametrize("mbps", [10, 100])
def test_one_publisher_fills_the_interfaces_and_no_more(mbps: int) -> None:
    """One source, no dependencies: 32 bytes and 30 with them. The inner nodes pass on two copies, as the root does."""
    found = measured("messages=2000", mbps=mbps)
    most = mbps * 1e6 / 8 / (2 * 62)
    assert found["messages_a_second"] == pytest.approx(most, rel=0.01)
    assert found["throughput"] == pytest.approx(15 * most, rel=0.02)
    assert found["busiest_mbps"] == pytest.approx(mbps, rel=0.02)
    assert found["metadata_mean"] == 30


def test_a_publisher_keeps_to_its_own_rate_where_there_is_room() -> None:
    found = measured("publishers=5,interval=10,messages=300")
    assert found["messages_a_second"] == pytest.approx(500, rel=0.02)
    assert found["busiest_mbps"] < 1


@pytest.mark.parametrize("groups", ["one", "subtrees"])
def test_publishers_share_what_there_is_evenly(groups: str) -> None:
    spec = RunSpec(
        protocol="cbcast",
        nodes=31,
        network="shared-bandwidth:mbps=1",
        workload=f"saturating:publishers=31,interval=10,messages=620,groups={groups}",
    )
    trace = simulate(spec, trace=True, measure=False).trace
    assert trace is not None
    rows = [row for row in trace.rows() if row.event.name == "PUBLISH"]
    per_node = [sum(row.node == node for row in rows) for node in range(31)]
    assert sum(per_node) == 620
    if groups == "one":
        assert max(per_node) - min(per_node) <= 2
    for a, b in pairwise(sorted(row.time_us for row in rows if row.node == 7)):
        assert b - a >= 10 * TICKS, "at most a hundred messages a second"


def test_groups_apart_from_each_other_use_different_interfaces() -> None:
    """Messages are larger, for they carry the clocks of several groups; and still more bytes fit into a second."""
    bytes_ = {}
    for groups in ("one", "subtrees"):
        found = measured(f"publishers=0,messages=600,groups={groups}", mbps=1, nodes=31)
        assert found["busiest_mbps"] == pytest.approx(1, rel=0.05)
        bytes_[groups] = found["messages_a_second"] * (32 + found["metadata_mean"])
    assert bytes_["subtrees"] > 1.5 * bytes_["one"]


def test_a_message_that_waits_for_its_turn_is_not_asked_for_twice() -> None:
    """Stop and wait: the root of 15 nodes has a message at the leaves after 3 ms and knows after 6."""
    found = measured("messages=40", protocol="delta-neighbourhood")
    assert found["messages_a_second"] == pytest.approx(1000 / 6, rel=0.01)


def test_packets_that_grow_on_their_way_fill_the_interfaces_too() -> None:
    """LoCaMu's get names at every hop. What passed while it was quiet says how much there will be."""
    found = measured("messages=150,warm_up=10", protocol="locamu", mbps=10)
    assert found["busiest_mbps"] == pytest.approx(10, rel=0.12)


def test_a_quiet_beginning_comes_on_top() -> None:
    spec = RunSpec(
        protocol="cbcast", nodes=7, network="shared-bandwidth", workload="saturating:messages=5,publishers=3,warm_up=4"
    )
    trace = simulate(spec, trace=True, measure=False).trace
    assert trace is not None
    times = [row.time_us / TICKS for row in trace.rows() if row.event.name == "PUBLISH"]
    assert times[:4] == [0, 1, 2, 3]
    assert len(times) == 4 + 5
    assert times[4] == 4


def test_what_there_is_not_is_refused() -> None:
    for workload, network, words in (
        ("saturating", "constant", "no limit of bandwidth"),
        ("saturating:publishers=9", "shared-bandwidth", "there are 8"),
        ("saturating:subscribers=0.5", "shared-bandwidth", "every node takes part"),
        ("saturating:aside=1", "shared-bandwidth", "every node takes part"),
    ):
        with pytest.raises(UsageError, match=words):
            simulate(RunSpec(protocol="cbcast", nodes=8, network=network, workload=workload))
    with pytest.raises(UsageError, match="mbps"):
        parse("network", "shared-bandwidth:mbps=0", NETWORKS)


def test_too_little_to_measure_is_no_measurement() -> None:
    assert measured("messages=1") == {}
