"""Our VCube-PS and SRPT beside runs of the VCube-PS authors' own simulator, in its time model.

Counts must be equal where a scenario leaves nothing to chance, means within 2 %. Where chance decides (who subscribes,
who publishes when) theirs are means of a few seeds: there a difference within three standard errors is none.
What differs by design is named in the test that shows it.
"""

from functools import cache
from math import sqrt
from statistics import fmean, stdev

import pytest

from antecede.core import UsageError
from antecede.experiments.thesis.authors_simulator import measured, reference, references, spec
from antecede.sim import simulate

SCENARIOS = sorted({(row.scenario, row.nodes) for row in references()}, key=lambda place: (place[1], place[0]))
#: Decided by the scenario alone.
COUNTS = ("copies", "receptions", "pub_packets", "ack_packets", "relayed", "hops")
MEANS = ("reception_latency", "delivery_latency", "ack_delay")


@cache
def ours(scenario: str, nodes: int, seeds: int) -> dict[str, list[float]]:
    runs = [measured(scenario, simulate(spec(scenario, nodes, seed)).metrics) for seed in range(1, seeds + 1)]
    return {metric: [run[metric] for run in runs] for metric in runs[0]}


def close(mine: list[float], theirs: float, their_seeds: int) -> bool:
    """Within 2 %, or within three standard errors of two means of so few seeds."""
    chance = 3 * stdev(mine) * sqrt(1 / len(mine) + 1 / their_seeds) if len(mine) > 1 else 0.0
    return abs(fmean(mine) - theirs) <= max(0.02 * theirs, chance)


def chosen(*, system: str, load: str, sizes: tuple[int, ...]) -> list[tuple[str, int]]:
    return [
        place
        for place in SCENARIOS
        if place[0].startswith(load) and place[0].endswith(f"_{system}") and place[1] in sizes
    ]


SMALL, MIDDLE, LARGE = (8, 16, 32), (64,), (128, 512)


def grouped(system: str, load: str, *, seeds: int) -> list[object]:
    """Small sizes by default, the others among the slow tests."""
    params: list[object] = [(*place, seeds) for place in chosen(system=system, load=load, sizes=SMALL)]
    for sizes, count in ((MIDDLE, 5), (LARGE, 3 if system == "single" else 1)):
        params += [
            pytest.param(*place, min(seeds, count), marks=pytest.mark.slow)
            for place in chosen(system=system, load=load, sizes=sizes)
        ]
    return params


# -- VCube-PS ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scenario", "nodes", "seeds"), grouped("multi", "one_s100", seeds=3))
def test_one_publisher_to_everyone(scenario: str, nodes: int, seeds: int) -> None:
    found, theirs = ours(scenario, nodes, seeds), reference(scenario, nodes)
    for metric in (*COUNTS, "queue_place", "queue_place_of_pub"):
        assert found[metric] == pytest.approx([theirs[metric].value] * seeds, abs=0.001), metric
    for metric in MEANS:
        assert close(found[metric], theirs[metric].value, theirs[metric].seeds), metric


@pytest.mark.parametrize("nodes", [8, 16, 32, 64, 128, 256])
def test_the_closed_form_for_one_publisher(nodes: int) -> None:
    """Mean reception latency = N / (2 (N − 1)) · Σ (99 + s) over the clusters s, within 0.5 %."""
    dimension = nodes.bit_length() - 1
    expected = nodes / (2 * (nodes - 1)) * sum(99 + s for s in range(1, dimension + 1))
    seeds = 24 if nodes <= 32 else 8
    latency = fmean(ours("one_s100_multi", nodes, seeds)["reception_latency"])
    assert latency == pytest.approx(expected, rel=0.005)


@pytest.mark.parametrize(("scenario", "nodes", "seeds"), grouped("multi", "many", seeds=4))
def test_many_publishers(scenario: str, nodes: int, seeds: int) -> None:
    found, theirs = ours(scenario, nodes, seeds), reference(scenario, nodes)
    for metric in COUNTS:
        assert found[metric] == pytest.approx([theirs[metric].value] * seeds, abs=0.001), metric
    for metric in MEANS:
        assert close(found[metric], theirs[metric].value, theirs[metric].seeds), metric


