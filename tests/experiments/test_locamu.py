"""LoCaMu's figures: who wins, how lines grow, where they cross. Small trees; the paper's sizes in the slow tests."""

from itertools import pairwise
from typing import Any

import pytest

from antecede.experiments import EXPERIMENTS, find
from antecede.experiments.locamu.crash import CrashOfARelay
from antecede.experiments.locamu.figure_4 import Load, crossing, metadata
from antecede.experiments.locamu.figure_7 import (
    cbcast_header,
    locamu_header,
    memberships,
    widest,
)
from antecede.experiments.summary import Line, measure, summarise
from antecede.overlay.extended import Extended
from antecede.overlay.graph_shapes import complete_tree
from antecede.protocols.locamu.sizes import links_around

FIGURES = [name for name in EXPERIMENTS if name.startswith("locamu-")]


def run(load: Load, nodes: int, header: str = "whole", seed: int = 1) -> Any:
    experiment = find("locamu-figure-4a")
    return experiment.execute(load.spec(nodes, seed, header))


def lines(name: str, *, nodes: int, setting: str) -> dict[str, Line]:
    """Run one case of an experiment in this process."""
    experiment = find(name)
    (case,) = [case for case in experiment.cases([1], full=True) if case.setting == setting and case.nodes == nodes]
    metrics = {variant: experiment.execute(spec) for variant, spec in case.runs.items()}
    table = summarise(experiment, measure(experiment, [(case, metrics)]))
    return {f"{line.protocol} {line.metric}": line for line in table}


def test_every_figure_is_here_and_says_what_to_expect_of_it() -> None:
    assert FIGURES == [
        "locamu-figure-4a",
        "locamu-figure-4b",
        "locamu-figure-4c",
        "locamu-figure-4d",
        "locamu-figure-5a-b",
        "locamu-figure-5c-d",
        "locamu-figure-6a-b",
        "locamu-figure-6c-d",
        "locamu-figure-7",
        "locamu-section-6",
        "locamu-crash-of-a-relay",
    ]
    for name in FIGURES:
        assert len(find(name).about) > 100


def test_crossing() -> None:
    assert crossing((1, 2, 4), (10, 10, 10), (5, 8, 12)) == 3
    assert crossing((1, 2), (10, 10), (5, 9)) is None, "it never does"
    assert crossing((1, 2), (10, 10), (11, 12)) is None, "it was ahead from the beginning"


# -- IV-B: beside Delta-Neighbourhood ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("nodes", "hops"), [(15, 3), (127, 6), (511, 8)])
def test_figure_4a_delta_neighbourhood_waits_for_the_way_there_and_back(nodes: int, hops: int) -> None:
    """62.5 messages a second at 511 nodes: 2 × 8 ms, and a little for the bytes."""
    found = run(Load("delta-neighbourhood", messages=12), nodes)
    assert found["messages_a_second"] == pytest.approx(1000 / (2 * hops), rel=0.02)


def test_figure_4a_locamu_does_not_depend_on_the_size() -> None:
    """Beyond the neighbourhood of a node, 22 nodes: what 100 Mb/s carry of two copies of about 540 + 32 bytes."""
    small, large = (run(Load("locamu", messages=70), nodes) for nodes in (31, 63))
    assert large["messages_a_second"] == pytest.approx(small["messages_a_second"], rel=0.2)
    assert large["messages_a_second"] == pytest.approx(100e6 / 8 / 2 / (540 + 32), rel=0.2)
    assert large["busiest_mbps"] == pytest.approx(100, rel=0.2), "about as much is published as fits"


def test_figure_4b_delta_neighbourhood_overtakes_when_enough_publish() -> None:
    """On 31 nodes, where 10 Mb/s do for the crossing what 511 nodes do in the paper."""
    numbers = (1, 31)
    line = {}
    for protocol in ("locamu", "delta-neighbourhood"):
        loads = [Load(protocol, publishers, mbps=10, messages=93, within=16) for publishers in numbers]
        line[protocol] = [run(load, 31)["throughput"] for load in loads]
    assert line["delta-neighbourhood"][1] > 15 * line["delta-neighbourhood"][0], "grows with the publishers"
    assert line["locamu"][1] == pytest.approx(line["locamu"][0], rel=0.25), "flat"
    crossed = crossing(numbers, line["locamu"], line["delta-neighbourhood"])
    assert crossed is not None
    assert 5 < crossed < 31


@pytest.mark.slow
def test_figure_4b_at_its_own_size() -> None:
    """511 nodes, 100 Mb/s: the lines cross when headers are counted whole, and do not when only changes are."""
    whole = lines("locamu-figure-4b", nodes=511, setting="whole")
    assert 255 < whole["delta-neighbourhood overtakes_locamu_at_publishers"].ours < 511
    changes = lines("locamu-figure-4b", nodes=511, setting="changes")
    assert "delta-neighbourhood overtakes_locamu_at_publishers" not in changes


def test_figure_4c_only_locamu_makes_use_of_bandwidth() -> None:
    values = {
        (protocol, mbps): run(Load(protocol, mbps=mbps, messages=60), 15)["messages_a_second"]
        for protocol in ("locamu", "delta-neighbourhood")
        for mbps in (10, 100)
    }
    assert values["locamu", 100] / values["locamu", 10] == pytest.approx(10, rel=0.15)
    assert values["delta-neighbourhood", 100] / values["delta-neighbourhood", 10] < 1.1


def test_figure_4d_metadata_grows_with_f_and_throughput_drops() -> None:
    runs = [run(Load("locamu", f=f, messages=50), 31) for f in (0, 1, 2)]
    sizes = [metadata(found) for found in runs]
    rates = [found["messages_a_second"] for found in runs]
    assert sizes[0] * 3 < sizes[1]
    assert sizes[1] * 2 < sizes[2]
    assert rates[0] > rates[1] > 2 * rates[2]


