"""Probabilistic clocks: the delivery condition as published, what is promised, and violations that are counted."""

import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.audit import Report, audit
from antecede.core import Message, Packet, ProtocolError, UsageError
from antecede.protocols.options import PROMISES
from antecede.protocols.probabilistic_clocks import ProbabilisticClocks
from antecede.protocols.probabilistic_clocks.options import ProbabilisticOptions, combination
from antecede.protocols.probabilistic_clocks.process import ENTRY, HEADER, NAME, Stamped
from antecede.sim import RunSpec, simulate
from antecede.sim.run import promised_rules

LOAD = "uniform:messages=4,window=300"


def spec_of(nodes: int, seed: int, network: str = "heavy-tailed", **options: object) -> RunSpec:
    faults = ("duplication:share=0.1",)
    return RunSpec(
        protocol="probabilistic-clocks",
        nodes=nodes,
        seed=seed,
        network=network,
        workload=LOAD,
        faults=faults,
        options=options,
    )


def judged(spec: RunSpec, rules: tuple[str, ...]) -> Report:
    result = simulate(spec, trace=True)
    assert result.trace is not None
    assert result.metrics["still_held"] == 0
    return audit(result.trace.rows(), rules=rules)


# -- what is promised -------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(
    st.integers(2, 9),
    st.integers(0, 9999),
    st.sampled_from(["heavy-tailed", "normal"]),
    st.sampled_from([(0, 1), (1, 1), (3, 1), (3, 2), (8, 2)]),
    st.sampled_from(["random", "in-turn"]),
)
def test_what_is_promised_holds_and_no_message_waits_for_ever(
    nodes: int, seed: int, network: str, size: tuple[int, int], mapping: str
) -> None:
    spec = spec_of(nodes, seed, network, entries=size[0], keys=size[1], mapping=mapping)
    report = judged(spec, promised_rules(spec))
    assert report.ok, report
    assert report.deliveries == 4 * nodes * nodes


def test_only_the_vector_clock_promises_order() -> None:
    assert ProbabilisticOptions(entries=0, keys=1).promises == PROMISES
    assert not {"causal", "fifo"} & set(ProbabilisticOptions(entries=100).promises)


def test_fewer_entries_give_more_violations_and_an_entry_for_each_process_gives_none() -> None:
    counted = []
    for entries in (1, 4, 16):
        reports = [
            judged(spec_of(16, seed, entries=entries, keys=1, mapping="in-turn"), ("causal", "fifo"))
            for seed in range(3)
        ]
        counted.append(sum(report.rule("causal").violations for report in reports))
        if entries == 1:
            assert any(report.rule("fifo").violations for report in reports)
    assert counted[0] > counted[1] > counted[2] == 0, counted


def test_two_keys_violate_less_than_one_at_this_load() -> None:
    by_keys = [
        sum(
            judged(spec_of(16, seed, entries=12, keys=keys), ("causal",)).rule("causal").violations for seed in range(4)
        )
        for keys in (1, 2)
    ]
    assert by_keys[0] > by_keys[1], by_keys


# -- the delivery condition, against the obvious implementation -----------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(1, 3), st.integers(0, 10**6))
def test_a_message_is_delivered_once_its_condition_holds(entries: int, keys: int, seed: int) -> None:
    """Packets come in any order. After each, the process has delivered what the printed condition lets through."""
    rng = random.Random(seed)
    members = {"t": range(4)}
    sets = [rng.sample(range(entries), min(keys, entries)) for _ in range(4)]
    nodes = [ProbabilisticClocks(node, members, entries=entries, keys=sets[node]) for node in range(4)]
    pending: list[list[tuple[int, Stamped]]] = [[] for _ in nodes]
    vectors = [[0] * entries for _ in nodes]
    waiting: list[list[Stamped]] = [[] for _ in nodes]

    def count(node: int, used: tuple[int, ...]) -> None:
        for entry in used:
            vectors[node][entry] += 1

    def settle(node: int) -> None:
        """Deliver by the printed condition, and compare sets: what is free at a time may be delivered in any order."""
        expected: list[Message] = []
        while free := [
            packet
            for packet in waiting[node]
            if all(vectors[node][x] >= packet.vector[x] - (x in packet.keys) for x in range(entries))
        ]:
            waiting[node].remove(free[0])
            count(node, free[0].keys)
            expected.append(free[0].message)
        got = [message for message in nodes[node].out.deliveries if message.source != node]
        assert sorted(message.id for message in got) == sorted(message.id for message in expected)
        for to, packet in nodes[node].out.sends:
            assert isinstance(packet, Stamped)
            pending[to].append((node, packet))
        nodes[node].out.clear()
        assert nodes[node].held == len(waiting[node])

    for _ in range(40):
        node = rng.randrange(4)
        if rng.random() < 0.4:
            nodes[node].publish("t", b"")
            count(node, tuple(sets[node]))
            settle(node)
        elif pending[node]:
            sender, packet = pending[node].pop(rng.randrange(len(pending[node])))
            nodes[node].receive(sender, packet)
            waiting[node].append(packet)
            settle(node)


def test_a_copy_is_not_delivered_again() -> None:
    one, other = (ProbabilisticClocks(node, {"t": range(2)}, entries=1, keys=(0,)) for node in range(2))
    message = one.publish("t", b"x")
    ((_, packet),) = one.out.sends
    for _ in range(2):
        other.receive(0, packet)
    assert other.out.deliveries == [message]


# -- sets of entries --------------------------------------------------------------------------------------------------


def test_every_set_of_entries_has_a_number() -> None:
    for entries, keys in ((5, 1), (5, 2), (6, 3), (4, 4)):
        found = [combination(entries, keys, number) for number in range(len(list(combinations(range(entries), keys))))]
        assert found == list(combinations(range(entries), keys))


def test_a_process_draws_as_many_entries_as_it_has_keys() -> None:
    make = ProbabilisticOptions(entries=10, keys=3).build_with_rng(4, {"t": range(4)}, random.Random)
    process = make(2)
    process.publish("t", b"")
    packet = process.out.sends[0][1]
    assert isinstance(packet, Stamped)
    assert len(set(packet.keys)) == sum(packet.vector) == 3
    assert process.size(packet) == HEADER + NAME + ENTRY * 11


def test_mistakes() -> None:
    node = ProbabilisticClocks(0, {"t": range(2)}, entries=2, keys=(0,))
    with pytest.raises(UsageError, match="not a member"):
        node.publish("other", b"")
    with pytest.raises(UsageError, match="do not change"):
        node.subscribe("t")
    with pytest.raises(UsageError, match="there are 2 entries"):
        ProbabilisticOptions(entries=2, keys=3).build_with_rng(2, {}, random.Random)
    for packet in (Packet(), Stamped(Message("t", 1, 1), (0,), (1,)), Stamped(Message("t", 1, 1), (2,), (1, 0))):
        with pytest.raises(ProtocolError, match="not one of its protocol"):
            node.receive(1, packet)