@pytest.mark.parametrize(("scenario", "nodes", "seeds"), grouped("multi", "one_s25", seeds=12))
def test_a_quarter_subscribes(scenario: str, nodes: int, seeds: int) -> None:
    """The members are drawn at random, so are the trees; how many packets they take is not."""
    found, theirs = ours(scenario, nodes, max(seeds, 3)), reference(scenario, nodes)
    for metric in ("copies", "receptions", "pub_packets", "ack_packets", "relayed"):
        assert set(found[metric]) == {theirs[metric].value}, metric
    for metric in ("hops", *MEANS):
        assert close(found[metric], theirs[metric].value, theirs[metric].seeds), metric


@pytest.mark.parametrize(
    "scenario",
    ["pingpong_w1_multi", "pingpong_w10_multi", "pingpong_w1_PRUNED_multi", "pingpong_w10_PRUNED_multi"],
)
def test_discussion(scenario: str) -> None:
    found, theirs = ours(scenario, 64, 3), reference(scenario, 64)
    for metric in COUNTS:
        assert set(found[metric]) == {theirs[metric].value}, metric
    for metric in (*MEANS, "queue_place", "queue_place_of_pub"):
        assert close(found[metric], theirs[metric].value, theirs[metric].seeds), metric
    assert fmean(found["wait"]) < 0.1  # theirs 0.007 to 0.016: order costs next to nothing


@pytest.mark.slow
def test_barriers_with_and_without_pruning() -> None:
    """Theirs, 256 nodes: 48.3 entries without pruning, 12.9 with, when everyone publishes within 1000 u.t."""

    def mean_barrier(scenario: str) -> float:
        means = []
        for seed in (1, 2, 3):
            sizes = simulate(spec(scenario, 256, seed)).metrics["dependencies"]
            assert isinstance(sizes, dict)
            means.append(sum(int(size) * count for size, count in sizes.items()) / 256)
        return fmean(means)

    assert mean_barrier("many_p100_w1000_multi") == pytest.approx(48.3, rel=0.1)
    assert mean_barrier("many_p100_w1000_PRUNED_multi") == pytest.approx(12.9, rel=0.1)


def test_pruning_changes_barriers_and_nothing_else() -> None:
    """Theirs too: the rows of `pingpong_w1_multi` and `pingpong_w1_PRUNED_multi` are the same."""
    without, pruned = (simulate(spec(f"pingpong_w1{tag}_multi", 32, 1)).metrics for tag in ("", "_PRUNED"))
    sizes = [metrics.pop("dependencies") for metrics in (without, pruned)]
    bytes_sent = [metrics.pop("bytes") for metrics in (without, pruned)]
    assert without == pruned
    entries = [sum(int(size) * count for size, count in found.items()) for found in sizes]  # type: ignore[attr-defined]
    assert entries[1] < 0.7 * entries[0]
    assert bytes_sent[1]["pub"] < bytes_sent[0]["pub"]  # type: ignore[index]


# -- SRPT -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scenario", "nodes", "seeds"), grouped("single", "one_s100", seeds=3))
def test_one_publisher_under_one_root(scenario: str, nodes: int, seeds: int) -> None:
    found, theirs = ours(scenario, nodes, seeds), reference(scenario, nodes)
    for metric in (*COUNTS, "queue_place", "queue_place_of_pub"):
        assert found[metric] == pytest.approx([theirs[metric].value] * seeds, abs=0.001), metric
    for metric in MEANS:
        assert close(found[metric], theirs[metric].value, theirs[metric].seeds), metric


@pytest.mark.parametrize(("scenario", "nodes", "seeds"), grouped("single", "one_s25", seeds=24))
def test_relays_under_one_root(scenario: str, nodes: int, seeds: int) -> None:
    """Who relays follows from who subscribes; each packet down the tree serves a member below the root or a relay."""
    found, theirs = ours(scenario, nodes, max(seeds, 5)), reference(scenario, nodes)
    for metric in (*COUNTS, *MEANS):
        assert close(found[metric], theirs[metric].value, theirs[metric].seeds), metric
    for kind in (found, {metric: [row.value] for metric, row in theirs.items()}):
        for packets, members, relays in zip(kind["pub_packets"], kind["receptions"], kind["relayed"], strict=True):
            assert packets == pytest.approx(1 + members + relays)


