"""The judge of arrays against the judge of rows, on traces good and broken, in one bucket and in many."""

import time
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.audit import ALL_RULES, Question
from antecede.audit.vectorised import causal, graph, messages
from antecede.audit.vectorised.messages import Messages, distinct
from antecede.audit.vectorised.scc import points_of
from antecede.audit.vectorised.source import DirectorySource, TableSource
from antecede.audit.vectorised.thin import thin
from antecede.audit.vectorised.verdict import graph_to_add, judge_run, read_ledger, survey_bucket
from antecede.sim import RunSpec, simulate
from antecede.trace import Event, Row
from antecede.trace.directory import write_directory
from tests.audit.judged import same_verdict
from tests.audit.random_runs import retimed
from tests.audit.scenario import read_scenario
from tests.audit.traces import random_trace, table

SCENARIOS = sorted((Path(__file__).parents[1] / "audit" / "scenarios").glob("*.txt"))


def question(random: Random) -> Question:
    return Question(
        across_topics=random.random() < 0.5,
        rules=ALL_RULES,
        broadcast_to=(0, 1, 2) if random.random() < 0.1 else (),
    )


def judged_alike(seed: int, directory: Path | None = None) -> tuple[list[Row], Question]:
    random = Random(seed)
    rows, asked = random_trace(random), question(random)
    trace = table(rows)
    sources: list[TableSource | DirectorySource] = [TableSource(trace)]
    if directory is not None:
        write_directory(trace, directory / str(seed), bucket_rows=max(1, len(rows) // random.randint(2, 9)))
        sources.append(DirectorySource(directory / str(seed)))
    for source in sources:
        same_verdict(rows, asked, judge_run(source, asked))
    return rows, asked


@pytest.mark.parametrize("block", range(8))
def test_random_traces(block: int, tmp_path: Path) -> None:
    """Four hundred, every eighth also in buckets on disk. A failure names its seed."""
    for seed in range(50 * block, 50 * (block + 1)):
        try:
            judged_alike(seed, tmp_path if seed % 8 == 0 else None)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: judged_alike({seed})") from error


def cpu_s(topics: int) -> float:
    """The processor time that judging a run takes in which each topic has a subscriber, a message and its delivery."""
    rows = [Row(0, Event.SUBSCRIBE, 1, topic=f"t/{n}") for n in range(topics)]
    rows += [Row(1, Event.PUBLISH, 0, topic=f"t/{n}", source=0, seq=1) for n in range(topics)]
    rows += [Row(2, Event.DELIVER, 1, topic=f"t/{n}", source=0, seq=1) for n in range(topics)]
    source = TableSource(table(rows))
    took = []
    for _ in range(3):
        began = time.process_time()
        report = judge_run(source, Question()).report
        took.append(time.process_time() - began)
        assert report is not None
        assert report.ok
        assert report.rule("complete").checked == topics
    return min(took)


def test_the_cost_follows_the_rows_however_many_topics_they_have() -> None:
    """Eight times the topics take eight to ten times the processor time. Comparing each topic with all: 27 times."""
    assert cpu_s(64_000) < 16 * cpu_s(8_000)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_many_random_traces(block: int, tmp_path: Path) -> None:
    """Ten thousand."""
    for seed in range(100_000 + 500 * block, 100_000 + 500 * (block + 1)):
        try:
            judged_alike(seed, tmp_path if seed % 8 == 0 else None)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: judged_alike({seed})") from error


def test_the_random_traces_reach_everything() -> None:
    """Every rule violated, graphs completed and with circles, rows refused: or the tests above prove little."""
    seen: Counter[str] = Counter()
    wanted = {*ALL_RULES, "refused", "completed", "strangers", "circle"}
    for seed in range(300):
        if all(seen[name] >= 5 for name in wanted):
            break
        random = Random(seed)
        rows, asked = random_trace(random), question(random)
        outcome = judge_run(TableSource(table(rows)), asked)
        if outcome.report is None:
            seen["refused"] += 1
            continue
        seen.update(outcome.report.violated)
        source = TableSource(table(rows))
        ledger = read_ledger(source, asked)
        extra = graph_to_add(ledger, [survey_bucket(source, ledger, asked, 0)])
        if extra is not None:
            seen["completed"] += 1
            seen["strangers"] += bool(extra.strangers)
            ledger.add_strangers(extra.strangers)
            at = ledger.published_at
            seen["circle"] += bool((at[extra.edges[0]] > at[extra.edges[1]]).any())
    assert not wanted - {name for name in seen if seen[name] >= 5}


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenarios(path: Path) -> None:
    """The golden scenarios of the other judge."""
    scenario = read_scenario(path)
    asked = Question(
        across_topics=scenario.across_topics, rules=tuple(scenario.rules), broadcast_to=tuple(scenario.broadcast_to)
    )
    same_verdict(scenario.rows, asked, judge_run(TableSource(table(scenario.rows)), asked))


def test_what_was_never_taken_does_not_hide_what_lies_behind(tmp_path: Path) -> None:
    """a → b → c, and a node that takes c, then a, never b: the chain runs through what it did not take."""
    rows = retimed(
        [
            Row(0, Event.PUBLISH, 0, -1, "t", 0, 1),
            Row(0, Event.DELIVER, 1, -1, "t", 0, 1),
            Row(0, Event.PUBLISH, 1, -1, "u", 1, 1, deps=(("t", 0, 1),)),
            Row(0, Event.DELIVER, 2, -1, "u", 1, 1),
            Row(0, Event.PUBLISH, 2, -1, "t", 2, 1, deps=(("u", 1, 1),)),
            Row(0, Event.DELIVER, 3, -1, "t", 2, 1),
            Row(0, Event.DELIVER, 3, -1, "t", 0, 1),
        ]
    )
    for across_topics, violations in ((True, 1), (False, 0)):
        asked = Question(across_topics=across_topics)
        report = same_verdict(rows, asked, judge_run(TableSource(table(rows)), asked))
        assert report is not None
        assert report.rule("causal").violations == violations


def test_an_edge_that_a_path_implies_is_not_added() -> None:
    """a → b → c, and c's publisher took a but never b: the recorded graph has the path, so nothing is judged twice."""
    rows = retimed(
        [
            Row(0, Event.PUBLISH, 0, -1, "t", 0, 1),
            Row(0, Event.DELIVER, 1, -1, "t", 0, 1),
            Row(0, Event.PUBLISH, 1, -1, "t", 1, 1, deps=(("t", 0, 1),)),
            Row(0, Event.DELIVER, 2, -1, "t", 0, 1),
            Row(0, Event.PUBLISH, 2, -1, "t", 2, 1, deps=(("t", 1, 1),)),
            Row(0, Event.DELIVER, 3, -1, "t", 2, 1),
            Row(0, Event.DELIVER, 3, -1, "t", 0, 1),
        ]
    )
    without_b_to_c = [row._replace(deps=()) if row.source == 2 else row for row in rows]
    for each, needed in ((rows, False), (without_b_to_c, True)):
        source, asked = TableSource(table(each)), Question()
        ledger = read_ledger(source, asked)
        extra = graph_to_add(ledger, [survey_bucket(source, ledger, asked, 0)])
        assert (extra is not None) == needed
        report = same_verdict(each, asked, judge_run(source, asked))
        assert report is not None
        assert report.rule("causal").violations == 1


def test_small_batches_and_thinned_graphs_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds on memory and on steps, made tiny."""
    monkeypatch.setattr(causal, "ENTRIES_MAX", 1)
    monkeypatch.setattr(causal, "STEPS_MAX", 0)
    monkeypatch.setattr(causal, "PATH_STEPS_MAX", 0)
    monkeypatch.setattr(graph, "_EDGES_A_MESSAGE", 0)
    monkeypatch.setattr(messages, "_SMALL", 0)
    monkeypatch.setattr(messages, "_WASTE_MAX", 0)
    for seed in range(1000, 1100):
        judged_alike(seed)


def test_thinning_leaves_out_what_is_implied() -> None:
    """A long run without recorded dependencies: every delivery at a publisher would be an edge."""
    spec = RunSpec(protocol="causal-aggregation", nodes=8, workload="uniform:messages=10,window=5000")
    trace = simulate(spec, trace=True).trace
    assert trace is not None
    asked = Question()
    source = TableSource(table([row._replace(deps=()) for row in trace.rows()]))
    ledger = read_ledger(source, asked)
    extra = graph_to_add(ledger, [survey_bucket(source, ledger, asked, 0)])
    assert extra is not None
    src, dst = graph.recorded_edges(ledger, across_topics=True)
    src, dst = np.concatenate([src, extra.edges[0]]), np.concatenate([dst, extra.edges[1]])
    thin_src, thin_dst = thin(ledger, src, dst, np.zeros(len(ledger.messages), np.int64))
    assert len(thin_src) < len(src) / 1.5
    full = graph.Graph(len(ledger.messages), src, dst, forward=True)
    less = graph.Graph(len(ledger.messages), thin_src, thin_dst, forward=True)
    for message in range(len(ledger.messages)):
        assert full.past(message).tolist() == less.past(message).tolist()


# -- the parts --------------------------------------------------------------------------------------------------------

NAMES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.sampled_from([1, 2, 3, 10, 10**12])), max_size=12)


@given(NAMES, NAMES, NAMES)
@settings(max_examples=150, deadline=None)
def test_messages_are_found_by_name(
    known: list[tuple[int, int, int]], more: list[tuple[int, int, int]], wanted: list[tuple[int, int, int]]
) -> None:
    known = list(dict.fromkeys(known))
    more = [name for name in dict.fromkeys(more) if name not in known]
    found = Messages(*_columns(known)).extended(*_columns(more)).find(*_columns([*wanted, *known, *more]))
    every = [*known, *more]
    assert found.tolist() == [every.index(name) if name in every else -1 for name in [*wanted, *known, *more]]


@given(NAMES)
def test_distinct_keeps_the_first(names: list[tuple[int, int, int]]) -> None:
    assert distinct(*_columns(names)).tolist() == [names.index(name) for name in dict.fromkeys(names)]


@given(st.integers(1, 12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30))
def test_circles_become_points(count: int, edges: list[tuple[int, int]]) -> None:
    edges = [(a % count, b % count) for a, b in edges]
    points = points_of(count, *(np.array([edge[end] for edge in edges], np.int64) for end in (0, 1)))
    reach = np.eye(count, dtype=bool)
    for a, b in edges:
        reach[a, b] = True
    for middle in range(count):
        reach |= np.outer(reach[:, middle], reach[middle])
    for a in range(count):
        for b in range(count):
            assert (points[a] == points[b]) == (reach[a, b] and reach[b, a])
            if reach[a, b]:
                assert points[a] <= points[b]


@given(st.integers(1, 12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30))
def test_paths_are_found(count: int, edges: list[tuple[int, int]]) -> None:
    """The search that stops early against the whole past of each message."""
    edges = [(min(a, b) % count, max(a, b) % count) for a, b in edges]
    src, dst = np.array([(a, b) for a, b in edges if a < b], np.int64).reshape(-1, 2).T
    found = graph.Graph(count, src, dst, forward=True)
    for last in range(count):
        past = found.past(last).tolist()
        for first in range(count):
            ends = np.array([first]), np.array([last])
            assert found.has_paths(*ends, 100) == (first == last or first in past)
            assert first == last or not found.has_paths(*ends, 0)


def _columns(names: list[tuple[int, int, int]]) -> list[np.ndarray]:
    return [np.array([name[part] for name in names], np.int64) for part in range(3)]


def test_an_empty_trace() -> None:
    asked = Question(rules=ALL_RULES)
    report = same_verdict([], asked, judge_run(TableSource(table([])), asked))
    assert report is not None
    assert isinstance(table([]), pa.Table)
