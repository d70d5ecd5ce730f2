"""Topics as streams: from a checkpoint on, in batches of a bounded size, every position once."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from antecede.core import UsageError
from antecede.journal import JournalFile
from antecede.spark.topics.columns import SCHEMA
from antecede.spark.topics.options import source_options
from antecede.spark.topics.stream import TopicStream

from .journals import write_journal


class Copy:
    """A query that copies positions from a journal into a table, as far as there are any, whenever it is run."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.journal = directory / "n0"
        self.target = directory / "table"
        self.checkpoint = directory / "checkpoint"

    def run(self, **options: object) -> StreamingQuery:
        reader = self.spark.readStream.format("antecede")
        for name, value in ({"journal": self.journal, "topics": "#", "since": "earliest"} | options).items():
            reader = reader.option(name, str(value))
        query = (
            reader.load()
            .select("position", "topic")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start(str(self.target))
        )
        query.awaitTermination()
        return query

    def positions(self) -> list[int]:
        return sorted(row.position for row in self.spark.read.parquet(str(self.target)).collect())


@pytest.fixture
def copy(session: SparkSession, tmp_path: Path) -> Copy:
    return Copy(session, tmp_path)


def batches(query: StreamingQuery) -> list[int]:
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def test_a_restart_goes_on_and_reads_an_unfinished_batch_again(copy: Copy) -> None:
    write_journal(copy.journal, 30)
    assert batches(copy.run(maxRowsPerBatch=20)) == [20, 10]
    # What a driver that was killed leaves behind: the last batch is in the log of offsets, and nowhere else.
    for log in (copy.checkpoint / "commits", copy.target / "_spark_metadata"):
        for name in ("1", ".1.crc"):
            (log / name).unlink(missing_ok=True)
    write_journal(copy.journal, 7, retain=5000)
    assert batches(copy.run()) == [10, 7]
    assert copy.positions() == list(range(1, 38))


# -- without Spark: what it asks and is answered ----------------------------------------------------------------------


def stream(journal: Path, **options: object) -> TopicStream:
    found = {"journal": journal, "topics": "#", "since": "earliest"} | options
    return TopicStream(source_options({name: str(value) for name, value in found.items()}), SCHEMA)


def test_a_batch_waits_for_enough_rows_or_for_long_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("antecede.spark.topics.stream.monotonic", lambda: now)
    write_journal(tmp_path / "n0", 30)
    source = stream(tmp_path / "n0", minRowsPerBatch=40, maxTriggerDelay=60)
    start = source.initialOffset()
    now += 59
    assert source.latestOffset(start, ReadAllAvailable()) == start
    said = {"description": f"antecede # of {tmp_path / 'n0'}", "node": 0}
    assert source.reportLatestOffset() == {**said, "position": 30}
    now += 1
    end = source.latestOffset(start, ReadAllAvailable())
    assert (start["position"], end["position"]) == (0, 30)
    write_journal(tmp_path / "n0", 20)
    assert source.latestOffset(end, ReadAllAvailable()) == end
    size = sum(len(stored.block) for stored in JournalFile(tmp_path / "n0").sealed(0, 50)[0]) // 50
    behind = {"rowsBehind": 20, "bytesBehind": 20 * size}
    assert source.reportLatestOffset() == {**said, "position": 50, **behind}
    enough = stream(tmp_path / "n0", minRowsPerBatch=20)
    assert enough.latestOffset(end, ReadAllAvailable())["position"] == 50
    source.prepareForTriggerAvailableNow()
    assert source.latestOffset(end, ReadAllAvailable())["position"] == 50  # what is available is read now


def read(source: TopicStream, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """Task after task."""
    return [
        position
        for partition in source.partitions(start, end)
        for batch in source.read(partition)
        for position in batch.column("position").to_pylist()
    ]


def test_bounds_by_rows_and_by_bytes(tmp_path: Path) -> None:
    write_journal(tmp_path, 50)
    source = stream(tmp_path, maxRowsPerBatch=20, rowsPerPartition=6)
    assert source.getDefaultReadLimit() == ReadMaxRows(20)
    start = source.initialOffset()
    end = source.latestOffset(start, ReadMaxRows(20))
    assert len(source.partitions(start, end)) == 4
    assert read(source, start, end) == list(range(1, 21))
    assert source.latestOffset(end, ReadAllAvailable())["position"] == 50
    report = source.reportLatestOffset()
    assert report is not None
    assert (report["position"], report["rowsBehind"], report["bytesBehind"]) == (50, 0, 0)

    source = stream(tmp_path, maxBytesPerBatch=1)
    end = source.latestOffset(start, source.getDefaultReadLimit())
    assert end["position"] == 10  # a stored batch at least
    source = stream(tmp_path, maxBytesPerBatch=1_000_000)
    last = source.latestOffset(end, source.getDefaultReadLimit())
    assert last["position"] == 50
    assert source.latestOffset(last, source.getDefaultReadLimit()) == last
    assert source.partitions(last, last) == []


def test_available_now_stops_where_the_journal_ended(tmp_path: Path) -> None:
    write_journal(tmp_path, 30)
    source = stream(tmp_path)
    source.prepareForTriggerAvailableNow()
    write_journal(tmp_path, 30)
    end = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    assert end["position"] == 30
    assert source.latestOffset(end, ReadAllAvailable()) == end


def test_a_stream_begins_with_what_comes_unless_told(tmp_path: Path) -> None:
    write_journal(tmp_path, 30)
    assert stream(tmp_path, since="").initialOffset() == {"node": 0, "position": 30}
    assert stream(tmp_path, since="12").initialOffset()["position"] == 12


def test_what_retention_removed_may_be_left_out(tmp_path: Path) -> None:
    write_journal(tmp_path, 50)
    strict, lenient = stream(tmp_path), stream(tmp_path, failOnDataLoss="false")
    start = {"node": 0, "position": 5}
    write_journal(tmp_path, 100, retain=2000)
    end = lenient.latestOffset(start, ReadMaxRows(10))
    found = read(lenient, start, end)
    assert len(found) == 10
    assert found[0] > 51
    with pytest.raises(UsageError, match=f"positions 6 to {found[0] - 1} of .* were removed"):
        strict.partitions(start, end)
    assert read(lenient, start, {**start, "position": 40}) == []


@pytest.mark.parametrize(
    ("offset", "said"),
    [
        ({"node": 0, "position": 21}, "ends at position 20, the query's checkpoint is at 21"),
        ({"node": 3, "position": 2}, "is node 0, the query's checkpoint counts positions of node 3"),
    ],
)
def test_a_checkpoint_of_something_else(tmp_path: Path, offset: dict[str, Any], said: str) -> None:
    write_journal(tmp_path, 20)
    with pytest.raises(UsageError, match=said):
        stream(tmp_path).latestOffset(offset, ReadAllAvailable())
