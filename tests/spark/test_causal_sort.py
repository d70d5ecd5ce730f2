"""Tables in causal order: every dependency first, the same for the same table, what is wrong with it told."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from antecede.core import UsageError
from antecede.spark import causal_sort
from antecede.spark.causal import sorting
from antecede.spark.causal.naming import Naming
from tests.spark.logs import Id, Said, conversation, ids, large, table

NAMING = Naming(key=("room",), source=("author",), seq="n", deps="after", first=1)


def placed(rows: list[Said]) -> dict[Id, tuple[int, Any, Any]]:
    """Without Spark: what one task does with one key."""
    columns = table(rows)
    by = columns.append_column("antecede_by", columns.column("rating"))
    out = sorting._positioned(by, NAMING, ["room", "author", "n"], holes=False)
    rest = zip(*(out.column(name).to_pylist() for name in ("position", "missing", "circle")), strict=True)
    return dict(zip(ids(out), rest, strict=True))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 32))
def test_every_dependency_first_and_the_same_whatever_the_order_of_arrival(seed: int) -> None:
    rng = random.Random(seed)
    said = conversation(rng, rng.randint(1, 5), rng.randint(1, 80))
    lost = {one.id for one in said if rng.random() < 0.05}
    log = [one for one in said if one.id not in lost]
    if not log:
        return
    log += rng.choices(log, k=rng.randint(0, 5))
    first = placed(rng.sample(log, len(log)))
    assert first == placed(rng.sample(log, len(log)))
    assert sorted(position for position, _, _ in first.values()) == list(range(1, len(first) + 1))
    for one in log:
        position, missing, circle = first[one.id]
        assert circle is None
        assert all(first[need][0] < position for need in one.needs() if need in first)
        absent = {need for need in one.needs() if need not in first}
        assert {(entry["author"], entry["n"]) for entry in missing or ()} == absent


NAMES: st.SearchStrategy[list[tuple[int, int]]] = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 12) | st.just(10**9)), max_size=30
)


@settings(max_examples=100, deadline=None)
@given(NAMES.filter(bool), NAMES)
def test_names_are_found_in_a_table_as_by_search(there: list[tuple[int, int]], asked: list[tuple[int, int]]) -> None:
    there = list(dict.fromkeys(there))
    source, number = np.array(there, np.int64).T
    found = sorting._Index(source, number).find(*np.array(asked, np.int64).reshape(-1, 2).T)
    assert found.tolist() == [there.index(name) if name in there else -1 for name in asked]


def test_what_depends_on_itself_or_on_what_is_not_there() -> None:
    rows = [
        Said("ann", 1, (("bob", 1),)),
        Said("bob", 1, (("ann", 1),)),
        Said("cat", 1, (("bob", 1), ("nobody", 3))),
        Said("dan", 7),
    ]
    found = placed(rows)
    assert {name: circle for name, (_, _, circle) in found.items() if circle} == {("ann", 1): 1, ("bob", 1): 1}
    assert found["cat", 1][0] > found["bob", 1][0]
    assert found["cat", 1][1] == [{"author": "nobody", "n": 3}]
    assert found["dan", 7][1] == [{"author": "dan", "n": 6}]


def frame(spark: SparkSession, rows: list[Said], directory: Path, files: int) -> DataFrame:
    directory.mkdir()
    for index in range(files):
        pq.write_table(table(rows[index::files]), directory / f"{index}.parquet")
    return spark.read.parquet(str(directory))


def sort(log: DataFrame, **options: Any) -> list[Row]:
    return causal_sort(log, key="room", source="author", seq="n", deps="after", **options).collect()


def test_a_table_in_any_pieces_gives_one_order(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(3)
    said = [one for room in ("x", "y") for one in conversation(rng, 5, 500, room=room)]
    one = sort(frame(spark, rng.sample(said, len(said)), tmp_path / "a", 1), by="text")
    other = sort(frame(spark, rng.sample(said, len(said)), tmp_path / "b", 5), by="text")
    assert one == other  # all columns, in one order
    assert [row.room for row in one] == ["x"] * 500 + ["y"] * 500
    seen: set[tuple[str, str, int]] = set()
    for row in one:
        assert all((row.room, dep.author, dep.n) in seen for dep in row.after or ())
        assert row.n == 1 or (row.room, row.author, row.n - 1) in seen
        seen.add((row.room, row.author, row.n))
    assert [row.position for row in one] == [*range(1, 501), *range(1, 501)]


def test_copies_stand_together_and_a_key_is_not_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    log = frame(spark, [Said("ann", 2), Said("ann", 1), Said("ann", 2)], tmp_path / "a", 2)
    rows = causal_sort(log, source="author", seq="n", deps=None).collect()
    assert [(row.n, row.position) for row in rows] == [(1, 1), (2, 2), (2, 2)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"by": "when"}, "by 'when': there is no such column"),
        ({"seq": "text"}, "seq 'text': is of type binary"),
        ({"deps": "rating"}, "deps 'rating': is int"),
    ],
)
def test_mistakes_are_told_before_anything_runs(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    log = frame(spark, [Said("ann", 1)], tmp_path / "a", 1)
    with pytest.raises(UsageError) as error:
        causal_sort(log, **({"key": "room", "source": "author", "seq": "n", "deps": "after"} | options))
    assert said in str(error.value)
    with pytest.raises(UsageError, match="is the name of a column to be added"):
        sort(log.withColumn("position", F.lit(1)))
    with pytest.raises(UsageError, match="use causal_order for streams"):
        sort(spark.readStream.format("rate").load())


@pytest.mark.slow
def test_a_million_messages_in_random_order(spark: SparkSession, tmp_path: Path) -> None:
    said = large(1_000_000)
    rng = np.random.default_rng(2)
    found = []
    for name, files in (("a", 3), ("b", 7)):
        (tmp_path / name).mkdir()
        arrived = said.take(pa.array(rng.permutation(said.num_rows)))
        for index in range(files):
            step = -(-said.num_rows // files)
            pq.write_table(arrived.slice(index * step, step), tmp_path / name / f"{index}.parquet")
        ordered = causal_sort(spark.read.parquet(str(tmp_path / name)), source="author", seq="n", deps="after")
        found.append(ordered.select("author", "n", "position", "missing", "circle").toPandas())
    first, second = found
    assert first.equals(second)
    assert (first["position"] == np.arange(1, 1_000_001)).all()
    assert first["missing"].isna().all()
    assert first["circle"].isna().all()
    # Every dependency first: by arrays, there are four million.
    names = first["author"].to_numpy() * 10**7 + first["n"].to_numpy()
    by_name = np.argsort(names)

    def place(author: pa.Array, n: pa.Array) -> "np.ndarray[Any, np.dtype[np.int64]]":
        wanted = author.to_numpy() * 10**7 + n.to_numpy()
        return by_name[np.searchsorted(names[by_name], wanted)]

    author, n, after = (said.column(name).combine_chunks() for name in ("author", "n", "after"))
    here = place(author, n)
    entries = after.flatten()
    assert (place(entries.field("author"), entries.field("n")) < np.repeat(here, np.diff(after.offsets))).all()
    assert first.groupby("author")["n"].is_monotonic_increasing.all()
