"""Properties of the parts: rounds in colours, views, stores, and order against the whole causal past."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.audit import audit
from antecede.core import Message
from antecede.core.clocks import DomainFrontier
from antecede.protocols.gossip import groups_of, together
from antecede.protocols.gossip.order import Order
from antecede.protocols.gossip.packets import Peer, Rumour
from antecede.protocols.gossip.plan import EPOCHS, Plan
from antecede.protocols.gossip.store import Store
from antecede.protocols.gossip.subscriber_sessions import projected
from antecede.protocols.gossip.views import Views
from antecede.sim import RunSpec, simulate
from antecede.sim.run import promised_rules

GROUPS = ("g1", "g2", "g3")


@settings(deadline=None)
@given(st.integers(2, 64), st.integers(0, 1_000_000), st.integers(-10_000, 10_000))
def test_a_round_is_read_back_while_it_is_nearer_than_half_the_epochs(colours: int, now: int, off: int) -> None:
    plan = Plan((), colours)
    round_ = max(0, now + off % (EPOCHS * colours // 2))
    assert plan.round(plan.code(round_), now) == round_
    earlier = now - off % (EPOCHS * colours // 2)
    if earlier >= 0:
        assert plan.round(plan.code(earlier), now) == earlier


@settings(deadline=None)
@given(st.integers(2, 255), st.integers(1, 1000), st.integers(0, 1000))
def test_an_age_is_told_exactly_or_not_at_all(colours: int, round_: int, before: int) -> None:
    stream = ("g1", 7)
    (age,) = Plan((stream,), colours).ages(round_, {stream: before} if before else {})
    assert age in (0, round_ - before)
    assert (age != 0) == (0 < round_ - before < colours and before > 0)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.sets(st.sampled_from(GROUPS), min_size=1))))
def test_views_are_bounded_by_group_and_never_name_oneself_or_the_down(told: list[tuple[int, set[str]]]) -> None:
    views = Views(0, 3, random.Random(1))
    views.forget(5)
    for version, (node, groups) in enumerate(told):
        views.learn([Peer(node, version, tuple(sorted(groups)))], ("g1", "g2"))
    for group in ("g1", "g2"):
        view = views.of(group)
        assert len(view) == len(set(view)) <= 3
        assert not {0, 5}.intersection(view)
        assert all(group in views.groups(node) for node in view)
    assert views.of("g3") == ()
    assert set(views.targets(("g1",), 2)) <= set(views.of("g1"))


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), max_size=60))
def test_a_store_forgets_the_oldest_and_what_is_stale(waits: list[int]) -> None:
    store = Store(young=2, retain=5, capacity=8, bytes_max=1000)
    now, came = 0, []
    for seq, wait in enumerate(waits, 1):
        now += wait
        store.expire(now)
        store.add(Rumour(Message("g1", 1, seq), seq), now)
        came.append((now, seq))
        there = [rumour.message.seq for rumour in store.stream("g1", 1)]
        assert there == [seq for time, seq in came if now - time < 5][-8:]
        assert [rumour.message.seq for rumour in store.young] == [seq for time, seq in came if now - time < 2]


def test_a_store_is_bounded_in_bytes() -> None:
    store = Store(young=2, retain=0, capacity=1000, bytes_max=100)
    for seq in range(1, 10):
        store.add(Rumour(Message("g1", 1, seq, (), b"x" * 30), seq), 0)
    assert [rumour.message.seq for rumour in store.stream("g1", 1)] == [7, 8, 9]
    store.add(Rumour(Message("g1", 1, 10, (), b"x" * 200), 10), 0)
    assert [rumour.message.seq for rumour in store.stream("g1", 1)] == [10], "at least one"


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 40))
def test_who_takes_some_groups_and_gets_the_short_list_delivers_in_causal_order(rng: random.Random, count: int) -> None:
    """Brokers that see everything publish on random sets of groups; a reader gets projected copies in any order."""
    clocks = [DomainFrontier(node, groups_of) for node in range(3)]
    seen: list[list[int]] = [[] for _ in clocks]
    messages: list[Message] = []
    past: list[set[int]] = []
    numbers: dict[tuple[str, int], int] = {}
    for index in range(count):
        node = rng.randrange(3)
        topic = together(rng.sample(GROUPS, rng.randint(1, 3)))
        # Somebody else's messages are delivered first, as far as one likes, in an order that respects causality.
        for other in range(index):
            if other not in seen[node] and past[other] <= set(seen[node]) and rng.random() < 0.7:
                clocks[node].observe(messages[other], lambda *entry: True)
                seen[node].append(other)
        numbers[topic, node] = numbers.get((topic, node), 0) + 1
        deps, across = clocks[node].stamp(topic, numbers[topic, node])
        past.append(set(seen[node]))
        messages.append(Message(topic, node, numbers[topic, node], deps, b"", across))
        seen[node].append(index)
    takes = frozenset(rng.sample(GROUPS, rng.randint(1, 2)))
    mine = [index for index, message in enumerate(messages) if not takes.isdisjoint(groups_of(message.topic))]
    order = Order(lambda topic: not takes.isdisjoint(groups_of(topic)), held_max=1000)
    got: list[int] = []
    place = {message.id: index for index, message in enumerate(messages)}
    for index in rng.sample(mine, len(mine)):
        for rumour in order.offer(Rumour(projected(messages[index], takes), index + 1), 0):
            got.append(place[rumour.message.id])
    assert sorted(got) == mine
    for position, index in enumerate(got):
        assert past[index].intersection(mine) <= set(got[:position])


@pytest.mark.parametrize("protocol", ["gossip-context", "gossip-rounds"])
def test_a_notice_that_is_repeated_is_delivered_once(protocol: str) -> None:
    """With a fifth of the packets lost and none pulled, subscribers get more; order holds, and none comes twice."""
    delivered = {}
    for notices in (1, 4):
        spec = RunSpec(
            protocol=protocol,
            nodes=24,
            seed=3,
            workload="brokered:brokers=4,count=2,several=1,messages=30,interval=300",
            faults=("loss:share=0.2",),
            options={"brokers": 4, "pull": False, "notices": notices},
        )
        result = simulate(spec, trace=True)
        assert result.trace is not None
        rows = list(result.trace.rows())
        assert audit(rows, rules=promised_rules(spec)).ok
        delivered[notices] = sum(row.event.name == "DELIVER" and row.node >= 4 for row in rows)
    assert delivered[4] > delivered[1]
