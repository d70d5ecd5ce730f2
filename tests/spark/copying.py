"""A driver to be killed: copies topics into a table, by a stream with a checkpoint, until it is told to stop.

    python -m tests.spark.copying JOURNAL-OR-URL TABLE CHECKPOINT ROWS-PER-BATCH STOP-FILE

Says `batch N` after each batch. Ends by itself when the file STOP exists and everything was copied.
"""

import sys
import time
from pathlib import Path

from antecede.spark import register
from antecede.spark.session import spark_session


def main(where: str, table: str, checkpoint: str, rows: str, stop: str) -> None:
    spark = spark_session("local[2]", short=True)
    register(spark)
    option = "url" if "://" in where else "journal"
    stream = (
        spark.readStream.format("antecede")
        .options(**{option: where, "topics": "load/#", "since": "earliest", "maxRowsPerBatch": rows})
        .load()
    )
    query = (
        stream.select("topic", "source", "seq", "deps", "payload", "position")
        .writeStream.format("parquet")
        .option("checkpointLocation", checkpoint)
        .start(table)
    )
    said = -1
    while True:
        stopping = Path(stop).exists()
        if stopping:
            query.processAllAvailable()
        progress = query.lastProgress
        if progress is not None and progress.batchId > said:
            said = progress.batchId
            print("batch", said, flush=True)
        if query.exception() is not None:
            raise SystemExit(str(query.exception()))
        if stopping:
            query.stop()
            return
        time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
