"""The re-order operator over Spark Connect and on a standalone cluster: what it shows there is what it shows here."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.spark.cluster import cluster
from tests.spark.histories import Shown, check_against_sorted, history, table
from tests.spark.test_by_id import positioned

#: Orders the files of a directory by id, a batch each, and prints what it shows.
JOB = """
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
from antecede.spark import causal_order, waiting_rows
where, place = sys.argv[1], Path(sys.argv[2])
if where == "connect":
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
else:
    from antecede.spark.session import spark_session
    spark = spark_session(where, short=True)
spark.conf.set("spark.sql.shuffle.partitions", "2")
SCHEMA = "repo string, sha string, parents array<string>, text binary"
stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(place / "in"))
ordered = causal_order(stream, id="sha", parents="parents", key="repo")
writer = ordered.writeStream.format("parquet").option("checkpointLocation", str(place / "checkpoint"))
writer.trigger(availableNow=True).start(str(place / "out")).awaitTermination()
rows = spark.read.parquet(str(place / "out")).orderBy("repo", "order_position").collect()
waiting = waiting_rows(spark, str(place / "checkpoint")).collect()
whole = spark.read.schema(SCHEMA).parquet(str(place / "in"))
table = causal_order(whole, id="sha", parents="parents", key="repo").collect()
found = {"shown": [(row.sha, row.order, row.order_position) for row in rows], "waiting": [row.name for row in waiting]}
print(json.dumps(found | {"table": len(table)}))
"""


def order(where: str, place: Path) -> None:
    """Run the job at `where`, and hold what it shows to the sorted table."""
    rng = random.Random(3)
    rows = [one for one in history(rng, 120, circles=2) if rng.random() >= 0.02]
    arrived = rng.sample(rows, len(rows))
    (place / "in").mkdir(parents=True)
    for number, begin in enumerate(range(0, len(arrived), 60)):
        pq.write_table(table(arrived[begin : begin + 60]), place / "in" / f"{number}.parquet")
    found = run(where, place)
    shown = [Shown(sha, word) for sha, word, _ in found["shown"]]
    check_against_sorted(rows, shown, positioned(rows))
    assert [at for *_, at in found["shown"]] == list(range(1, len(shown) + 1))
    left = {one.sha for one in rows} - {one.sha for one in shown}
    assert sorted(found["waiting"]) == sorted(left)
    assert found["table"] == len(rows)


def run(where: str, place: Path) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_MASTER"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    words = [sys.executable, "-c", JOB, where, str(place)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False, env=environment, cwd=place)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_over_spark_connect(tmp_path: Path) -> None:
    order("connect", tmp_path / "rows")


@pytest.mark.slow
def test_on_a_standalone_cluster(tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster") as master:
        order(master, tmp_path / "rows")
