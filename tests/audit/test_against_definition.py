"""The judge agrees with the bare definition, on good runs and on noise: verdict, counts and the first offence."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.audit import ALL_RULES, Verdict, audit
from antecede.trace import Row

from . import by_definition
from .random_runs import causal_run, noise, with_crashes, with_digests

SEEDS = st.integers(0, 2**32)


def compare_causal(rows: list[Row], across_topics: bool) -> None:
    rule = audit(rows, across_topics=across_topics).rule("causal")
    offences = by_definition.causal_offences(rows, across_topics)
    assert rule.violations == len(offences)
    assert (rule.verdict is Verdict.VIOLATED) == bool(offences)
    if offences:
        assert rule.example is not None
        overtaken, message = rule.example.messages
        first = offences[0]
        assert (rule.example.rows[0], rule.example.nodes, message) == (first.row, (first.node,), first.message)
        assert overtaken == by_definition.first_mentioned(rows, first.overtaken)
        assert by_definition.key(rows[rule.example.rows[1]]) == overtaken


@given(SEEDS, st.integers(1, 5), st.integers(1, 3), st.integers(0, 60), st.booleans())
@settings(max_examples=250, deadline=None)
def test_causal_on_noise(seed: int, nodes: int, topics: int, length: int, across_topics: bool) -> None:
    compare_causal(noise(Random(seed), nodes, topics, length), across_topics)


@given(SEEDS, st.integers(2, 5), st.integers(1, 3), st.integers(1, 8), st.booleans())
@settings(max_examples=100, deadline=None)
def test_causal_on_good_runs_with_two_rows_exchanged(
    seed: int, nodes: int, topics: int, messages: int, across_topics: bool
) -> None:
    random = Random(seed)
    rows = causal_run(random, nodes, topics, messages).rows
    one, other = random.randrange(len(rows)), random.randrange(len(rows))
    rows[one], rows[other] = rows[other]._replace(time_us=10 * one), rows[one]._replace(time_us=10 * other)
    compare_causal(rows, across_topics)


@given(SEEDS, st.integers(1, 5), st.integers(1, 3), st.integers(0, 60))
@settings(max_examples=150, deadline=None)
def test_fifo_and_total_on_noise(seed: int, nodes: int, topics: int, length: int) -> None:
    rows = noise(Random(seed), nodes, topics, length)
    report = audit(rows, rules=ALL_RULES)

    fifo, late_rows = report.rule("fifo"), by_definition.fifo_offences(rows)
    assert fifo.violations == len(late_rows)
    if fifo.example:
        assert fifo.example.rows[1] == min(late_rows)

    total, disagreements = report.rule("total"), by_definition.total_offences(rows)
    assert total.violations == len({(one, other) for one, other, _, _ in disagreements})
    if total.example:
        assert (*total.example.nodes, *total.example.messages) in disagreements
        assert total.example.nodes == min(disagreements)[:2]


@given(SEEDS, st.integers(1, 5), st.integers(1, 3), st.integers(0, 60), st.sampled_from([0.0, 0.1, 0.6]))
@settings(max_examples=150, deadline=None)
def test_contents_on_noise(seed: int, nodes: int, topics: int, length: int, wrong: float) -> None:
    random = Random(seed)
    rows = with_digests(random, noise(random, nodes, topics, length), wrong)
    rule, others = audit(rows).rule("same-content"), by_definition.other_contents(rows)
    assert rule.checked == sum(row.digest >= 0 for row in rows)
    assert rule.violations == len(others)
    if rule.example:
        assert rule.example.rows[1] == min(others)
        assert by_definition.key(rows[rule.example.rows[0]]) == by_definition.key(rows[min(others)])


@given(SEEDS, st.integers(1, 5), st.integers(1, 3), st.integers(0, 60))
@settings(max_examples=150, deadline=None)
def test_loss_under_crashes(seed: int, nodes: int, topics: int, length: int) -> None:
    random = Random(seed)
    good = causal_run(random, nodes, topics, length // 8).rows
    rows = with_crashes(random, good + noise(random, nodes, topics, length), nodes)
    report = audit(rows)
    for rule, lost in (
        (report.rule("complete"), by_definition.losses(rows)),
        (report.rule("agreement"), by_definition.disagreements(rows)),
    ):
        assert rule.violations == len(lost)
        if rule.example:
            assert (rule.example.nodes[0], rule.example.messages[0]) in lost
