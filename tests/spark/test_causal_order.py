"""The re-order operator in Spark: order, copies, restarts, metrics, and mistakes told before anything runs."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from antecede.core import UsageError
from antecede.spark import causal_order
from tests.spark.feeding import Feed
from tests.spark.logs import Said, conversation, table, travelled

SCHEMA = "room string, author string, n bigint, after array<struct<author: string, n: bigint>>, text binary, rating int"


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path, SCHEMA, table)


def ordered(stream: DataFrame, **options: Any) -> DataFrame:
    return causal_order(stream, key="room", source="author", seq="n", deps="after", **options)


def test_rooms_in_order_each_row_once_also_across_restarts(feed: Feed) -> None:
    rng = random.Random(1)
    said = [one for room in ("x", "y", "z") for one in conversation(rng, 5, 400, room=room)]
    rng.shuffle(said)
    arrived = [*said, *rng.sample(said, 200)]
    rng.shuffle(arrived)
    feed.put(arrived[:500])
    feed.run(ordered)
    feed.put(arrived[500:1000])
    feed.put(arrived[1000:])
    feed.run(ordered)  # again, from its checkpoint
    seen: dict[str, set[tuple[str, int]]] = {"x": set(), "y": set(), "z": set()}
    for row in feed.shown():
        needs = {(dep.author, dep.n) for dep in row.after or ()} | ({(row.author, row.n - 1)} if row.n > 1 else set())
        assert needs <= seen[row.room]
        assert (row.author, row.n) not in seen[row.room]
        assert row.order == "causal"
        seen[row.room].add((row.author, row.n))
    assert sum(map(len, seen.values())) == len(said)
    whole = sorted((*row[:6],) for row in feed.shown())  # every column as it went in
    wanted = sorted((one["room"], one["author"], one["n"]) for one in table(said).to_pylist())
    assert [row[:3] for row in whole] == wanted
    assert {(row.n % 5 if row.n % 3 else None) == row.rating for row in feed.shown()} == {True}
    totals = {name: sum(p[name] for p in feed.progress) for name in ("released", "duplicates", "held_change")}
    assert totals == {"released": len(said), "duplicates": 200, "held_change": 0}
    assert feed.progress[0]["held_by_key_max"] > 0
    for room in "xyz":  # a position for each row, over restarts too
        assert [row.order_position for row in feed.shown() if row.room == room] == list(range(1, 401))


def test_what_never_comes_is_given_up_without_new_rows(feed: Feed) -> None:
    feed.put([Said("bob", 1, (("ann", 1),)), Said("cat", 1)])
    query = feed.start(lambda stream: ordered(stream, late="tag", patience_s=0.5), processingTime="100 milliseconds")
    try:
        _until(query, lambda: len(feed.shown()) == 2)
        feed.put([Said("ann", 1)])
        _until(query, lambda: len(feed.shown()) == 3)
    finally:
        query.stop()
    assert [(row.author, row.order) for row in feed.shown()] == [
        ("cat", "causal"),
        ("bob", "incomplete"),
        ("ann", "late"),
    ]
    assert feed.shown()[1].held_ms >= 500


def test_event_time_gives_up_what_is_older_than_the_watermark(feed: Feed) -> None:
    """A row's number is its time, in minutes: bob waits for ann until a row of another room is newer by 5 minutes."""

    def operator(stream: DataFrame) -> DataFrame:
        at = F.timestamp_seconds(F.col("n") * 60)
        return ordered(stream.withColumn("at", at), late="tag", patience_s=300, time="at")

    feed.put([Said("bob", 1, (("ann", 1),)), *[Said("cat", n, room="x") for n in range(1, 6)]])
    feed.run(operator)
    assert {row.author for row in feed.shown()} == {"cat"}
    feed.put([Said("cat", 6, room="x")])
    feed.run(operator)
    feed.put([Said("ann", 1)])
    feed.run(operator)
    assert [(row.author, row.order) for row in feed.shown() if row.room == "r"] == [
        ("bob", "incomplete"),
        ("ann", "late"),
    ]


@pytest.mark.slow
def test_the_time_a_query_is_stopped_is_no_waiting(feed: Feed) -> None:
    def operator(stream: DataFrame) -> DataFrame:
        return ordered(stream, late="drop", patience_s=60)

    feed.put([Said("bob", 1, (("ann", 1),))])
    feed.run(operator)
    time.sleep(61)
    feed.put([Said("cat", 1)])
    feed.put([Said("ann", 1)])
    feed.run(operator)
    assert [(row.author, row.order) for row in feed.shown()] == [
        ("cat", "causal"),
        ("ann", "causal"),
        ("bob", "causal"),
    ]


def _until(query: StreamingQuery, done: Callable[[], bool]) -> None:
    for _ in range(1200):
        if done():
            return
        query.awaitTermination(0.1)
    raise AssertionError(f"not within 120 s: {query.lastProgress}")


