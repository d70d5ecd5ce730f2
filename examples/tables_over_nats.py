"""Two JetStream streams into Parquet with Spark, in causal order across them: no note stands before its order.

    nats-server -js &
    python examples/tables_over_nats.py nats://127.0.0.1:4222 table

Run it again: it goes on where it was, and adds the new records, each once. The streams are made here if they are
missing.
"""

import asyncio
import sys
from pathlib import Path

import nats
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import antecede
from antecede.spark import causal_order, register
from antecede.spark.session import spark_session

STREAMS = ("orders", "shipping")


async def talk(server: str, turns: int) -> None:
    """The shop orders, the warehouse answers on the other stream, the shop orders again."""
    connection = await nats.connect(server)
    for name in STREAMS:
        await connection.jetstream().add_stream(name=name, subjects=[f"{name}.>"])
    await connection.close()
    async with antecede.connect(f"{server}?streams={','.join(STREAMS)}") as bus:
        for turn in range(turns):
            await bus.publish("orders/new", f"order {turn}".encode())
            await bus.publish("shipping/notes", f"shipped {turn}".encode())


def copy(spark: SparkSession, url: str, target: Path) -> None:
    """Add what the logs have to the table, as of one consistent cut."""
    register(spark)

    def write(rows: DataFrame, number: int) -> None:
        # One directory for each batch: a batch that is run again replaces what it wrote before.
        placed = rows.withColumn("place", F.monotonically_increasing_id())
        placed.write.mode("overwrite").parquet(str(target / f"batch={number}"))

    records = spark.readStream.format("antecede").option("url", url).option("since", "earliest").load()
    ordered = causal_order(records, log="log", offset="offset", past="past")
    query = ordered.select("topic", "log", "offset", F.col("payload").cast("string"), "stored").writeStream
    query = query.foreachBatch(write).option("checkpointLocation", str(target / "_checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()


def main(server: str = "nats://127.0.0.1:4222", target: str = "table") -> None:
    asyncio.run(talk(server, 5))
    spark = spark_session("local[2]")
    copy(spark, f"{server}?streams={','.join(STREAMS)}", Path(target))
    for row in spark.read.parquet(target).orderBy("batch", "place").collect():
        print(f"{row.topic} {row.offset}: {row.payload}")


if __name__ == "__main__":
    main(*sys.argv[1:])
