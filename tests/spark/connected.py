"""A whole day's work over Spark Connect, in a process of its own: one process has sessions of one kind.

    python -m tests.spark.connected DIRECTORY

It starts a node, and prints one line of JSON for `test_connect`.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import antecede.spark
from tests.spark.nodes import Cluster

_TRACE = "time_us LONG, event STRING, node INT, topic STRING, source INT, seq LONG"


def work(spark: SparkSession, cluster: Cluster, directory: Path) -> dict[str, object]:
    antecede.spark.register(spark)
    antecede.spark.register(spark)
    where = {"url": cluster.url()}
    rows = spark.createDataFrame([("in", "1"), ("in", "2")], "topic STRING, payload STRING").coalesce(1)
    rows.write.format("antecede").options(**where).mode("append").save()
    source = spark.read.format("antecede").options(**where, topics="in").load()
    stream = spark.readStream.format("antecede").options(**where, topics="#", since="earliest").load()
    ordered = antecede.spark.causal_order(
        stream.where("topic = 'in'"), key=[], source="source", seq="seq", deps="deps"
    ).selectExpr("'out' AS topic", "concat('re: ', CAST(payload AS STRING)) AS payload")
    query = ordered.writeStream.format("antecede").options(**where, checkpointLocation=str(directory / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    answers = spark.read.format("antecede").options(**where, topics="out").load()
    table = spark.createDataFrame(
        [("a", 2, [("a", 1)]), ("a", 1, [])], "source STRING, seq LONG, deps ARRAY<STRUCT<source: STRING, seq: LONG>>"
    )
    in_order = antecede.spark.causal_sort(table, key=[], source="source", seq="seq", deps="deps")
    trace = spark.createDataFrame(
        [(0, "publish", 0, "t", 0, 1), (1, "deliver", 1, "t", 0, 1), (2, "deliver", 1, "t", 0, 1)], _TRACE
    )
    trace.write.parquet(str(directory / "trace"))
    violated = F.col("verdict") == "violated"
    return {
        "read": [row.payload.decode() for row in source.collect()],
        "answers": [row.payload.decode() for row in answers.collect()],
        "sorted": [row.seq for row in in_order.collect()],
        "violated": [row.rule for row in antecede.spark.audit(trace).where(violated).collect()],
        "of files": [row.rule for row in antecede.spark.audit(spark, directory / "trace").where(violated).collect()],
        "delivered": [row.delivered for row in antecede.spark.metrics(trace, "load").where("node = 1").collect()],
    }


def main() -> None:
    directory = Path(sys.argv[1])
    builder = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2")
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    try:
        with Cluster(directory / "cluster") as cluster:
            sys.stdout.write(json.dumps(work(session, cluster, directory)) + "\n")
    finally:
        session.stop()


if __name__ == "__main__":
    main()
