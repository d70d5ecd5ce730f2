"""The re-order operator on rows with ids: the cost of a batch as ids accumulate, and the state it keeps.

    python bench/causal_ids.py [--rows 5000000] [--batches 200] [--horizon 500000] [--keys 4]

Every row has an id of its own (40 hexadecimal digits) and names two of the hundred rows before it. Rows are displaced
by up to 200. Printed: seconds and rows/s by tenth of the run, the slope of a line through the times of all batches but
the first tenth, and the ids and bytes of state at the end of each tenth, as Spark's progress tells them.
"""

import argparse
import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from antecede.spark import causal_order
from antecede.spark.session import spark_session

SCHEMA = "repo string, sha string, parents array<string>, payload binary"
PARENTS, BACK, SPREAD = 2, 100, 200


def write(directory: Path, rows: int, batches: int, keys: int) -> None:
    """A file for each batch. Rows are made as they are written: all at once would take gigabytes."""
    rng = np.random.default_rng(1)
    each = rows // keys // batches
    late: list[list[int]] = [[] for _ in range(keys)]
    for batch in range(batches):
        parts = []
        for key in range(keys):
            here = np.arange(batch * each, (batch + 1) * each)
            moved = here + rng.integers(0, SPREAD, each)
            go = moved < (batch + 1) * each
            numbers = np.array([*late[key], *here[go][np.argsort(moved[go], kind="stable")].tolist()], np.int64)
            late[key] = here[~go].tolist()
            if batch == batches - 1:
                numbers = np.concatenate([numbers, np.array(late[key], np.int64)])
            named = [[n - 1 - (n * 7 + one * 31) % BACK for one in range(PARENTS)] for n in numbers.tolist()]
            parents = [[sha(key, one) for one in row if one >= 0] for row in named]
            parts.append(
                pa.table(
                    {
                        "repo": pa.array([f"repo {key}"] * len(numbers)),
                        "sha": pa.array([sha(key, n) for n in numbers.tolist()]),
                        "parents": pa.array(parents, pa.list_(pa.string())),
                        "payload": pa.array([b"x" * 100] * len(numbers)),
                    }
                )
            )
        pq.write_table(pa.concat_tables(parts), directory / f"{batch:06}.parquet")


def sha(key: int, n: int) -> str:
    return hashlib.blake2b(b"%d.%d" % (key, n), digest_size=20).hexdigest()


def run(spark: SparkSession, directory: Path, horizon: int | None) -> list[dict[str, float]]:
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(directory / "in"))
    ordered = causal_order(stream, id="sha", parents="parents", key="repo", horizon=horizon)
    writer = ordered.writeStream.format("noop").option("checkpointLocation", str(directory / "checkpoint"))
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "100000")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    found = []
    for progress in query.recentProgress:
        if progress["numInputRows"]:
            counts = progress["observedMetrics"]["causal_order"].asDict()
            (state,) = progress["stateOperators"]
            custom = state["customMetrics"]
            found.append(
                {
                    "ms": progress["durationMs"]["triggerExecution"],
                    "rows": progress["numInputRows"],
                    "remembered": counts["remembered"],
                    "released": counts["released"],
                    "held": counts["held"],
                    "bytes": custom.get("rocksdbSstFileSize", custom.get("rocksdbTotalBytesWritten", 0)),
                }
            )
    return found


def report(batches: list[dict[str, float]], rows: int, horizon: int | None) -> None:
    ms = np.array([batch["ms"] for batch in batches])
    count = np.array([batch["rows"] for batch in batches])
    print(f"{rows:,} rows with ids of their own in {len(batches)} batches; horizon {horizon or 'none'}")
    print("  batches       ms/batch (median)     rows/s   ids remembered   MB of state")
    tenth = max(1, len(batches) // 10)
    for begin in range(0, len(batches), tenth):
        part = slice(begin, begin + tenth)
        last = batches[min(begin + tenth, len(batches)) - 1]
        rate = 1000 * count[part].sum() / ms[part].sum()
        print(
            f"  {begin:5}–{min(begin + tenth, len(batches)) - 1:5} {np.median(ms[part]):14,.0f} {rate:14,.0f}"
            f" {last['remembered']:14,.0f} {last['bytes'] / 1e6:13,.1f}"
        )
    warm = np.arange(tenth, len(ms))
    slope, _ = np.polyfit(warm, ms[tenth:], 1)
    typical = float(np.median(ms[tenth:]))
    print(f"  slope {slope:+.2f} ms a batch ({100 * slope / typical:+.3f} % of the median batch of {typical:,.0f} ms)")
    released = sum(batch["released"] for batch in batches)
    print(f"  released {released:,.0f}, {batches[-1]['held']:,.0f} wait")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--horizon", type=int, default=500_000, help="ids of a key that are remembered; 0: all")
    parser.add_argument("--keys", type=int, default=4)
    given = parser.parse_args()
    with TemporaryDirectory(prefix="antecede-bench-") as place:
        directory = Path(place)
        (directory / "in").mkdir()
        write(directory / "in", given.rows, given.batches, given.keys)
        spark = spark_session()
        report(run(spark, directory, given.horizon or None), given.rows, given.horizon or None)


if __name__ == "__main__":
    main()
