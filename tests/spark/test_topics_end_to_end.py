"""A cluster publishes on twenty topics while Spark copies; the driver is killed twice. The table has each message once.

ANTECEDE_MESSAGES=1000000 python -m pytest -m slow tests/spark/test_topics_end_to_end.py -s
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import antecede

from .nodes import Cluster

ROOT = Path(__file__).parents[2]
MESSAGES = int(os.environ.get("ANTECEDE_MESSAGES", "100000"))
TOPICS = 20
PUBLISHERS = 2


@pytest.mark.slow
@pytest.mark.parametrize("way", ["journal", "url"])
def test_each_message_once_in_order_though_the_driver_is_killed_twice(
    request: pytest.FixtureRequest, tmp_path: Path, way: str
) -> None:
    began = time.monotonic()
    allowance = Allowance()
    with Cluster(tmp_path / "cluster", nodes=PUBLISHERS) as cluster:
        where = str(cluster.journal(0)) if way == "journal" else cluster.url(0)
        copier = Copier(where, tmp_path, allowance)
        publishing = threading.Thread(target=lambda: cluster.run(publish(cluster, allowance)))
        publishing.start()
        batches = [copier.run(kill_after=2), copier.run(kill_after=3)]
        assert publishing.is_alive(), "all was published before the driver was killed for the second time"

        def finish() -> None:
            publishing.join()
            cluster.run(until_delivered(cluster))
            (tmp_path / "stop").touch()

        finishing = threading.Thread(target=finish)
        finishing.start()
        batches.append(copier.run(kill_after=None))
        finishing.join()
        seconds = time.monotonic() - began
    spark: SparkSession = request.getfixturevalue("spark")  # not before: the drivers need the memory and the cores
    found = spark.read.parquet(str(tmp_path / "table"))
    assert found.count() == MESSAGES
    assert found.select("source", "seq").distinct().count() == MESSAGES
    assert found.select("position").distinct().count() == MESSAGES
    rows = found.select("topic", "source", "seq", "payload", "position").orderBy("position").toArrow()
    assert len(set(rows.column("topic").to_pylist())) == TOPICS
    # In order: each publisher counted its messages, and by position they count up without a hole.
    next_one = [0] * PUBLISHERS
    for payload in rows.column("payload").to_pylist():
        publisher, number = map(int, payload.decode().split(":"))
        assert number == next_one[publisher]
        next_one[publisher] += 1
    # And each message stands behind all it depends on.
    at = found.selectExpr("source", "seq", "position AS before")
    deps = found.selectExpr("position", "explode(deps) AS dep").selectExpr("position", "dep.source", "dep.seq")
    assert deps.count() > 0
    assert deps.join(at, ["source", "seq"]).where("before >= position").count() == 0
    print(
        f"\n{MESSAGES:,} messages on {TOPICS} topics by {way}: published and copied in {seconds:.0f} s; "
        f"batches before each end of the driver: {batches}"
    )


class Allowance:
    """How many messages may be published by now: publishing must not be over before the driver is up."""

    def __init__(self) -> None:
        self.messages = MESSAGES // 10

    def grow(self) -> None:
        self.messages += MESSAGES // 10


async def publish(cluster: Cluster, allowance: Allowance) -> None:
    """Two clients at two nodes, side by side."""

    async def one(publisher: int) -> None:
        async with antecede.connect(cluster.url(publisher)) as bus:
            pending: list[asyncio.Future[antecede.MessageId]] = []
            for number in range(publisher, MESSAGES, PUBLISHERS):
                body = f"{publisher}:{number // PUBLISHERS}".encode()
                pending.append(bus.publish_nowait(f"load/{number % TOPICS}", body))
                if len(pending) == 500:
                    await asyncio.gather(*pending)
                    pending.clear()
                    while number > allowance.messages:
                        await asyncio.sleep(0.02)
            await asyncio.gather(*pending)

    await asyncio.gather(*[one(publisher) for publisher in range(PUBLISHERS)])


async def until_delivered(cluster: Cluster) -> None:
    async with antecede.connect(cluster.url(0)) as bus:
        while (await bus.status())["position"] < MESSAGES:
            await asyncio.sleep(0.1)


class Copier:
    """Drivers, one after the other, in processes of their own."""

    def __init__(self, where: str, directory: Path, allowance: Allowance) -> None:
        self._arguments = [where, directory / "table", directory / "checkpoint", MESSAGES // 20, directory / "stop"]
        self._allowance = allowance
        self._rng = random.Random(1)

    def run(self, *, kill_after: int | None) -> int:
        """Killed a moment after so many batches, if that is asked; how many it was seen to finish."""
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.copying", *map(str, self._arguments)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        batches = 0
        for line in process.stdout:
            if line.startswith("batch"):
                batches += 1
                self._allowance.grow()
            if batches == kill_after:
                time.sleep(self._rng.uniform(0, 1))  # in the middle of the next one, perhaps
                os.killpg(process.pid, signal.SIGKILL)  # the driver, its JVM and its workers
                break
        code = process.wait()
        assert (code == 0) == (kill_after is None), f"the driver ended with {code}"
        return batches
