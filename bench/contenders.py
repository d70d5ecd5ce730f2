"""Three ways to judge a trace directory by the same rules; each gives its times and what it counted.

Rules: causal order by direct dependencies and a publisher's previous message, per-source order, duplicates, invention,
loss. (The Spark audit does more: order through what a node never took, dependencies nobody recorded, agreement, time
running backwards; it has no way to leave that out.)
"""
# ruff: noqa: PLC0415 - how long imports take is part of what is measured

import json
import os
import sys
import time
from pathlib import Path


def cpu_seconds() -> float:
    """Processor time of this process and its children so far: what a crowded machine does not change much."""
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(path.name))
        used[int(path.name)] = int(fields[11]) + int(fields[12])
    todo, total = [os.getpid()], 0
    while todo:
        pid = todo.pop()
        todo += children.get(pid, [])
        total += used.get(pid, 0)
    return total / os.sysconf("SC_CLK_TCK")


def spark(trace: Path) -> dict:
    began = time.monotonic()
    from antecede.audit import Question
    from antecede.spark.audit_targets import find_targets
    from antecede.spark.session import spark_session
    from antecede.spark.verdicts import judge

    session = spark_session(short=True)  # as `antecede audit` does
    session.sparkContext.parallelize(range(8), 8).map(_warm).collect()
    started, cpu = time.monotonic(), cpu_seconds()
    (verdict,) = judge(session, find_targets([trace]), Question())
    seconds, cpu = time.monotonic() - started, cpu_seconds() - cpu
    again = time.monotonic()
    judge(session, find_targets([trace]), Question())
    again = time.monotonic() - again
    violations = {rule.name: rule.violations for rule in verdict.outcome.report.rules}
    return {"start": started - began, "seconds": seconds, "cpu": cpu, "again": again, "violations": violations}


def _warm(number: int) -> int:
    """Import in the workers what a task needs, as the others' imports count as start-up too."""
    import antecede.spark.audit_task  # noqa: F401

    return number


def polars_numpy(trace: Path) -> dict:
    began = time.monotonic()
    import numpy as np
    import polars as pl

    started, cpu = time.monotonic(), cpu_seconds()
    events = pl.read_parquet(trace / "events.parquet", columns=["row", "node", "event", "source", "seq", "deps"])
    publish = events.filter(pl.col("event") == "publish").sort("row")
    subscribers = events.filter(pl.col("event") == "subscribe")["node"].to_numpy()
    source, seq = publish["source"].to_numpy(), publish["seq"].to_numpy()
    publish_row = publish["row"].to_numpy()
    messages = len(source)
    offset = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=int(source.max()) + 1))])
    number = np.full(int(offset[-1]) + 1, -1)
    number[offset[source] + seq - 1] = np.arange(messages)
    deps = publish["deps"].explode().struct.unnest()
    lengths = publish["deps"].list.len().to_numpy()
    named = deps.drop_nulls()
    src = number[offset[named["source"].to_numpy()] + named["seq"].to_numpy() - 1]
    dst = np.repeat(np.arange(messages), lengths)[: len(src)] if len(src) == lengths.sum() else None
    assert dst is not None
    own_src, own_dst = number[offset[source] + seq - 2][seq > 1], np.flatnonzero(seq > 1)
    counted = dict.fromkeys(("causal", "fifo", "exactly-once", "no-invention", "complete"), 0)
    for file in sorted(trace.glob("deliveries-*.parquet")):
        rows = pl.read_parquet(file, columns=["row", "node", "source", "seq"])
        node, row = rows["node"].to_numpy(), rows["row"].to_numpy()
        its_source, its_seq = rows["source"].to_numpy(), rows["seq"].to_numpy()
        slot = offset[its_source] + its_seq - 1
        known = slot < offset[its_source + 1]
        counted["no-invention"] += int((~known).sum())
        message = np.where(known, number[np.where(known, slot, 0)], -1)
        counted["no-invention"] += int((publish_row[message[known]] > row[known]).sum())
        bounds = np.flatnonzero(np.diff(node, prepend=-1, append=-1))
        for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            mine, at = message[begin:end], row[begin:end]
            mine, at = mine[mine >= 0], at[mine >= 0]
            taken = np.full(messages, -1)
            taken[mine[::-1]] = at[::-1]
            counted["exactly-once"] += int((taken[mine] != at).sum())
            own = source == node[begin]
            taken[own] = publish_row[own]
            counted["complete"] += int((taken < 0).sum()) if node[begin] in subscribers else 0
            late = np.where(taken < 0, np.iinfo(np.int64).max, taken)
            turned = taken[own_src] > late[own_dst]
            wrong = dst[taken[src] > late[dst]]
            counted["fifo"] += int(turned.sum())
            counted["causal"] += len(np.union1d(wrong, own_dst[turned])) if len(wrong) or turned.any() else 0
    counted["agreement"] = counted["complete"]  # nobody crashes in this trace
    seconds, cpu = time.monotonic() - started, cpu_seconds() - cpu
    return {"start": started - began, "seconds": seconds, "cpu": cpu, "violations": counted}


def duckdb(trace: Path) -> dict:
    began = time.monotonic()
    import duckdb

    database = duckdb.connect()
    started, cpu = time.monotonic(), cpu_seconds()
    database.execute(f"""
        CREATE TABLE published AS
            SELECT row_number() OVER (ORDER BY row) AS message, row, node, source, seq, deps
            FROM '{trace}/events.parquet' WHERE event = 'publish';
        CREATE TABLE edge AS
            SELECT named.message AS dst, known.message AS src, false AS own
            FROM (SELECT message, unnest(deps) AS dep FROM published) named
            JOIN published known ON known.source = named.dep.source AND known.seq = named.dep.seq
            UNION ALL
            SELECT later.message, earlier.message, true
            FROM published later JOIN published earlier
            ON earlier.source = later.source AND earlier.seq = later.seq - 1;
        CREATE TABLE delivered AS
            SELECT d.node, p.message, d.row, p.row AS published
            FROM '{trace}/deliveries-*.parquet' d LEFT JOIN published p USING (source, seq);
        CREATE TABLE taken AS
            SELECT node, message, min(row) AS row, count(*) AS times
            FROM delivered WHERE message IS NOT NULL GROUP BY node, message;
    """)
    turned = database.execute("""
        SELECT count(DISTINCT (late.node, late.message)),
               count(DISTINCT (late.node, late.message)) FILTER (WHERE own)
        FROM taken late JOIN edge ON edge.dst = late.message
        JOIN taken early ON early.node = late.node AND early.message = edge.src
        WHERE early.row > late.row
    """).fetchone()
    twice = database.execute("SELECT coalesce(sum(times - 1), 0) FROM taken WHERE times > 1").fetchone()
    invented = database.execute("SELECT count(*) FROM delivered WHERE message IS NULL OR published > row").fetchone()
    lost = database.execute(f"""
        SELECT (SELECT count(DISTINCT node) FROM '{trace}/events.parquet' WHERE event = 'subscribe')
             * (SELECT count(*) FROM published) - (SELECT count(*) FROM taken)
    """).fetchone()
    counted = {
        "causal": turned[0],
        "fifo": turned[1],
        "exactly-once": int(twice[0]),
        "no-invention": invented[0],
        "complete": lost[0],
        "agreement": lost[0],
    }
    seconds, cpu = time.monotonic() - started, cpu_seconds() - cpu
    return {"start": started - began, "seconds": seconds, "cpu": cpu, "violations": counted}


if __name__ == "__main__":
    contender, path = sys.argv[1:]
    print(json.dumps(globals()[contender.replace("+", "_")](Path(path))))
