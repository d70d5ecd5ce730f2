"""Rows with ids through the operator in Spark: held to `causal_sort` over random batches and restarts."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from antecede.core import UsageError
from antecede.spark import causal_order, causal_sort, dead_letters, waiting_rows
from tests.spark.feeding import Feed
from tests.spark.histories import Commit, Shown, check_against_sorted, history, table

SCHEMA = "repo string, sha string, parents array<string>, text binary"


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Iterator[Feed]:
    yield Feed(spark, tmp_path, SCHEMA, table)
    spark.conf.unset("spark.sql.streaming.stateStore.providerClass")  # the operator chooses RocksDB for the session


def ordered(stream: DataFrame, **options: Any) -> DataFrame:
    return causal_order(stream, id="sha", parents="parents", key="repo", **options)


def compare(feed: Feed, seed: int, repos: int, commits: int, batches: int, runs: int) -> None:
    """Put random histories in random batches, with restarts between, and hold what is shown to the sorted table."""
    rng = random.Random(seed)
    rows = [one for n in range(repos) for one in history(rng, commits, circles=rng.choice((0, 3)), repo=f"r{n}")]
    rows = [one for one in rows if rng.random() >= 0.02]
    arrived = rows + rng.choices(rows, k=len(rows) // 20)
    rng.shuffle(arrived)
    cuts = sorted(rng.sample(range(len(arrived)), batches - 1))
    parts = [arrived[a:b] for a, b in zip([0, *cuts], [*cuts, len(arrived)], strict=True)]
    for begin in range(0, len(parts), -(-batches // runs)):
        for part in parts[begin : begin + -(-batches // runs)]:
            feed.put(part)
        feed.run(ordered)
    whole = feed.spark.read.schema(SCHEMA).parquet(str(feed.directory / "in"))
    positioned = [row.asDict() for row in causal_sort(whole, key="repo", id="sha", parents="parents").collect()]
    for repo in {one.repo for one in rows}:
        shown = [row for row in feed.shown() if row.repo == repo]
        assert [row.order_position for row in shown] == list(range(1, len(shown) + 1))
        assert all(row.text == row.sha.encode() for row in shown)
        mine = [one for one in rows if one.repo == repo]
        theirs = [row for row in positioned if row["repo"] == repo]
        check_against_sorted(mine, [Shown(row.sha, row.order) for row in shown], theirs)
    released = sum(progress["released"] for progress in feed.progress)
    held = sum(progress["held_change"] for progress in feed.progress)
    assert (released, held) == (len(feed.shown()), len(rows) - len(feed.shown()))


def test_a_stream_shows_what_the_sorted_table_shows(feed: Feed) -> None:
    compare(feed, seed=5, repos=3, commits=150, batches=4, runs=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_larger_streams_too(feed: Feed, seed: int) -> None:
    compare(feed, seed=seed, repos=6, commits=3000, batches=16, runs=4)


def test_what_never_comes_is_given_up_and_old_ids_are_forgotten(feed: Feed) -> None:
    def operator(stream: DataFrame) -> DataFrame:
        at = stream.withColumn("at", stream.sha.cast("long").cast("timestamp"))
        return ordered(at, late="tag", patience_s=100, time="at", horizon=200)

    for begin in range(1000, 2000, 100):
        feed.put([Commit(f"{n}", (f"{n - 1}",)) for n in range(begin, begin + 100)])
    feed.run(operator)
    assert [row.sha for row in feed.shown()] == [f"{n}" for n in range(1000, 2000)]
    assert [row.sha for row in feed.shown() if row.order == "incomplete"] == ["1000"]
    assert max(progress["remembered"] for progress in feed.progress) <= 300


def test_rows_that_wait_and_rows_without_a_name_are_told(feed: Feed) -> None:
    good = [Commit("b", ("a",)), Commit("c", ("b", "x")), Commit("d"), Commit("e", ("f",)), Commit("f", ("e",))]
    nameless = Commit(None), Commit("g", (None,))  # type: ignore[arg-type]
    feed.put([*good, *nameless, Commit("d")])
    feed.run(lambda stream: ordered(stream, required="text"))
    assert {(row.sha, row.order) for row in feed.shown()} == {("d", "causal"), ("e", "circle"), ("f", "circle")}
    waiting = waiting_rows(feed.spark, str(feed.directory / "checkpoint")).orderBy("name").collect()
    assert [(row.repo, row.name, row.waits_for, row.missing) for row in waiting] == [
        ("r", "b", ["a"], ["a"]),
        ("r", "c", ["b", "x"], ["x"]),
    ]
    assert all(row.since.year > 2020 and row.order_position_next == 4 for row in waiting)
    assert feed.dead == 2
    whole = feed.spark.read.schema(SCHEMA).parquet(str(feed.directory / "in"))
    dead = dead_letters(whole, id="sha", parents="parents", key="repo", required="text").collect()
    assert sorted((str(row.sha), row.reason) for row in dead) == [
        ("None", "sha is null"),
        ("g", "parents has an entry that is null"),
    ]
    # The same of a table: rows that lack a parent come too, and say so.
    rows = ordered(whole, required="text").collect()
    assert [row.order_position for row in rows] == [1, 2, 3, 4, 5]
    assert {row.sha: row.order for row in rows} == {
        "b": "incomplete",
        "c": "incomplete",
        "d": "causal",
        "e": "circle",
        "f": "circle",
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"id": "commit"}, "id 'commit': there is no such column"),
        ({"parents": None}, "parents None: is not given"),
        ({"parents": "text"}, "parents 'text': is binary; it must be array<string>, as the column 'sha'"),
        ({"id": "text"}, "parents 'parents': is array<string>; it must be array<binary>"),
        ({"horizon": 0}, "horizon 0: is not a number of ids"),
        ({"horizon_s": 5}, "horizon_s 5: has no clock with late='wait'"),
        ({"id": None}, "parents 'parents': is given without id"),
    ],
)
def test_mistakes_are_told_before_anything_runs(feed: Feed, options: dict[str, Any], said: str) -> None:
    asked: dict[str, Any] = {"id": "sha", "parents": "parents", "key": "repo"} | options
    with pytest.raises(UsageError) as error:
        causal_order(feed.stream(), **asked)
    assert said in str(error.value)
