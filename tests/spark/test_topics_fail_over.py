"""A streaming query over a cluster of processes, of which the node that it reads from is killed for good."""

import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StreamingQuery

from antecede.core.partitions import split_stream

from .nodes import Cluster


class Copy:
    """A query with a checkpoint that copies all topics of a cluster, whenever it is run, as far as there are rows."""

    def __init__(self, spark: SparkSession, checkpoint: Path) -> None:
        self.spark = spark
        self.checkpoint = str(checkpoint)
        #: By number of the batch: its rows, in the order in which they came.
        self.batches: dict[int, list[Row]] = {}

    def start(self, url: str, rows: int, **trigger: Any) -> StreamingQuery:
        reader = self.spark.readStream.format("antecede").options(url=url, topics="#", since="earliest")
        frame = reader.option("maxRowsPerBatch", rows).option("rowsPerPartition", max(1, rows // 4)).load()
        return (
            frame.writeStream.foreachBatch(lambda batch, number: self.batches.update({number: batch.collect()}))
            .option("checkpointLocation", self.checkpoint)
            .trigger(**trigger)
            .start()
        )

    def run(self, url: str, rows: int, count: int) -> dict[str, Any]:
        """Read what there is, again until `count` rows came. Returns what the last progress says of the source.

        A node has acknowledged its messages before another has them, and a batch ends before those that one node has.
        """
        deadline = time.monotonic() + 60
        while True:
            query = self.start(url, rows, availableNow=True)
            query.awaitTermination()
            if len(self.rows()) >= count or time.monotonic() >= deadline:
                found: dict[str, Any] = json.loads(query.lastProgress.json)["sources"][0]
                return found

    def rows(self) -> list[Row]:
        return [row for _, batch in sorted(self.batches.items()) for row in batch]

    def check(self, count: int) -> None:
        """Every message once; each behind those of its stream, and those of its partition that it names."""
        rows = self.rows()
        assert sorted(int(row.payload) for row in rows) == list(range(count))
        had: dict[int, int] = defaultdict(int)
        for row in rows:
            assert row.seq == had[row.source] + 1
            partition = split_stream(row.source)[0]
            assert all(had[dep.source] >= dep.seq for dep in row.deps if split_stream(dep.source)[0] == partition)
            had[row.source] = row.seq


def publish(cluster: Cluster, node: int, first: int, count: int) -> None:
    numbers = range(first, first + count)
    cluster.publish([(f"rooms/{number % 10}/chat", b"%d" % number) for number in numbers], node)


@pytest.mark.parametrize("partitions", [pytest.param(1, marks=pytest.mark.slow), 8])
def test_a_checkpoint_goes_on_at_another_node_when_its_own_is_killed(
    session: SparkSession, tmp_path: Path, partitions: int
) -> None:
    settings = {"partitions": partitions, "replicas": 2} if partitions > 1 else {}
    with Cluster(tmp_path / "cluster", nodes=3, **settings) as cluster:
        copy = Copy(session, tmp_path / "checkpoint")
        for node in range(3):
            publish(cluster, node, node * 40, 40)
        copy.run(cluster.url(0), 100, 120)
        copy.check(120)
        cluster.run(cluster.inner.kill(0))
        publish(cluster, 1, 120, 20)
        publish(cluster, 2, 140, 20)
        url = f"{cluster.url(0)},{cluster.url(2).removeprefix('antecede://')}"
        progress = copy.run(url, 100, 160)
        copy.check(160)
        latest = progress["latestOffset"]
        assert latest["description"] == f"antecede # of {url}"
        assert (latest["rowsBehind"], latest["bytesBehind"]) == (0, 0)
        assert all(f"p{partition}" in progress["endOffset"] for partition in range(partitions))


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 8])
def test_a_running_query_misses_nothing_while_its_nodes_are_killed_by_turns(
    session: SparkSession, tmp_path: Path, partitions: int
) -> None:
    settings = {"partitions": partitions, "replicas": 2} if partitions > 1 else {}
    with Cluster(tmp_path / "cluster", nodes=3, **settings) as cluster:
        copy = Copy(session, tmp_path / "checkpoint")
        url = "antecede://" + ",".join(cluster.url(node).removeprefix("antecede://") for node in range(3))
        query = copy.start(url, 40, processingTime="0 seconds")
        count = 0
        for turn in range(7):
            victim = turn % 3
            cluster.run(cluster.inner.kill(victim))
            for node in {0, 1, 2} - {victim}:
                publish(cluster, node, count, 50)
                count += 50
            if turn < 6:  # the last one is gone for good
                cluster.run(cluster.inner.start(victim))
        deadline = time.monotonic() + 200
        while len(copy.rows()) < count and query.exception() is None and time.monotonic() < deadline:
            time.sleep(0.5)
        query.stop()
        assert query.exception() is None
        copy.check(count)
