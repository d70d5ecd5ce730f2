"""Topics as tables: batch queries over a journal."""

import pickle
import sqlite3
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from antecede.core import AntecedeError, UsageError
from antecede.core.errors import JournalError
from antecede.spark.topics.columns import SCHEMA
from antecede.spark.topics.options import sink_options, source_options
from antecede.spark.topics.source import TopicReader
from antecede.spark.topics.stores import call

from .journals import BEGIN_US, STEP_US, message, topic, write_journal


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("journal")
    write_journal(path, 100)
    return path


def table(spark: SparkSession, path: Path, /, **options: object) -> DataFrame:
    reader = spark.read.format("antecede")
    for name, value in ({"journal": path, "topics": "#"} | options).items():
        reader = reader.option(name, str(value))
    return reader.load()


def read(path: Path, /, **options: object) -> list[int]:
    """Positions as Spark would have them, without it: planned, then read task after task."""
    found = {"journal": path, "topics": "#"} | options
    reader = TopicReader(source_options({name: str(value) for name, value in found.items()}), SCHEMA)
    return [
        position
        for partition in pickle.loads(pickle.dumps(reader.partitions()))
        for batch in reader.read(partition)
        for position in batch.column("position").to_pylist()
    ]


def positions(frame: DataFrame) -> list[int]:
    """In the order in which they come."""
    return [row.position for row in frame.select("position").collect()]


def test_every_column(session: SparkSession, journal: Path) -> None:
    frame = table(session, journal, rowsPerPartition=30)
    more = ("unix_micros(published) AS sent_us", "unix_micros(delivered) AS came_us", "spark_partition_id() AS task")
    rows = frame.selectExpr("*", *more).collect()
    assert [row.task for row in rows] == sorted([0, 1, 2, 3] * 25)
    assert [row.position for row in rows] == list(range(1, 101))
    for row in rows:
        stored = message(row.position)
        last_of_batch = -(-row.position // 10) * 10
        assert row.topic == topic(row.position)
        assert (row.source, row.seq) == (stored.source, stored.seq)
        assert [tuple(one) for one in row.deps] == list(stored.deps)
        assert row.payload == f"body {row.position}".encode()
        assert row.headers == ({"kind": "seventh"} if row.position % 7 == 0 else {})
        assert row.sent_us == BEGIN_US + row.position * STEP_US
        assert row.came_us == BEGIN_US + last_of_batch * STEP_US + 500
        assert row.held_us == (5 if row.position == last_of_batch else 0)


def test_a_schema_of_ones_own_prunes_columns(session: SparkSession, journal: Path) -> None:
    reader = session.read.format("antecede").options(journal=str(journal), topics="#")
    frame = reader.schema("position LONG, payload BINARY").load()
    assert [tuple(row) for row in frame.take(2)] == [(1, b"body 1"), (2, b"body 2")]
    with pytest.raises(PySparkException, match="column 'colour': is not one of a topic"):
        reader.schema("position LONG, colour STRING").load().collect()
    assert [row.payload for row in reader.schema("payload STRING").load().take(1)] == ["body 1"]
    with pytest.raises(PySparkException, match="column 'payload': is binary, not int"):
        reader.schema("payload INT").load().collect()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"topics": "rooms/3/chat"}, [at for at in range(1, 101) if at % 5 == 3]),
        ({"topics": "rooms/3/+, rooms/1/#"}, [at for at in range(1, 101) if at % 5 in (1, 3)]),
        ({"topics": "lobby"}, []),
        ({"since": "97"}, [98, 99, 100]),
        ({"since": "0:99"}, [100]),
        ({"since": "latest"}, []),
        ({"until": "3"}, [1, 2, 3]),
        ({"since": "5", "until": "0:7", "topics": "rooms/1/#"}, [6]),
        ({"since": "2025-11-15T09:46:40.065Z", "until": "2025-11-15T09:46:40.075Z"}, list(range(61, 71))),
        ({"since": "2025-11-15T09:46:40.095Z"}, list(range(91, 101))),
    ],
    ids=str,
)
def test_topics_and_since(journal: Path, options: dict[str, str], expected: list[int]) -> None:
    assert read(journal, **options) == expected


