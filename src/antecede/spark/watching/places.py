"""The nodes and journals to watch, as one stream; starting and stopping.

Everything that can be wrong with a place is found out before the query starts, where it can be said in a line.
"""

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from antecede.core import AntecedeError, UsageError
from antecede.spark.topics.format import register
from antecede.spark.topics.options import source_options
from antecede.spark.topics.stores import open_store
from antecede.spark.watching.job import COLUMNS, live_audit
from antecede.spark.watching.view import View

Place = dict[str, str]


def name_places(places: Sequence[Place]) -> dict[str, Place]:
    """By name of the node ("node 3"), the options with which it is read. Asks every place who it is."""
    if not places:
        raise UsageError("--url", "", "nothing is named to watch", "name nodes with --url, or journals with --journal")
    named: dict[str, Place] = {}
    for place in places:
        options = source_options(place)
        with open_store(options.where, options.topics, patient=False) as store:
            store.check()
            name = f"node {store.node}"
        if name in named:
            problem = f"is {name}, like {named[name].get('url') or named[name].get('journal')}"
            raise UsageError("place", str(options.where), problem, "name every node once")
        named[name] = place
    return named


class Watch:
    """A running watch. `tell` gets each batch's rows and what is to be told of them, on a thread of Spark's."""

    def __init__(
        self,
        spark: SparkSession,
        places: dict[str, Place],
        *,
        patience_s: float = 10.0,
        interval_s: float = 1.0,
        once: bool = False,
        checkpoint: Path | None = None,
        tell: Callable[[list[dict[str, Any]], list[dict[str, Any]]], None],
    ) -> None:
        register(spark)
        self.view = View(places, patience_s=patience_s)
        self._tell = tell
        self._own = None if checkpoint else tempfile.mkdtemp(prefix="antecede-watch-")
        try:
            whole = all("#" in source_options(place).topics for place in places.values())
            judged = live_audit(_streams(spark, places), whole=whole)
            writer = judged.writeStream.foreachBatch(self._batch)
            writer = writer.option("checkpointLocation", str(checkpoint or self._own))
            if once:
                writer = writer.trigger(availableNow=True)
            else:
                writer = writer.trigger(processingTime=f"{interval_s} seconds")
            with _partitions(spark, len(places)):
                self._query = writer.start()
        except BaseException:
            self._forget()
            raise

    def ended(self) -> bool:
        """Has it ended by itself? Raises what ended it."""
        if self._query.isActive:
            return False
        error = self._query.exception()
        if error is not None:
            raise AntecedeError(f"the watch ended: {_cause(error)}")
        return True

    def look(self) -> list[dict[str, Any]]:
        """What is to be told although nothing came."""
        return self.view.look(time.monotonic())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(PySparkException):  # it may have ended
            self._query.stop()
        self._forget()

    def _forget(self) -> None:
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)

    def _batch(self, frame: DataFrame, number: int) -> None:
        rows = [row.asDict() for row in frame.collect()]
        self._tell(rows, self.view.take(rows, time.monotonic()))


@contextlib.contextmanager
def _partitions(spark: SparkSession, count: int) -> Iterator[None]:
    """A query keeps what was set when it started. A node is judged in one task: more would only cost time."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    spark.conf.set(name, str(count))
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


def _streams(spark: SparkSession, places: dict[str, Place]) -> DataFrame:
    each = [
        spark.readStream.format("antecede").schema(COLUMNS).options(**place).load().withColumn("node", F.lit(name))
        for name, place in places.items()
    ]
    return reduce(DataFrame.unionByName, each)


def _cause(error: StreamingQueryException) -> str:
    """Of a page of stack trace, the line that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if "Error: " in line]
    if said:
        return said[-1]
    named = [line for line in lines if "Exception" in line and not line.startswith("at ")]  # in front of the plan
    return (named or lines or ["it does not say why"])[0]
