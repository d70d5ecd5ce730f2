"""Topics in Spark: rows a second of the source, the sink and the re-order operator, beside Spark's own rate source.

    python bench/spark_stream.py [--rows 1000000] [--only source,sink,operator] [--repeat 3]

Source: a journal of `--rows` messages of 128 bytes on 20 topics, every second with a dependency, read to the end by a
batch query and by a stream in batches of a million rows and of a tenth of them, all columns, into Spark's sink for
benchmarks ("noop"). Spark's own `rate-micro-batch` source makes two columns out of nothing in the JVM, and says what a
stream costs without us; `range` says so for a batch query. Of a stream two rates are told: from its start to its end,
which has the start of a Python process in it, and that of its batches alone, by Spark's own clock, with their phases.

Sink: a tenth of the rows, written to a running node by a batch query until all are in its journal. Beside it, the same
messages published by a client of the node that does not wait for each.

Operator: see bench/reorder.py, whose figures are of one run each.

Start-up is not counted: every measurement is made `--repeat` times after one that is not, and the best is told. On a
machine that does other things look at the ratios, and at the processor time of a row, which counts all processes.
"""

import argparse
import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession

import antecede
import reorder
from antecede.core import Message
from antecede.journal import Journal
from antecede.journal.batch import Batch
from antecede.node.local_cluster import LocalCluster
from antecede.spark import register
from antecede.spark.session import spark_session
from antecede.wire.envelope import seal

TOPICS = 20
SOURCES = 4
BODY = bytes(128)
#: Deliveries of one stored batch: what a busy node writes at a time.
STORED_TOGETHER = 256