def test_all_in_one_order_and_numbers_from_zero(feed: Feed) -> None:
    """Two columns tell sources apart, and entries name both; nothing is grouped by."""

    def operator(stream: DataFrame) -> DataFrame:
        deps = F.expr(
            "transform(after, d -> struct(split(d.author, '@')[1] as room, d.author as author, d.n - 1 as n))"
        )
        zero = stream.withColumn("n", F.col("n") - 1).withColumn("after", deps)
        return causal_order(zero, key=[], source=["room", "author"], seq="n", deps="after", first=0)

    feed.put([Said("b@y", 1, (("a@x", 1),), room="y"), Said("a@x", 2, room="x")])
    feed.put([Said("a@x", 1, room="x")])
    feed.run(operator)
    assert [(row.author, row.n) for row in feed.shown()] in (
        [("a@x", 0), ("b@y", 0), ("a@x", 1)],
        [("a@x", 0), ("a@x", 1), ("b@y", 0)],
    )


def test_at_the_bound_the_query_fails_and_goes_on_with_a_higher_one(feed: Feed) -> None:
    feed.put([Said("ann", n) for n in range(2, 6)])
    with pytest.raises(StreamingQueryException, match="rows of one key that wait is 4, the limit is 3"):
        feed.run(lambda stream: ordered(stream, max_held=3))
    feed.put([Said("ann", 1)])
    feed.run(lambda stream: ordered(stream, max_held=4))
    assert [row.n for row in feed.shown()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"key": "place"}, "key 'place': there is no such column; there are room, author, n, after, text, rating"),
        ({"key": 7}, "key 7: is not the name of a column"),
        ({"source": []}, "source []: names no column"),
        ({"source": "after", "deps": None}, "source 'after': is of type array"),
        ({"seq": "author"}, "columns 'author': is named twice"),
        ({"seq": "text"}, "seq 'text': is of type binary; name an integer column"),
        ({"deps": "text"}, "deps 'text': is binary; it must be array<struct<author: string, n: bigint>>"),
        ({"source": "room", "key": []}, "deps 'after': its entries have no field 'room'"),
        ({"late": "never"}, "late 'never': is not a policy; choose one of wait, tag, drop"),
        ({"late": "tag"}, "patience_s None: late='tag' has to know how long to wait"),
        ({"patience_s": 3}, "patience_s 3: does not go with late='wait'"),
        ({"max_held": 0}, "max_held 0"),
        ({"time": "n"}, "time 'n': does not go with late='wait'"),
        ({"late": "tag", "patience_s": 1, "time": "when"}, "time 'when': there is no such column"),
        ({"late": "tag", "patience_s": 1, "time": "n"}, "time 'n': is of type bigint; name a timestamp column"),
        ({"first": "1"}, "first '1': is not a whole number"),
        ({"order_column": "Text"}, "order_column 'Text': is a column already"),
    ],
)
def test_mistakes_are_told_before_anything_runs(feed: Feed, options: dict[str, Any], said: str) -> None:
    asked = {"key": "room", "source": "author", "seq": "n", "deps": "after"} | options
    with pytest.raises(UsageError) as error:
        causal_order(feed.stream(), **asked)
    assert said in str(error.value)


def test_what_is_no_stream_and_no_table_is_refused(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="is not a DataFrame; give a stream or a table"):
        causal_order([1, 2], key="id")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="does not go with log; use causal_sort"):
        causal_order(spark.range(3), log="id")


def test_dependencies_of_another_type_are_told(feed: Feed) -> None:
    wrong = feed.stream().withColumn("after", F.expr("transform(after, d -> struct(1 as author, d.n as n))"))
    with pytest.raises(UsageError, match="its field 'author' is int, the column 'author' string"):
        ordered(wrong)


def test_a_network_that_loses_and_repeats(feed: Feed) -> None:
    """What is shown as causal is; the rest says so; nothing that came is shown twice or forgotten."""
    rng = random.Random(7)
    said = conversation(rng, 6, 600)
    arrived = travelled(rng, said, loss=0.02, twice=0.05, spread=80)
    for begin in range(0, len(arrived), 250):
        feed.put(arrived[begin : begin + 250])
    feed.run(lambda stream: ordered(stream, late="drop", patience_s=3600, max_held=40))
    seen: set[tuple[str, int]] = set()
    needs = {one.id: set(one.needs()) for one in said}
    for row in feed.shown():
        name = (row.author, row.n)
        assert name not in seen
        assert (row.order == "incomplete") == (not needs[name] <= seen)
        seen.add(name)
    assert all(p["held_by_key_max"] <= 40 for p in feed.progress)
    totals = {name: sum(p[name] for p in feed.progress) for name in feed.progress[0]}
    assert totals["released"] == len(seen)
    assert totals["released"] + totals["dropped"] + totals["held_change"] == len(arrived)
    assert totals["incomplete"] > 0
