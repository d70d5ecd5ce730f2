"""Starts and stops a watch: the nodes and journals to watch, as one stream.

Everything that can be wrong with a node or journal is checked before the query starts, and reported in one line.
"""

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from pathlib import Path
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

#: The options with which a node or journal is read.
Target = dict[str, str]


def name_nodes(targets: Sequence[Target]) -> dict[str, Target]:
    """By name of the node ("node 3"), the options with which it is read. Asks every target for its node number."""
    if not targets:
        raise UsageError("--url", "", "names nothing to watch", "name nodes with --url, or journals with --journal")
    named: dict[str, Target] = {}
    for target in targets:
        options = source_options(target)
        with open_store(options.where, options.topics, patient=False) as store:
            store.check()
            name = f"node {store.node}"
        if name in named:
            problem = f"is {name}, like {named[name].get('url') or named[name].get('journal')}"
            raise UsageError("--url", str(options.where), problem, "name every node once")
        named[name] = target if "journal" in target else {**target, "oneNode": "true"}
    return named


class Watch:
    """A running watch. `tell` is called with each batch's rows and the violations to report, on a thread of Spark."""

    def __init__(
        self,
        spark: SparkSession,
        targets: dict[str, Target],
        *,
        patience_s: float = 10.0,
        interval_s: float = 1.0,
        once: bool = False,
        checkpoint: Path | None = None,
        tell: Callable[[list[dict[str, Any]], list[dict[str, Any]]], None],
    ) -> None:
        register(spark)
        self.view = View(targets, patience_s=patience_s)
        self._tell = tell
        self._own = None if checkpoint else tempfile.mkdtemp(prefix="antecede-watch-")
        try:
            whole = all("#" in source_options(target).topics for target in targets.values())
            judged = live_audit(_streams(spark, targets), whole=whole)
            writer = judged.writeStream.foreachBatch(self._batch)
            writer = writer.option("checkpointLocation", str(checkpoint or self._own))
            if once:
                writer = writer.trigger(availableNow=True)
            else:
                writer = writer.trigger(processingTime=f"{interval_s} seconds")
            with _partitions(spark, len(targets)):
                self._query = writer.start()
        except BaseException:
            self._forget()
            raise

    def ended(self) -> bool:
        """Whether the watch has ended by itself. Raises the error that ended it."""
        if self._query.isActive:
            return False
        error = self._query.exception()
        if error is not None:
            raise AntecedeError(f"the watch ended: {_cause(error)}")
        return True

    def look(self) -> list[dict[str, Any]]:
        """The violations to report although no rows came."""
        return self.view.look(time.monotonic())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        with contextlib.suppress(PySparkException):  # it may have ended already
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
    """Set the number of shuffle partitions while a query starts, which keeps it. Each node is judged in one task."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    spark.conf.set(name, str(count))
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


def _streams(spark: SparkSession, targets: dict[str, Target]) -> DataFrame:
    each = [
        spark.readStream.format("antecede").schema(COLUMNS).options(**target).load().withColumn("node", F.lit(name))
        for name, target in targets.items()
    ]
    return reduce(DataFrame.unionByName, each)


def _cause(error: StreamingQueryException) -> str:
    """The line of a stack trace that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if "Error: " in line]
    if said:
        return said[-1]
    named = [line for line in lines if "Exception" in line and not line.startswith("at ")]  # in front of the plan
    return (named or lines or ["no reason was given"])[0]
