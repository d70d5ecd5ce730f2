"""Topics of a cluster in Spark: rows a second of a batch query, with one partition and with several.

    python bench/spark_homes.py [--rows 1000000] [--partitions 1,8] [--repeat 3]

Three nodes, each a process; with several partitions `replicas = 2`. The messages of 32 bytes on 64 topics are published
at all three nodes, by clients that do not wait for each, and read to the end into Spark's sink for benchmarks ("noop"),
all columns, by two cores. Beside it: `oneNode`, what one node has delivered, read by position as with one node.

With several partitions one node does not have all of them, so its rows are fewer. The best of `--repeat` runs is told.
"""

import argparse
import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import antecede
from antecede.node.local_cluster import LocalCluster
from antecede.spark import register
from antecede.spark.session import spark_session

TOPICS = 64
BODY = bytes(32)
NODES = 3
#: Publications of a client that are under way.
AHEAD = 4096


async def fill(cluster: LocalCluster, rows: int) -> None:
    async def publish(node: int) -> None:
        async with antecede.connect(cluster.url(node)) as bus:
            waiting: list[Any] = []
            for number in range(rows // NODES):
                waiting.append(bus.publish_nowait(f"rooms/{number // 64 % TOPICS}", BODY, timeout_s=900))
                if len(waiting) >= AHEAD:
                    await asyncio.gather(*waiting)
                    waiting.clear()
            await asyncio.gather(*waiting)

    await asyncio.gather(*[publish(node) for node in range(NODES)])


def best(spark: SparkSession, load: Callable[[], DataFrame], repeat: int) -> tuple[int, float, int]:
    """Rows, seconds at best, and tasks."""
    count = load().count()
    tasks = load().rdd.getNumPartitions()
    seconds = []
    for _ in range(repeat + 1):
        begin = time.perf_counter()
        load().write.format("noop").mode("overwrite").save()
        seconds.append(time.perf_counter() - begin)
    return count, min(seconds[1:]), tasks


async def measure(spark: SparkSession, place: Path, rows: int, partitions: int, repeat: int) -> None:
    settings = {"partitions": partitions, "replicas": 2} if partitions > 1 else {}
    async with LocalCluster(place, nodes=NODES, **settings) as cluster:
        begin = time.perf_counter()
        await fill(cluster, rows)
        print(f"partitions {partitions}: published in {time.perf_counter() - begin:.0f} s", flush=True)
        wanted = rows // NODES * NODES
        load = lambda **more: (  # noqa: E731
            spark.read.format("antecede").options(url=cluster.url(0), topics="#", **more).load()
        )
        while await asyncio.to_thread(lambda: load().count()) < wanted:
            await asyncio.sleep(1)
        for name, more in [("homes", {}), ("oneNode", {"oneNode": "true"})]:
            count, seconds, tasks = await asyncio.to_thread(best, spark, lambda more=more: load(**more), repeat)
            rate = f"{count:>10,}{tasks:>7}{seconds:9.2f}{count / seconds:12,.0f}"
            print(f"partitions {partitions:>3}  {name:10}{rate}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--partitions", default="1,8")
    parser.add_argument("--repeat", type=int, default=3)
    chosen = parser.parse_args()
    spark = spark_session("local[2]")
    register(spark)
    print(f"{'':25}{'rows':>10}{'tasks':>7}{'seconds':>9}{'rows/s':>12}")
    for partitions in map(int, chosen.partitions.split(",")):
        with TemporaryDirectory() as place:
            asyncio.run(measure(spark, Path(place), chosen.rows, partitions, chosen.repeat))


if __name__ == "__main__":
    main()