def test_one_table_in_several_queries(session: SparkSession, journal: Path) -> None:
    """Spark's own push-down for Python sources fails this: what one query filters is missing from the next."""
    frame = table(session, journal, rowsPerPartition=30)
    few, last = frame.where("position <= 5 AND topic LIKE 'rooms/%'"), frame.where("position > 97")
    assert positions(few.union(last)) == [1, 2, 3, 4, 5, 98, 99, 100]
    assert positions(few) == [1, 2, 3, 4, 5]
    assert frame.count() == 100


def test_a_table_is_planned_when_it_is_first_used(session: SparkSession, tmp_path: Path) -> None:
    """Spark keeps the plan of a Python source with the DataFrame: what comes later is had by loading again."""
    write_journal(tmp_path, 10)
    frame = table(session, tmp_path)
    assert frame.count() == 10
    write_journal(tmp_path, 10)
    assert frame.count() == 10
    assert table(session, tmp_path).count() == 20


def test_what_retention_removed_is_an_error_that_names_it(session: SparkSession, tmp_path: Path) -> None:
    write_journal(tmp_path, 100, retain=2000)
    kept = read(tmp_path)
    assert 0 < len(kept) < 100
    assert kept == list(range(kept[0], 101))
    with pytest.raises(PySparkException, match=f"positions 6 to {kept[0] - 1} of .* were removed by retention"):
        table(session, tmp_path, since=5).collect()
    assert read(tmp_path, since=5, failOnDataLoss="false") == kept


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": "antecede://127.0.0.1:1"}, "stands beside journal"),
        ({"journal": ""}, "neither a node nor a journal is named"),
        ({"journal": "/nowhere"}, "journal /nowhere: there is no such file"),
        ({"topics": " , "}, "no topic is named"),
        ({"topics": "rooms/#/chat"}, "has # before its end"),
        ({"topic": "#"}, "option 'topic': is not one for reading topics"),
        ({"since": "yesterday"}, "is neither a position nor a time"),
        ({"token": "abc"}, "is for asking a node"),
        ({"maxRowsPerBatch": "0"}, "maxRowsPerBatch '0': is not a count"),
        ({"failOnDataLoss": "perhaps"}, "is neither true nor false"),
    ],
    ids=str,
)
def test_wrong_options(journal: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises(AntecedeError, match=said):
        read(journal, **options)


def test_a_token_leaves_the_machine_in_clear_only_when_told() -> None:
    options = {"url": "antecede://192.0.2.1:1", "topics": "#", "token": "secret"}
    with pytest.raises(UsageError, match="the token travel in clear"):
        call(source_options(options).where, patient=False).__enter__()
    assert source_options({**options, "clearToken": "true"}).where.clear_token
    assert sink_options({"url": "antecede://192.0.2.1:1", "clearToken": "true"}).where.clear_token


def test_what_is_wrong_is_said_at_analysis(session: SparkSession, journal: Path) -> None:
    with pytest.raises(AnalysisException, match="option 'topic': is not one for reading topics; use url, journal,"):
        table(session, journal, topic="#")
    with pytest.raises(AnalysisException, match="journal /nowhere: there is no such file"):
        table(session, Path("/nowhere"))


@pytest.mark.parametrize(
    ("since", "said"), [("101", "is ahead of the node, which is at 100"), ("3:7", "is a cursor of node 3")]
)
def test_a_beginning_that_is_not_there(journal: Path, since: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read(journal, since=since)


def test_a_journal_of_another_version(tmp_path: Path) -> None:
    write_journal(tmp_path, 1)
    with sqlite3.connect(tmp_path / "journal.db") as connection:
        connection.execute("PRAGMA user_version=99")
    with pytest.raises(JournalError, match="has schema version 99"):
        read(tmp_path)
