"""Workloads: how often, when, by whom, about what."""

import random
from collections import Counter

import pytest

from antecede.core import UsageError
from antecede.sim import RunSpec, simulate
from antecede.sim.brokered import Brokered
from antecede.sim.detectors import Detectors
from antecede.sim.overlapping import Overlapping
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


def test_popularity_changes_abruptly() -> None:
    rows = publications("overlapping:count=40,taken=40,publication=power,messages=400,interval=10,shuffle=2000")
    before = Counter(row.topic for row in rows if row.time_us < 2000 * TICKS)
    after = Counter(row.topic for row in rows if row.time_us >= 2000 * TICKS)
    assert before.most_common(1)[0][0] == "topic-01" != after.most_common(1)[0][0]
    assert len({row.node for row in rows}) > 20
    few = publications("overlapping:count=4,taken=4,publishers=2")
    assert {row.node for row in few} == {0, 1}


def test_detectors_take_everything_and_sources_their_own() -> None:
    workload = Detectors(sources=3, detectors=2)
    assert workload.members(9, random.Random(1)) == {"topic-1": (0, 7, 8), "topic-2": (1, 7, 8), "topic-3": (2, 7, 8)}
    with pytest.raises(UsageError, match="at least 5"):
        workload.members(4, random.Random(1))
    spec = RunSpec(protocol="scribe", nodes=9, workload="detectors:sources=3,messages=10", network="constant:delay=1")
    result = simulate(spec)
    assert result.metrics["published"] == 30
    assert result.metrics["deliveries"] == 90  # sources get their own back


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


def test_overlapping_subscriptions_have_the_papers_shares() -> None:
    """MIDLAB 6.1: of the law, 40 % of 1,000 topics have 80 % at shape 0.269, and 0.5 % at 0.901."""
    rng = random.Random(1)
    for shape, share in ((0.269, 400), (0.901, 5)):
        workload = Overlapping(count=1000, shape=shape)
        draws = [workload._one(rng, "power") for _ in range(20_000)]
        whole = sum(place < share for place in draws) / len(draws)
        # The shares are those of the whole law; ranks that do not exist are drawn again here, so ours are larger.
        law = 1 - (share + 1) ** -shape
        there_are = 1 - 1001**-shape
        assert whole == pytest.approx(law / there_are, abs=0.02)
        assert law == pytest.approx(0.80, abs=0.01)


def subscriptions(workload: str, nodes: int = 6) -> list[Row]:
    """Subscriptions and publications of a run, in their order."""
    trace = simulate(RunSpec(protocol="srpt-s", nodes=nodes, workload=workload), trace=True).trace
    assert trace is not None
    return [row for row in trace.rows() if row.event in (Event.SUBSCRIBE, Event.UNSUBSCRIBE, Event.PUBLISH)]


def test_subscriptions_follow_the_ranks_of_topics() -> None:
    load = "overlapping:count=12,taken=4,subscription=power,publication=power,messages=60,shuffle=2000"
    rows = subscriptions(f"{load},follow=true")
    joins = Counter(row.topic for row in rows if row.event is Event.SUBSCRIBE)
    leaves = Counter(row.topic for row in rows if row.event is Event.UNSUBSCRIBE)
    first = Counter(row.topic for row in rows if row.event is Event.SUBSCRIBE and row.time_us == 0)
    last = joins - leaves
    assert first != last
    assert sorted(first.values()) == sorted(last.values()), "other topics have the same numbers of takers"
    assert all(row.time_us >= 2000 * TICKS for row in rows if row.event is Event.UNSUBSCRIBE)
    assert not any(row.event is Event.UNSUBSCRIBE for row in subscriptions(load))


def test_subscribers_that_do_not_publish_change_their_topics() -> None:
    rows = subscriptions("overlapping:count=12,taken=4,publishers=1,messages=60,interval=100,change=200")
    left = [(row.node, row.topic) for row in rows if row.event is Event.UNSUBSCRIBE]
    published = {(row.node, row.topic) for row in rows if row.event is Event.PUBLISH}
    assert len(left) > 10
    assert not published & set(left)
    taken = sum((row.event is Event.SUBSCRIBE) - (row.event is Event.UNSUBSCRIBE) for row in rows)
    assert taken == 6 * 4
    with pytest.raises(UsageError, match="set publishers to 1 or more"):
        subscriptions("overlapping:count=12,taken=4,change=200")


def test_overlapping_publishes_where_somebody_subscribes() -> None:
    spec = RunSpec(protocol="srpt-s", nodes=6, workload="overlapping:count=12,taken=2,messages=80")
    trace = simulate(spec, trace=True).trace
    assert trace is not None
    rows = list(trace.rows())
    taken = {(row.node, row.topic) for row in rows if row.event is Event.SUBSCRIBE}
    published = [(row.node, row.topic) for row in rows if row.event is Event.PUBLISH]
    assert len(taken) == 12
    assert len(published) == 80
    assert set(published) <= taken
    worst = RunSpec(protocol="srpt-s", nodes=6, workload="overlapping:count=5,taken=5,publication=worst,messages=9")
    trace = simulate(worst, trace=True).trace
    assert trace is not None
    assert {row.topic for row in trace.rows() if row.event is Event.PUBLISH} == {"topic-5"}


def test_topics_of_several_groups_come_in_order() -> None:
    """Their members' rows open every trace, and a set of names has another order in every process."""
    workload = Brokered(count=10, several=0.5, overlap=0.5)
    topics = list(workload.members(64, random.Random(1)))[10:]
    assert len(topics) == 45
    assert topics == sorted(topics)
