"""A stream of files through the re-order operator."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

#: The time of the first file, by the wall clock.
_FIRST_S: Final = 1_700_000_000


class Feed:
    """A stream of files, a batch each, through the operator; what it gave, batch by batch and in order."""

    def __init__(
        self, spark: SparkSession, directory: Path, schema: str, table: Callable[[list[Any]], pa.Table]
    ) -> None:
        """`schema`, `table`: of the rows that are put."""
        self.spark, self.directory, self.schema, self.table = spark, directory, schema, table
        (directory / "in").mkdir()
        self.files = 0
        self.batches: list[list[Row]] = []
        self.progress: list[dict[str, Any]] = []
        self.dead = 0

    def put(self, rows: list[Any]) -> None:
        self.files += 1
        file = self.directory / f"in.{self.files}"
        pq.write_table(self.table(rows), file)
        # Spark takes files by their times, and those that are written within some milliseconds have the same.
        os.utime(file, (_FIRST_S + self.files, _FIRST_S + self.files))
        file.rename(self.directory / "in" / f"{self.files:04}.parquet")

    def stream(self) -> DataFrame:
        return (
            self.spark.readStream.schema(self.schema)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self.directory / "in"))
        )

    def run(self, operator: Callable[[DataFrame], DataFrame]) -> None:
        """Until everything put so far is through."""
        query = self.start(operator, availableNow=True)
        if not query.awaitTermination(300):
            query.stop()
            raise AssertionError(f"did not end: {query.lastProgress}")
        observed = [progress["observedMetrics"] for progress in query.recentProgress]
        self.progress += [one["causal_order"].asDict() for one in observed if "causal_order" in one]
        self.dead += sum(one["causal_order_dead_letters"]["rows"] for one in observed if len(one) > 1)

    def start(self, operator: Callable[[DataFrame], DataFrame], **trigger: Any) -> StreamingQuery:
        return (
            operator(self.stream())
            .writeStream.foreachBatch(lambda batch, _: self.batches.append(batch.collect()))
            .option("checkpointLocation", str(self.directory / "checkpoint"))
            .trigger(**trigger)
            .start()
        )

    def shown(self) -> list[Row]:
        return [row for batch in self.batches for row in batch]
