"""The run by arrays is the run of the event engine: packet by packet, delivery by delivery, figure by figure."""

from functools import cache
from math import sqrt
from statistics import fmean, stdev

import pytest
from hypothesis import HealthCheck, given, settings

from antecede.core import UsageError
from antecede.experiments.thesis.authors_simulator import measured, reference, spec
from antecede.sim import RunSpec, simulate
from antecede.sim.arrays import pays, simulate_arrays
from tests.sim.arrays.comparing import specs, story_of_arrays, story_of_engine

_FAITHFUL: dict[str, object] = {"mode": "faithful"}


@given(specs())
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_same_story(run: RunSpec) -> None:
    engine, arrays = story_of_engine(run), story_of_arrays(run)
    assert arrays.packets == engine.packets
    assert arrays.published == engine.published
    assert arrays.deliveries == engine.deliveries


@given(specs(nodes_max=80))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_same_figures(run: RunSpec) -> None:
    assert simulate_arrays(run).metrics == simulate(run).metrics


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["many_p25_w1000_multi", "many_p100_w1000_multi", "many_p100_w1000_PRUNED_multi"])
def test_the_same_figures_of_a_large_run(scenario: str) -> None:
    run = spec(scenario, 512, 1)
    assert simulate_arrays(run).metrics == simulate(run).metrics


# -- beside the authors' simulator ------------------------------------------------------------------------------------


@cache
def ours(scenario: str, nodes: int, seeds: int) -> dict[str, list[float]]:
    runs = [measured(scenario, simulate_arrays(spec(scenario, nodes, seed)).metrics) for seed in range(1, seeds + 1)]
    return {metric: [run[metric] for run in runs] for metric in runs[0]}


@pytest.mark.parametrize(
    ("scenario", "nodes", "seeds"),
    [
        ("one_s100_multi", 128, 5),
        ("many_p100_w1000_multi", 64, 4),
        ("many_p25_w1000_multi", 512, 2),
        ("many_p100_w1000_multi", 512, 2),
    ],
)
def test_beside_runs_of_the_authors_simulator(scenario: str, nodes: int, seeds: int) -> None:
    """Counts equal; means within 2 %, or three standard errors of two means of few seeds."""
    found, theirs = ours(scenario, nodes, seeds), reference(scenario, nodes)
    for metric in ("copies", "receptions", "pub_packets", "ack_packets", "relayed", "hops"):
        assert found[metric] == pytest.approx([theirs[metric].value] * seeds, abs=0.001), metric
    for metric in ("reception_latency", "delivery_latency", "ack_delay"):
        chance = 3 * stdev(found[metric]) * sqrt(1 / seeds + 1 / theirs[metric].seeds)
        allowed = max(0.02 * theirs[metric].value, chance)
        assert fmean(found[metric]) == pytest.approx(theirs[metric].value, abs=allowed), metric


def test_all_instead_of_a_quarter_of_1024_nodes_publish() -> None:
    """Theirs: +45.9 %."""
    few, all_of_them = (ours(f"many_p{share}_w1000_multi", 1024, 1)["reception_latency"][0] for share in (25, 100))
    assert 100 * (all_of_them / few - 1) == pytest.approx(45.9, abs=4)


# -- what it refuses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"protocol": "srpt-s", "options": {}}, "protocol"),
        ({"options": {"mode": "pipelined"}}, "options"),
        ({"options": {"mode": "faithful", "domain": "all"}}, "options"),
        ({"network": "normal"}, "network"),
        ({"network": "peersim:express=200"}, "express"),
        ({"faults": ("loss:rate=0.1",)}, "fault"),
        ({"workload": "discussion"}, "workload"),
        ({"workload": "churn:size=4"}, "workload"),
        ({"workload": "zipf"}, "workload"),
        ({"nodes": 1 << 17}, "nodes"),
        ({"nodes": 1 << 14, "workload": "uniform:messages=3"}, "workload"),
    ],
)
def test_refused(change: dict[str, object], field: str) -> None:
    plain: dict[str, object] = {"protocol": "vcube-ps", "nodes": 8, "network": "peersim", "workload": "uniform"}
    run = RunSpec(**{**plain, "options": _FAITHFUL, **change})  # type: ignore[arg-type]
    with pytest.raises(UsageError) as refusal:
        simulate_arrays(run)
    assert refusal.value.field == field


def test_experiments_use_it_for_large_runs_only() -> None:
    assert pays(spec("many_p100_w1000_multi", 512, 1))
    assert not pays(spec("many_p100_w1000_multi", 64, 1)), "few packets a step"
    assert not pays(spec("many_p100_w1000_single", 512, 1)), "another protocol"
    assert not pays(spec("pingpong_w1_multi", 512, 1)), "who reads, answers"
    one = RunSpec(protocol="vcube-ps", nodes=512, network="peersim", workload="one:messages=512", options=_FAITHFUL)
    assert not pays(one), "one message at a time"
