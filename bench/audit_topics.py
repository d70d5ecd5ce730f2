"""How the audit's time grows with topics: each topic has a subscriber, a message and its delivery.

    python bench/audit_topics.py 250000 500000 1000000 2000000

One process, a trace in memory. Prints topics, rows, processor seconds and the peak memory of the process.
"""

import resource
import sys
import time

import numpy as np
import pyarrow as pa

from antecede.audit import Question
from antecede.audit.vectorised.source import TableSource
from antecede.audit.vectorised.verdict import judge_run
from antecede.trace.tables import as_trace


def trace(topics: int) -> pa.Table:
    names = pa.array([f"t/{number}" for number in range(topics)])
    named = {"source": pa.array(np.zeros(topics, np.int64)), "seq": pa.array(np.ones(topics, np.int64))}
    parts = []
    for time_us, (event, node) in enumerate((("subscribe", 1), ("publish", 0), ("deliver", 1))):
        columns = {
            "time_us": pa.array(np.full(topics, time_us)),
            "event": pa.repeat(pa.scalar(event), topics),
            "node": pa.array(np.full(topics, node)),
            "topic": names,
        }
        unnamed = {name: pa.nulls(topics, pa.int64()) for name in named}
        parts.append(pa.table(columns | (unnamed if event == "subscribe" else named)))
    return as_trace(pa.concat_tables(parts), "memory", run="topics")


def main() -> None:
    for topics in map(int, sys.argv[1:] or ["250000"]):
        source = TableSource(trace(topics))
        began = time.process_time()
        report = judge_run(source, Question()).report
        took = time.process_time() - began
        assert report is not None
        assert report.ok
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(f"{topics:,} topics, {source.rows:,} rows: {took:.1f} s, {memory:,} MB", flush=True)


if __name__ == "__main__":
    main()
