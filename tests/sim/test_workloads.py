"""Workloads: how often, when, by whom, about what."""

from collections import Counter

import pytest

from antecede.core import UsageError
from antecede.sim import RunSpec, simulate
from antecede.sim.units import TICKS
from antecede.trace import Event, Row


def publications(workload: str, nodes: int = 32, seed: int = 1) -> list[Row]:
    spec = RunSpec(protocol="causal-aggregation", nodes=nodes, seed=seed, workload=workload, network="constant:delay=1")
    trace = simulate(spec, trace=True).trace
    assert trace is not None
    return [row for row in trace.rows() if row.event is Event.PUBLISH]


def test_uniform_stays_in_its_window_and_every_node_publishes() -> None:
    rows = publications("uniform:window=50,messages=3")
    assert Counter(row.node for row in rows) == dict.fromkeys(range(32), 3)
    assert 40 * TICKS < max(row.time_us for row in rows) <= 50 * TICKS


def test_a_share_of_publishers() -> None:
    assert len({row.node for row in publications("uniform:publishers=0.25")}) == 8


def test_exponential_and_poisson_have_their_mean() -> None:
    exponential = [
        row.time_us / TICKS for seed in range(10) for row in publications("exponential:mean=1000", seed=seed)
    ]
    poisson = [row.time_us / TICKS for seed in range(10) for row in publications("poisson:mean=1000", seed=seed)]
    assert 850 < sum(exponential) / 320 < 1150
    assert 990 < sum(poisson) / 320 < 1010
    assert max(poisson) < 1200 < max(exponential)  # a Poisson number is close to its mean, a waiting time is not


def test_rate_spreads_over_random_nodes() -> None:
    rows = publications("rate:messages=200,interval=2")
    assert len(rows) == 200
    assert 300 * TICKS < rows[-1].time_us < 500 * TICKS
    assert len({row.node for row in rows}) > 25


def test_in_a_discussion_answers_follow_what_was_read() -> None:
    rows = publications("discussion:wait=2,messages=2,begin=2,pause=5", nodes=8)
    assert len(rows) == 16
    answers = [row for row in rows if row.time_us > 0]
    assert all(row.deps for row in answers), "an answer depends on what its writer has read"


def test_zipf_prefers_the_first_topics() -> None:
    rows = publications("zipf:count=4,exponent=1,messages=30")
    counts = Counter(row.topic for row in rows)
    assert set(counts) == {"topic-1", "topic-2", "topic-3", "topic-4"}
    assert counts["topic-1"] > 1.5 * counts["topic-4"]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"nodes": 0}, "choose 1 … 65536"),
        ({"nodes": -4}, "choose 1 … 65536"),
        ({"protocol": "kafka"}, "choose one of"),
        ({"workload": "uniform:messages=0"}, "Expected `int` >= 1"),
        ({"options": {"wiat": 3}}, "unknown field `wiat`"),
        ({"options": {"trees": "single", "root": 99}}, "there is no such node"),
        ({"options": {"barrier": True}}, "set aggregate=false"),
        ({"faults": ("crash:node=99,at=1",)}, "there is no such node"),
    ],
)
def test_what_there_is_not_is_refused_in_one_line(spec: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        simulate(RunSpec(**({"protocol": "causal-aggregation", "nodes": 8} | spec)))  # type: ignore[arg-type]
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