# -- V: beside the causal ones ----------------------------------------------------------------------------------------


def _figure_5(protocol: str, publishers: int, messages: int, groups: str = "one", nodes: int = 127) -> Any:
    """At 10 Mb/s, each up to 100 messages a second; LoCaMu counted by what changes."""
    load = Load(protocol, publishers, mbps=10, interval=10, messages=messages, groups=groups)
    return run(load, nodes, "changes")


def test_figure_5c_cbcast_is_ahead_with_few_publishers_and_behind_with_all() -> None:
    alone, few, everyone = (_figure_5("cbcast", *load) for load in ((7, 60), (31, 100), (127, 254)))
    assert metadata(alone) < 60 < metadata(few) < metadata(everyone)
    assert alone["messages_a_second"] == pytest.approx(700, rel=0.1), "as much as they may"
    assert few["throughput"] > 1.5 * everyone["throughput"], "it decreases"
    locamu = _figure_5("locamu", 127, 60)
    assert metadata(everyone) > metadata(locamu)
    assert everyone["throughput"] < locamu["throughput"] < few["throughput"]


def test_figure_5_causal_barriers_use_a_very_high_amount_of_metadata() -> None:
    rows, clocks = (_figure_5(protocol, 31, 100, nodes=63) for protocol in ("causal-barriers", "cbcast"))
    assert metadata(rows) > 10 * metadata(clocks)
    assert rows["throughput"] < 0.1 * clocks["throughput"]


def test_figure_6_groups_cost_cbcast_its_clocks_and_causal_barriers_nothing() -> None:
    one, many = (_figure_5("cbcast", 31, 200, groups, nodes=63) for groups in ("one", "subtrees"))
    assert metadata(many) > 1.5 * metadata(one)
    one, many = (_figure_5("causal-barriers", 31, 200, groups, nodes=63) for groups in ("one", "subtrees"))
    assert 0.4 < metadata(many) / metadata(one) < 2


@pytest.mark.slow
def test_figure_6_groups_cost_locamu_nothing() -> None:
    one, many = (_figure_5("locamu", 127, 100, groups) for groups in ("one", "subtrees"))
    assert 0.8 < metadata(many) / metadata(one) < 1.2


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["whole", "changes"])
def test_figure_5c_the_lines_cross(setting: str) -> None:
    table = lines("locamu-figure-5c-d", nodes=255, setting=setting)
    assert 31 < table["cbcast falls_behind_locamu_at_publishers"].ours < 127
    assert 15 < table["cbcast metadata_exceeds_locamu_at_publishers"].ours < 127


# -- VI: metadata -----------------------------------------------------------------------------------------------------


def test_section_6_numbers() -> None:
    experiment = find("locamu-section-6")
    results = [
        (case, {name: experiment.execute(spec) for name, spec in case.runs.items()}) for case in experiment.cases([1])
    ]
    table = {(line.protocol, line.nodes): line for line in summarise(experiment, measure(experiment, results))}
    for protocol in ("causal-barriers", "cbcast", "locamu"):
        line = table[protocol, 1024]
        assert line.ours == line.published, protocol
    zipf = table["zipf-groups", 65536]
    assert (zipf.ours, zipf.published) == (260_519, 237_895), "does not reproduce, and is said so"


def test_figure_7_only_locamu_stays() -> None:
    experiment = find("locamu-figure-7")
    by_size = {}
    for case in experiment.cases([1]):
        metrics = {name: experiment.execute(spec) for name, spec in case.runs.items()}
        by_size[case.nodes] = {
            (value.protocol, value.metric): value.value for value in experiment.values(case.nodes, metrics)
        }
    sizes = sorted(by_size)
    for metric in ("header", "memory"):
        for small, large in pairwise(sizes):  # four times as many nodes
            assert by_size[large]["causal-barriers", metric] > 15 * by_size[small]["causal-barriers", metric]
            assert by_size[large]["cbcast", metric] > by_size[small]["cbcast", metric]
        assert by_size[65536]["cbcast", metric] > 3.5 * by_size[16384]["cbcast", metric]
        assert len({by_size[nodes]["locamu", metric] for nodes in sizes[1:]}) == 1
    assert by_size[65536]["locamu", "header"] == 540


def test_the_widest_neighbourhood_is_the_widest() -> None:
    graph = Extended(complete_tree(255, 3), 1)
    most = max(links_around(graph.around(node)) for node in range(255))
    assert links_around(widest(255)) == most == 102
    assert locamu_header(widest(255)) == 540


def test_clocks_of_several_groups() -> None:
    """Four bytes a member, and two to name each group but the message's own. Members(1) is one too many, as printed."""
    assert sum(memberships(4, 3)) == 5 + 3 + 2
    assert cbcast_header([4, 3, 2]) == 4 * 9 + 2 * 2


# -- a relay stops ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_relay_stops_and_its_messages_arrive() -> None:
    experiment = CrashOfARelay()
    (case,) = experiment.cases([1])
    values = {
        value.metric: value.value
        for value in experiment.values(15, {name: experiment.execute(spec) for name, spec in case.runs.items()})
    }
    assert values["promises_kept"] == 1
    assert values["messages_in_its_hands"] > 0
    assert values["their_latency_at_most"] < 100, "noticed after 20 ms, and not left to the timer"
    assert values["deliveries_a_second_unnoticed"] < 0.8 * values["deliveries_a_second_before"]
    assert values["deliveries_a_second_down"] > 0.8 * values["deliveries_a_second_before"] * 14 / 15
    assert values["deliveries_a_second_afterwards"] > 0.8 * values["deliveries_a_second_before"]
