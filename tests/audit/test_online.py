"""The running judge: offences told when they happen, the same as the judge of whole traces finds, in bounded memory."""

import random

import pytest

from antecede.audit import audit
from antecede.audit.online import BLOCK, REMEMBERED_MAX, ContentComparison, Finding, Name, OnlineJudge
from antecede.trace import Event, Row, payload_digest

Message = tuple[int, int, tuple[Name, ...]]


def judged(deliveries: list[Message], *, whole: bool = True) -> list[Finding]:
    judge = OnlineJudge("n0", whole=whole)
    found = [one for at, (source, seq, deps) in enumerate(deliveries, 1) for one in judge.take(at, source, seq, deps)]
    return found + judge.losses()


def test_each_rule_is_told_at_the_delivery_that_breaks_it() -> None:
    found = judged([(1, 1, ()), (2, 1, ((1, 2),)), (1, 4, ()), (1, 2, ()), (1, 1, ()), (3, 9, ()), (3, 10, ())])
    assert [(one.rule, one.source, one.seq, one.position, one.count) for one in found] == [
        ("fifo", 1, 2, 4, 1),
        ("causal", 1, 2, 4, 1),
        ("exactly-once", 1, 1, 5, 1),
        ("complete", 1, 3, 3, 1),
    ]
    assert [one.words for one in found] == [
        "n0 delivered 1.2 (position 4) behind 1.4 of the same source",
        "n0 delivered 2.1 (position 2) before 1.2 (position 4), which it names as its predecessor",
        "n0 delivered 1.1 (position 5) a second time",
        "n0 delivered 1.4 (position 3) without 1.3",
    ]


def test_a_number_that_comes_late_is_no_loss() -> None:
    judge = OnlineJudge("n0", whole=True)
    swapped = [one.rule for at, seq in enumerate([1, 3, 2, 8, 5], 1) for one in judge.take(at, 7, seq, ())]
    assert swapped == ["fifo", "fifo"]
    assert [(one.rule, one.seq, one.count) for one in judge.losses()] == [("complete", 4, 1), ("complete", 6, 2)]
    assert not judge.losses()


def test_under_a_filter_holes_say_nothing_and_the_rest_is_judged() -> None:
    found = judged([(1, 1, ()), (2, 3, ((1, 5),)), (1, 9, ()), (1, 5, ()), (1, 9, ())], whole=False)
    assert [(one.rule, one.seq) for one in found] == [("fifo", 5), ("causal", 5), ("exactly-once", 9)]


def history(rng: random.Random) -> list[Message]:
    """What several sources publish, each having read everything before or less."""
    said: list[Message] = []
    counts: dict[int, int] = {}
    for _ in range(rng.randint(2, 30)):
        source = rng.randrange(4)
        counts[source] = counts.get(source, 0) + 1
        deps = tuple({(s, n) for s, n, _ in rng.sample(said, min(len(said), rng.randint(0, 2))) if s != source})
        said.append((source, counts[source], deps))
    return said


@pytest.mark.parametrize("seed", range(300))
def test_it_finds_a_violation_exactly_where_the_judge_of_whole_traces_does(seed: int) -> None:
    rng = random.Random(seed)
    said = history(rng)
    taken = list(said)
    for _ in range(rng.randint(0, 2)):
        a, b = rng.randrange(len(taken)), rng.randrange(len(taken))
        taken[a], taken[b] = taken[b], taken[a]
    if rng.random() < 0.3:
        taken.insert(rng.randrange(len(taken)), rng.choice(taken))
    rows = [
        Row(0, Event.PUBLISH, source, topic="t", source=source, seq=seq, deps=tuple(("t", *dep) for dep in deps))
        for source, seq, deps in said
    ]
    rows += [Row(1, Event.DELIVER, 99, topic="t", source=source, seq=seq) for source, seq, _ in taken]
    report = audit(rows, rules=["causal", "fifo", "exactly-once"])
    found = judged(taken, whole=rng.random() < 0.5)
    assert any(one.rule in ("causal", "fifo") for one in found) == (report.rule("causal").violations > 0)
    assert sum(one.rule == "exactly-once" for one in found) == report.rule("exactly-once").violations
    assert sum(one.rule == "fifo" for one in found) == report.rule("fifo").violations


@pytest.mark.parametrize("seed", range(60))
def test_contents_of_nodes_are_compared_as_the_judge_of_whole_traces_does(seed: int) -> None:
    """Three nodes deliver three blocks of one source, and perhaps one of them another content under a number."""
    rng = random.Random(seed)
    last = rng.choice([3 * BLOCK, 2 * BLOCK + rng.randint(1, BLOCK - 1)])
    wrong = {(rng.randrange(3), rng.randint(1, last)) for _ in range(rng.choice([0, 0, 1, 2]))}
    rows: list[Row] = []
    comparison = ContentComparison()
    told: set[int] = set()
    for node in range(3):
        judge = OnlineJudge(f"n{node}", whole=True)
        for seq in range(1, last + 1):
            digest = payload_digest(f"{seq} {node if (node, seq) in wrong else ''}".encode())
            rows.append(Row(seq, Event.DELIVER, node, topic="t", source=7, seq=seq, digest=digest))
            judge.take(seq, 7, seq, (), digest)
        latest = judge.contents(7)
        assert latest is not None
        told |= {one.first for one in {*judge.blocks, latest} if comparison.add(f"n{node}", one)}
    report = audit(rows, rules=["same-content"])
    assert report.ok == (not wrong) == (not told)
    assert told == {(seq - 1) // BLOCK * BLOCK + 1 for _, seq in wrong}


def test_contents_are_compared_after_a_hole_and_not_across_it() -> None:
    comparison = ContentComparison()
    for node, skipped in (("a", None), ("b", 3)):
        judge = OnlineJudge(node, whole=True)
        for seq in range(1, 2 * BLOCK + 1):
            if seq != skipped:
                judge.take(seq, 7, seq, (), 1000 + seq + (node == "b") * (seq == 2 * BLOCK))
        said = [comparison.add(node, block) for block in judge.blocks]
    assert said == [f"b delivered other contents than a among 7.{BLOCK + 1} to 7.{2 * BLOCK}"]


@pytest.mark.parametrize("whole", [True, False])
def test_memory_is_bounded(whole: bool) -> None:
    judge = OnlineJudge("n0", whole=whole)
    for at in range(1, 3 * REMEMBERED_MAX):
        judge.take(at, 1, 3 * at, ((2, at),))
    assert len(judge.state.awaited) <= REMEMBERED_MAX
    assert len(judge.state.skipped) <= REMEMBERED_MAX
    assert sum(map(len, judge.state.recent.values())) <= REMEMBERED_MAX
    judge.take(10**9, 1, 10**15, ())  # a hole of any width
    assert len(judge.state.skipped) <= REMEMBERED_MAX