@pytest.mark.parametrize(
    ("scenario", "nodes", "seeds"),
    [*grouped("single", "many", seeds=4), ("pingpong_w1_single", 64, 3), ("pingpong_w10_single", 64, 3)],
)
def test_many_publishers_under_one_root(scenario: str, nodes: int, seeds: int) -> None:
    """Theirs loses the root's own message in most runs (its acknowledgements are misfiled), so counts are per message.

    A message takes N − 1 packets down the tree and as many acknowledgements, and one packet to the root unless it is
    the root's own. That one is a hop faster; latencies are compared as if it were not.
    """
    found, theirs = ours(scenario, nodes, seeds), reference(scenario, nodes)
    hop = 1000 if "d1000" in scenario else 100
    through_root: list[list[float]] = []
    for kind in (found, {metric: [row.value] for metric, row in theirs.items()}):
        through_root.append([])
        for index, copies in enumerate(kind["copies"]):
            messages = copies / nodes
            assert kind["receptions"][index] == pytest.approx(messages * (nodes - 1), abs=0.1)
            assert kind["ack_packets"][index] == pytest.approx(messages * (nodes - 1), abs=0.1)
            posts = kind["pub_packets"][index] - kind["ack_packets"][index]
            assert -0.1 <= messages - posts <= 1.1, "all but the root's own"
            through_root[-1].append(kind["reception_latency"][index] + hop * (messages - posts) / messages)
    assert close(found["ack_delay"], theirs["ack_delay"].value, theirs["ack_delay"].seeds)
    assert close(through_root[0], through_root[1][0], theirs["reception_latency"].seeds)


# -- churn ------------------------------------------------------------------------------------------------------------


def test_churn_without_changes() -> None:
    """Every member's own SUB, then 128 messages. Our joins take a second wave (ACT), so first messages wait longer."""
    scenario = "churn_s50_c0.0_f3_static_multi"
    found, theirs = ours(scenario, 32, 10), reference(scenario, 32)
    for metric in ("copies", "receptions", "pub_packets", "ack_packets", "sub_packets", "relayed"):
        assert set(found[metric]) == {theirs[metric].value}, metric
    assert fmean(found["hops"]) == pytest.approx(theirs["hops"].value, rel=0.02)
    assert fmean(found["reception_latency"]) == pytest.approx(theirs["reception_latency"].value, rel=0.12)


def test_churn_loses_nothing_here() -> None:
    """Theirs leaves half of what is received undelivered: copies delivered 1038 of some 2000, waiting 912 u.t."""
    scenario = "churn_s50_c0.125_f3_multi"
    found, theirs = ours(scenario, 32, 6), reference(scenario, 32)
    for metric in ("pub_packets", "sub_packets", "uns_packets"):
        assert fmean(found[metric]) == pytest.approx(theirs[metric].value, rel=0.25), metric
    assert fmean(found["copies"]) > 1.8 * theirs["copies"].value
    assert fmean(found["wait"]) < 0.05 * theirs["wait"].value
    for subs, uns in zip(found["sub_packets"], found["uns_packets"], strict=True):
        assert subs % 31 == 0, "a SUB goes to every node"
        assert uns < subs, "an UNS goes to the members"


# -- not in the file --------------------------------------------------------------------------------------------------


def test_a_quarter_of_4096_nodes_as_in_runs_of_theirs_that_are_not_in_the_file() -> None:
    """538 and 727 u.t., 1.76 times the messages (the thesis prints 533, 720 and 1.79)."""
    multi, single = (ours(f"one_s25_{system}", 4096, 2) for system in ("multi", "single"))
    assert fmean(multi["reception_latency"]) == pytest.approx(538, rel=0.02)
    assert fmean(single["reception_latency"]) == pytest.approx(727, rel=0.02)
    assert fmean(single["pub_packets"]) / fmean(multi["pub_packets"]) == pytest.approx(1.76, rel=0.03)
    assert set(multi["pub_packets"]) == set(multi["ack_packets"]) == {1023}


@pytest.mark.slow
def test_all_instead_of_a_quarter_of_1024_nodes_publish() -> None:
    """Theirs: +45.9 %; the thesis prints +38.8 % for 4096."""
    few, all_of_them = (ours(f"many_p{share}_w1000_multi", 1024, 1)["reception_latency"][0] for share in (25, 100))
    assert 100 * (all_of_them / few - 1) == pytest.approx(45.9, abs=4)


# -- names ------------------------------------------------------------------------------------------------------------


def test_names_of_scenarios_not_in_the_file() -> None:
    many = spec("many_p50_w250_d1000_NOACKQUEUE_PRUNED_multi", 256, 9)
    assert many.network == "peersim:delay=1000,express=40"
    assert many.workload == "uniform:window=250,publishers=0.5,subscribers=1.0"
    assert many.options == {"mode": "faithful", "prune": True}
    assert spec("one_s10_single", 64, 1).protocol == "srpt-s"
    with pytest.raises(UsageError, match="no name of a scenario"):
        spec("some_p50_multi", 8, 1)
