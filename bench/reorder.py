"""The re-order operator: rows a second beside other ways, and its cost per row as a log grows.

    python bench/reorder.py [--rows 1000000] [--batch 100000] [--full]

Also as a section of bench/spark_stream.py. The log: 8 keys, 50 sources each, 4 dependencies a message, each displaced
by up to 200 places. Beside the operator: Spark's own rate source and the same files read, both into nothing (what Spark
costs by itself), and `foreachBatch` with pandas, where the driver re-orders with the same gate and keeps the state in
its memory, unsaved. `--full` adds ten million rows. Rates are of the batches alone, without Spark's start.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from antecede.core import Gate
from antecede.spark import causal_order
from antecede.spark.session import spark_session

KEYS, SOURCES, DEPS, SPREAD = 8, 50, 4, 200
SCHEMA = "room string, source int, seq bigint, deps array<struct<source: int, seq: bigint>>, payload binary"


def log(rows: int, seed: int = 1) -> pa.Table:
    """A log in the order of its arrival."""
    rng = np.random.default_rng(seed)
    each = rows // KEYS
    parts, arrival = [], []
    for key in range(KEYS):
        source = rng.integers(0, SOURCES, each)
        by_source = np.argsort(source, kind="stable")
        counts = np.bincount(source, minlength=SOURCES)
        seq = np.empty(each, np.int64)
        seq[by_source] = np.arange(each) - np.repeat(np.cumsum(counts) - counts, counts) + 1
        at = np.repeat(np.arange(each), DEPS)
        named = at - rng.integers(1, 100, len(at))
        there = named >= 0
        lengths = np.bincount(at[there], minlength=each)
        fields = [pa.array(source[named[there]].astype(np.int32)), pa.array(seq[named[there]])]
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        deps = pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(fields, ["source", "seq"]))
        payload = pa.array([b"x" * 100] * each)
        columns = [pa.array([f"room {key}"] * each), pa.array(source.astype(np.int32)), pa.array(seq), deps, payload]
        parts.append(pa.table(columns, ["room", "source", "seq", "deps", "payload"]))
        arrival.append(np.arange(each) + rng.uniform(0, SPREAD, each))
    return pa.concat_tables(parts).take(pa.array(np.argsort(np.concatenate(arrival))))


def write(directory: Path, rows: int, batch: int) -> Path:
    where = directory / f"{rows}"
    where.mkdir()
    table = log(rows)
    for number, begin in enumerate(range(0, table.num_rows, batch)):
        # Row groups, so that a batch is read by several tasks.
        pq.write_table(table.slice(begin, batch), where / f"{number:06}.parquet", row_group_size=batch // 4)
    return where


def files(spark: SparkSession, where: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(where))


def seconds(
    stream: DataFrame, directory: Path, name: str, each: Callable[[DataFrame, int], None] | None = None
) -> float:
    """What the batches of a query over everything there is take together."""
    writer = stream.writeStream.format("noop") if each is None else stream.writeStream.foreachBatch(each)
    query = (
        writer.option("checkpointLocation", str(directory / f"checkpoint-{name}")).trigger(availableNow=True).start()
    )
    query.awaitTermination()
    durations: list[dict[str, Any]] = [progress["durationMs"] for progress in query.recentProgress]
    return sum(duration["triggerExecution"] for duration in durations) / 1000


def operator(spark: SparkSession, directory: Path, rows: int, batch: int) -> float:
    where = write(directory, rows, batch)
    ordered = causal_order(files(spark, where), key="room")
    return seconds(ordered, directory, f"operator-{rows}-{batch}")


def with_pandas(spark: SparkSession, directory: Path, rows: int) -> float:
    """The same on the driver: pandas, a gate a key, rows that wait as Python objects."""
    gates: dict[str, Gate[tuple[Any, ...]]] = {}
    released = 0

    def reorder(batch: DataFrame, _: int) -> None:
        nonlocal released
        for row in batch.toPandas().itertuples(index=False):
            gate = gates.setdefault(row.room, Gate())
            gate.offer(row, ((row.source, row.seq),), [(dep["source"], dep["seq"]) for dep in row.deps])
            released += len(gate.drain())

    took = seconds(files(spark, directory / f"{rows}"), directory, "pandas", reorder)
    assert released > 0.9 * rows
    return took


def rate_source(spark: SparkSession, directory: Path, rows: int, batch: int) -> float:
    batches = max(1, rows // batch)
    stream = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", batch)
        .option("startTimestamp", int(time.time() * 1000) - 1000 * batches)
        .option("advanceMillisPerBatch", 1000)
        .load()
    )
    return seconds(stream, directory, "rate") * rows / (batches * batch)


def measure(spark: SparkSession, rows: int, batch: int, *, full: bool) -> None:
    with TemporaryDirectory(prefix="antecede-bench-") as place:
        directory = Path(place)
        operator(spark, directory, KEYS * 1000, KEYS * 1000)  # workers, imports, compiled code
        ours = operator(spark, directory, rows, batch)
        took = {
            "causal_order": ours,
            "foreachBatch with pandas": with_pandas(spark, directory, rows),
            "the same files into nothing": seconds(files(spark, directory / f"{rows}"), directory, "read"),
            "Spark's rate source into nothing": rate_source(spark, directory, rows, batch),
        }
        print(f"{rows:,} rows in batches of {batch:,}; {KEYS} keys, {SOURCES} sources, {DEPS} dependencies")
        for name, each in took.items():
            print(f"  {name:34} {rows / each:12,.0f} rows/s   {ours / each:7.2f} times causal_order")
        print("cost of causal_order")
        sizes = [100_000, *([rows] if rows != 100_000 else []), *([10_000_000] if full else [])]
        for size in sizes:
            each = ours if size == rows else operator(spark, directory, size, batch)
            print(f"  {size:12,} rows {1e6 * each / size:8.2f} µs a row   {size / each:10,.0f} rows/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=100_000)
    parser.add_argument("--full", action="store_true", help="ten million rows too")
    given = parser.parse_args()
    measure(spark_session(), given.rows, given.batch, full=given.full)


if __name__ == "__main__":
    main()