class Bench:
    """What the sections share: a session, a place, a size; and the table they fill."""

    def __init__(self, spark: SparkSession, place: Path, rows: int, repeat: int) -> None:
        self.spark = spark
        self.place = place
        self.rows = rows
        self.repeat = repeat
        self._numbers = 0

    def fresh(self, name: str) -> str:
        """A path nothing is at."""
        self._numbers += 1
        return str(self.place / f"{name}-{self._numbers}")

    def measure(self, what: str, rows: int, run: Callable[[], object], beside: float | None = None) -> float:
        """Rows a second, at best; said as a line, with the ratio to `beside`."""
        run()
        seconds, processor = min(self._timed(run) for _ in range(self.repeat))
        ratio = "" if beside is None else f"{rows / seconds / beside:10.2f}"
        figures = f"{rows:>10,}{seconds:9.2f}{processor / rows * 1e6:9.2f}{rows / seconds:12,.0f}"
        print(f"{what:58}{figures}{ratio}", flush=True)
        return rows / seconds

    def measure_stream(self, what: str, rows: int, make: Callable[[], DataFrame], beside: float | None = None) -> float:
        """The same for a stream, run to the end of what there is; and beneath it, its batches alone, at best."""
        seen: list[dict[str, int]] = []
        rate = self.measure(what, rows, lambda: seen.append(self.drain(make())), beside)
        best = min(seen[1:], key=lambda phases: phases["triggerExecution"])
        seconds = best.pop("triggerExecution") / 1000
        phases = ", ".join(f"{name} {ms}" for name, ms in sorted(best.items(), key=lambda one: -one[1]) if ms >= 10)
        print(f"{'  its batches alone':58}{rows:>10,}{seconds:9.2f}{'':9}{rows / seconds:12,.0f}  ms: {phases}")
        return rate

    @staticmethod
    def _timed(run: Callable[[], object]) -> tuple[float, float]:
        """Seconds, and seconds of processor time."""
        begin, used = time.perf_counter(), processor_s()
        run()
        return time.perf_counter() - begin, processor_s() - used

    def drain(self, stream: DataFrame) -> dict[str, int]:
        """Run a stream to the end of what there is: how many ms its batches took, by phase."""
        query = (
            stream.writeStream.format("noop")
            .option("checkpointLocation", self.fresh("checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        phases: Counter[str] = Counter()
        for progress in query.recentProgress:
            phases.update(progress["durationMs"])
        return phases


def processor_s() -> float:
    """Of this process and all below it, the JVM and Python workers among them."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        parents[int(path.name)] = int(fields[1])
        used[int(path.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # with children that ended
    total = 0.0
    for process, seconds in used.items():
        above = process
        while above not in (0, os.getpid()):
            above = parents.get(above, 0)
        total += seconds if above else 0.0
    return total


def head(title: str, beside: str) -> None:
    print(f"\n{title:58}{'rows':>10}{'s':>9}{'cpu us':>9}{'rows/s':>12}{beside:>10}")


# -- source ------------------------------------------------------------------------------------------------------------


def source(bench: Bench) -> None:
    spark, rows = bench.spark, bench.rows
    journal = bench.place / "n0"
    write_journal(journal, rows)
    options = {"journal": str(journal), "topics": "#", "since": "earliest"}

    def stream(batch: int, **more: str) -> DataFrame:
        reader = spark.readStream.format("antecede").options(**(options | more))
        return reader.option("maxRowsPerBatch", batch).load()

    head("batch query", "/ range")
    base = bench.measure("range, into noop", rows, lambda: noop(spark.range(rows)))
    # A DataFrame is planned once: a new one each time reads what there is then.
    load = lambda more: spark.read.format("antecede").options(**(options | more)).load()  # noqa: E731
    bench.measure("journal, all columns", rows, lambda: noop(load({})), base)
    bench.measure("journal, count(*) by topic", rows, lambda: load({}).groupBy("topic").count().collect(), base)
    reader = lambda: spark.read.format("antecede").options(**options).schema("topic STRING, position LONG")  # noqa: E731
    bench.measure("journal, two columns by a schema of one's own", rows, lambda: noop(reader().load()), base)

    head("stream", "/ rate")
    large = min(1_000_000, rows)
    small = max(1, rows // 10)
    rate = bench.measure_stream("Spark's rate-micro-batch, one batch", large, lambda: rates(spark, large, 1))
    bench.measure_stream(f"journal, batches of {large:,}", rows, lambda: stream(large), rate)
    rate = bench.measure_stream(
        f"Spark's rate-micro-batch, batches of {small:,}", 10 * small, lambda: rates(spark, small, 10)
    )
    bench.measure_stream(f"journal, batches of {small:,}", rows, lambda: stream(small), rate)


def rates(spark: SparkSession, rows: int, batches: int) -> DataFrame:
    """Spark's own stream of numbers and times, of so many batches."""
    now_ms = int(time.time() * 1000)
    return (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows)
        .option("numPartitions", 2)
        .option("startTimestamp", now_ms - 1000 * batches)
        .option("advanceMillisPerBatch", 1000)
        .load()
    )


def noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def write_journal(directory: Path, rows: int) -> None:
    """A node's journal, as it would have written it."""

    async def write() -> None:
        directory.mkdir(parents=True)
        journal = await Journal.open(directory / "journal.db", cluster="antecede")
        await journal.set_node(0)
        begin_us = time.time_ns() // 1000
        for first in range(1, rows + 1, STORED_TOGETHER):
            messages = [message(at, begin_us) for at in range(first, min(rows + 1, first + STORED_TOGETHER))]
            done = asyncio.get_running_loop().create_future()
            batch = Batch(first=first, time_us=begin_us + 10 * first, deliveries=messages, changes=[], held_us={})
            journal.append(batch, done.set_result)
            if await done is not None:
                raise SystemExit(f"the journal cannot be written: {done.result()}")
        await journal.close()

    asyncio.run(write())


def message(position: int, begin_us: int) -> Message:
    before = position - 1
    deps = ((before % SOURCES, (before - 1) // SOURCES + 1),) if position % 2 and before else ()
    payload = seal(f"rooms/{position % TOPICS}/chat", BODY, time_us=begin_us + 10 * position)
    return Message("main", position % SOURCES, (position - 1) // SOURCES + 1, deps, payload)


# -- a running node ----------------------------------------------------------------------------------------------------


def sink(bench: Bench) -> None:
    """Writing to a node, and reading what was written from it."""
    rows = max(1, bench.rows // 10)
    with Running(bench.place / "cluster") as node:
        head("a running node", "/ client")
        base = bench.measure("a client, publish_nowait", rows, lambda: node.run(publish(node.url, rows)))
        frame = bench.spark.range(0, rows, 1, 2).selectExpr(
            f"concat('rooms/', id % {TOPICS}) AS topic", f"cast(repeat('x', {len(BODY)}) AS BINARY) AS payload"
        )
        writer = lambda: frame.write.format("antecede").mode("append").option("url", node.url)  # noqa: E731
        bench.measure("sink, batch query, all in the node's journal", rows, lambda: writer().save(), base)
        options = {"url": node.url, "topics": "#", "since": "earliest"}
        position = node.position()
        bench.measure(
            "source, all columns, into noop",
            position,
            lambda: noop(bench.spark.read.format("antecede").options(**options).load()),
            base,
        )


async def publish(url: str, rows: int) -> None:
    async with antecede.connect(url) as bus:
        pending: list[asyncio.Future[antecede.MessageId]] = []
        for number in range(rows):
            pending.append(bus.publish_nowait(f"rooms/{number % TOPICS}", BODY))
            if len(pending) == 4096:
                await asyncio.gather(*pending)
                pending.clear()
        await asyncio.gather(*pending)


class Running:
    """A node in a process of its own, run from a thread."""

    def __init__(self, directory: Path) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._cluster = LocalCluster(directory, nodes=1)
        self.url = self._cluster.url(0)

    def __enter__(self) -> "Running":
        self.run(self._cluster.__aenter__())
        return self

    def __exit__(self, *about: object) -> None:
        self.run(self._cluster.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)

    def run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def position(self) -> int:
        with antecede.connect_sync(self.url) as bus:
            return int(bus.status()["position"])


def operator(bench: Bench) -> None:
    print()
    reorder.measure(bench.spark, bench.rows, max(1, bench.rows // 10), full=False)


SECTIONS: dict[str, Callable[[Bench], None]] = {"source": source, "sink": sink, "operator": operator}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"of {', '.join(SECTIONS)}")
    given = parser.parse_args()
    spark = spark_session()
    register(spark)
    with TemporaryDirectory(prefix="antecede-bench-") as place:
        for name in given.only.split(","):
            SECTIONS[name](Bench(spark, Path(place), given.rows, given.repeat))
    spark.stop()


if __name__ == "__main__":
    main()
