"""Network models and faults, checked against the formulas they implement."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.core import UsageError
from antecede.core.choices import example, parse
from antecede.overlay.pastry import Pastry
from antecede.sim.channels import over_pastry
from antecede.sim.fault_choices import FAULTS
from antecede.sim.faults import duplicating, losing, partitioned
from antecede.sim.matrix import read_one_way
from antecede.sim.network import PacketSwitched, constant, fixed_per_link, heavy_tailed, normal
from antecede.sim.networks import NETWORKS
from antecede.sim.units import TICKS
from antecede.sim.workloads import WORKLOADS


def test_section_4_5_1_packets_queue_at_their_sender() -> None:
    """t_pc + t_q + t_t + t_pp: three packets sent at once leave one after the other."""
    network = PacketSwitched(constant(100), processing=1, transmission=2)
    assert [network.arrivals(0, 0, to, 50) for to in (1, 2, 3)] == [(103,), (105,), (107,)]
    assert network.arrivals(0, 9, 1, 50) == (103,)  # another node has its own wire
    assert network.queued == 2 + 4
    assert network.arrivals(1000, 0, 1, 50) == (1103,)  # the wire is free again


def test_bandwidth_makes_large_packets_occupy_the_wire_longer() -> None:
    network = PacketSwitched(constant(0), ticks_per_byte=2)
    assert network.weighs
    assert network.arrivals(0, 0, 1, 100) == (200,)
    assert network.arrivals(0, 0, 1, 10) == (220,)


def test_fixed_links_do_not_depend_on_the_order_of_use() -> None:
    one, two = (fixed_per_link("s", lambda rng: rng.randrange(10**6)) for _ in range(2))
    links = [(a, b) for a in range(5) for b in range(5) if a != b]
    there = {link: one(*link) for link in links}
    back = {link: two(*link) for link in reversed(links)}
    assert there == back
    assert len(set(there.values())) > 10


@given(st.integers(0, 10**6))
def test_draws_respect_their_lower_end(seed: int) -> None:
    draw = normal(random.Random(seed), 10, 100, least=3)
    assert min(draw(0, 1) for _ in range(50)) >= 3
    pareto = heavy_tailed(random.Random(seed), 1000, 1.5)
    assert min(pareto(0, 1) for _ in range(50)) >= 333


@given(st.integers(0, 10**6), st.sampled_from(["packet", "link"]), st.sampled_from(["links", "pastry"]))
def test_fast_and_slow_links_are_of_one_sort_in_both_directions(seed: int, drawn: str, over: str) -> None:
    text = f"fast-and-slow:fast=10,fast_sd=1,slow=1000,slow_sd=5,drawn={drawn},over={over}"
    network = parse("network", text, NETWORKS).build(12, str(seed))
    for one, other in [(0, 1), (3, 7), (11, 2)]:  # twelve nodes know each other, so that all routes are one link
        times = [next(iter(network.arrivals(0, *ends, 50))) / TICKS for ends in [(one, other), (other, one)] * 3]
        assert max(times) < 20 or min(times) > 900
        assert (len(set(times)) == 1) == (drawn == "link")


def test_the_papers_links() -> None:
    """21 ± 10.85 ms for 80 % of the links, 240 ± 129.27 ms for the others; 64.8 ms on the mean."""
    network = parse("network", "fast-and-slow:drawn=link", NETWORKS).build(100, "seed")
    times = sorted(next(iter(network.arrivals(0, a, b, 0))) / TICKS for a in range(100) for b in range(a))
    assert times[0] == 1
    assert times[len(times) // 2] == pytest.approx(25, abs=3)
    assert sum(times) / len(times) == pytest.approx(64.8, rel=0.1)
    assert sum(time > 60 for time in times) / len(times) == pytest.approx(0.2 * 0.92, abs=0.02)


def test_over_pastry_a_packet_crosses_the_links_of_its_route() -> None:
    ring = Pastry(200)
    network = over_pastry(ring, lambda sender, to: 1)
    for a in range(0, 200, 7):
        for b in range(0, 200, 11):
            there, back = len(ring.route(a, b)), len(ring.route(b, a))
            assert network(a, b) == (1 if 1 in (there, back) else there)
    assert network(5, 5) == 0


def test_faults_compose() -> None:
    base = PacketSwitched(constant(10))
    doubled = duplicating(base, 1.0, random.Random(1), spread=5)
    cut = partitioned(doubled, side={0, 1}, begin=100, end=200)
    assert len(list(cut.arrivals(0, 0, 2, 1))) == 2
    assert not list(cut.arrivals(150, 0, 2, 1))
    assert not list(cut.arrivals(150, 2, 0, 1))
    assert len(list(cut.arrivals(150, 0, 1, 1))) == 2  # same side
    assert len(list(cut.arrivals(200, 0, 2, 1))) == 2
    assert not list(losing(cut, 1.0, random.Random(1)).arrivals(0, 0, 2, 1))
    kept = sum(
        len(list(losing(base, 0.25, rng).arrivals(0, 0, 1, 1))) for rng in [random.Random(3)] for _ in range(4000)
    )
    assert 2850 < kept < 3150


# -- choices by name --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("what", "choices"), [("network", NETWORKS), ("workload", WORKLOADS), ("fault", FAULTS)])
def test_every_choice_is_documented_and_its_example_parses(what: str, choices: dict) -> None:  # type: ignore[type-arg]
    for name, choice in choices.items():
        assert choice.__doc__, name
        text = example(name, choice)
        required = {"matrix": "matrix:file=x", "partition": "partition:nodes=1,end=2", "crash": "crash:node=0,at=1"}
        parse(what, required.get(name, text.replace("back=None", "").rstrip(",")), choices)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nromal", "choose one of constant, fast-and-slow, fixed-links, heavy-tailed, matrix, normal"),
        ("normal:mean", "'mean' is not key=value; write for example normal:t_pc=1,"),
        ("normal:mean=-3", "Expected `float` > 0.0"),
        ("normal:men=3", "unknown field `men`; the keys of normal are: t_pc, t_t, bandwidth, mean, sd, least"),
        ("normal:mean=abc", "Expected `float`"),
        ("matrix", "missing required field `file`"),
    ],
)
def test_mistakes_are_answered_with_the_remedy(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse("network", text, NETWORKS)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


# -- matrix files -----------------------------------------------------------------------------------------------------


def test_a_matrix_is_read_as_half_round_trips(tmp_path: Path) -> None:
    file = tmp_path / "rtt.txt"
    file.write_text("0\t10.5 20\n10.5,0,30\n20 30 0\n\n")
    assert read_one_way(str(file), 2) == [[0, 5_250_000], [5_250_000, 0]]
    assert read_one_way(str(file), 3)[2] == [10 * TICKS, 15 * TICKS, 0]


@pytest.mark.parametrize(
    ("content", "nodes", "says"),
    [
        ("0 1\n1 0\n", 3, "has 2 rows, 3 nodes were asked for; use at most 2 nodes"),
        ("0 1 2\n1 0\n2 1 0\n", 3, "row 2 has 2 values"),
        ("0 x\n1 0\n", 2, "row 1: could not convert string to float: 'x'"),
        ("0 -1\n-1 0\n", 2, "row 1 has the value -1.0; times are 0 or more"),
        ("0 nan\nnan 0\n", 2, "row 1 has the value nan"),
        ("\xff\xfe", 1, "it is not plain text"),
    ],
)
def test_bad_matrices_are_refused(tmp_path: Path, content: str, nodes: int, says: str) -> None:
    file = tmp_path / "rtt.txt"
    file.write_text(content, encoding="latin-1")
    with pytest.raises(UsageError, match=says):
        read_one_way(str(file), nodes)


def test_a_missing_matrix_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be read \\(No such file or directory\\)"):
        read_one_way("/nowhere/rtt.txt", 2)
