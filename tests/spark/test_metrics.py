"""Metrics of traces against the simulator's meters, which count as things happen."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import antecede.spark
from antecede.core import UsageError
from antecede.sim import RunSpec, simulate
from antecede.spark import measures as M
from antecede.spark.frames import read_traces
from antecede.spark.read_errors import reading
from antecede.trace import Event, Row
from antecede.trace.directory import write_directory
from antecede.trace.files import write_trace
from tests.audit.traces import table
from tests.topic_filters import EXAMPLES

BROADCASTS = {
    "aggregated": RunSpec(protocol="causal-aggregation", nodes=16, workload="uniform:messages=3"),
    "alone": RunSpec(protocol="causal-aggregation", nodes=16, seed=2, options={"aggregate": False}),
    "timed": RunSpec(protocol="timer-bundling", nodes=8, workload="uniform:messages=4", network="heavy-tailed"),
    "topics": RunSpec(protocol="causal-aggregation", nodes=8, workload="zipf:count=3,messages=4"),
    "lossy": RunSpec(
        protocol="causal-aggregation", nodes=12, faults=("loss:share=0.05", "duplication:share=0.3,spread=400")
    ),
}
GROUPS = {
    "vcube-ps": RunSpec(protocol="vcube-ps", nodes=16, workload="uniform:messages=2,subscribers=0.5"),
    "srpt": RunSpec(protocol="srpt-s", nodes=16, workload="uniform:messages=2,subscribers=0.4"),
}
#: Every member delivers what it takes, without a root.
FAULTY = {
    "repeated": RunSpec(
        protocol="vcube-ps", nodes=12, faults=("loss:share=0.1", "duplication:share=0.3", "partition:nodes=4,end=300")
    ),
    "crashed": RunSpec(protocol="vcube-ps", nodes=12, seed=2, faults=("crash:node=3,at=150,back=700,noticed=50",)),
    "locamu": RunSpec(protocol="locamu", nodes=15, seed=3, faults=("loss:share=0.2",)),
    "gossip": RunSpec(protocol="gossip-context", nodes=8, workload="brokered:messages=20", faults=("loss:share=0.1",)),
    "churn": RunSpec(
        protocol="vcube-ps", nodes=16, seed=5, workload="churn:size=8,messages=40,interval=60,session=300"
    ),
}
Measured = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def metered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Measured]:
    """Traces of all these runs, in buckets, beside what the meters said."""
    out = tmp_path_factory.mktemp("traces")
    measured: Measured = {}
    for name, spec in {**BROADCASTS, **GROUPS, **FAULTY}.items():
        result = simulate(spec, trace=True)
        assert result.trace is not None
        write_directory(result.trace.table(name), out / "experiment=meters" / name, bucket_rows=300)
        measured[name] = result.metrics
    return out, measured


@pytest.fixture(scope="module")
def trace(spark: SparkSession, metered: tuple[Path, Measured]) -> DataFrame:
    return read_traces(spark, metered[0]).cache()


def by_run(frame: DataFrame) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in frame.collect():
        assert row["experiment"] == "meters"
        found.setdefault(row["run"], []).append(row.asDict())
    return found


def histogram(rows: list[dict[str, Any]], value: str, count: str) -> dict[str, int]:
    return {str(row[value]): row[count] for row in rows}


def test_packets(trace: DataFrame, metered: tuple[Path, Measured]) -> None:
    found = by_run(M.packets(trace))
    for name in BROADCASTS:
        for metric in (
            "packets",
            "control_packets",
            "dropped_packets",
            "message_hops",
            "aggregated_packets",
            "aggregated_messages",
            "bytes",
        ):
            assert found[name][0][metric] == metered[1][name][metric], (name, metric)


def test_histograms(trace: DataFrame, metered: tuple[Path, Measured]) -> None:
    per_packet, sizes = by_run(M.messages_per_packet(trace)), by_run(M.packet_bytes(trace))
    barriers = by_run(M.barrier_sizes(trace))
    for name in BROADCASTS:
        assert histogram(per_packet[name], "messages", "packets") == metered[1][name]["messages_per_packet"]
        assert histogram(sizes[name], "bytes", "packets") == metered[1][name]["packet_bytes"]
    for name in (*BROADCASTS, *GROUPS):
        assert histogram(barriers[name], "dependencies", "messages") == metered[1][name]["dependencies"]


def test_latencies(trace: DataFrame, metered: tuple[Path, Measured]) -> None:
    received, delivered, held = (
        by_run(metric(trace)) for metric in (M.reception_latency, M.delivery_latency, M.hold_time)
    )
    for name in BROADCASTS:
        assert received[name][0]["receptions"] == metered[1][name]["receptions"]
        assert delivered[name][0]["deliveries"] == metered[1][name]["deliveries"]
        for found, metric in ((received, "reception_latency"), (delivered, "delivery_latency")):
            for part, value in metered[1][name][metric].items():
                assert found[name][0][part] == pytest.approx(value), (name, metric, part)
        assert held[name][0]["delayed"] == metered[1][name]["delayed_deliveries"]
        if name != "lossy":  # where some messages are received and never delivered
            wait = delivered[name][0]["mean"] - received[name][0]["mean"]
            assert held[name][0]["mean"] == pytest.approx(wait)


def test_the_meter_and_the_trace_agree_under_faults(trace: DataFrame, metered: tuple[Path, Measured]) -> None:
    sent, received, delivered, held = (
        by_run(metric(trace)) for metric in (M.packets, M.reception_latency, M.delivery_latency, M.hold_time)
    )
    for name in FAULTY:
        figures = metered[1][name]
        assert sent[name][0]["dropped_packets"] == figures["dropped_packets"], name
        assert (name == "churn") == (figures["dropped_packets"] == 0)
        packets = sent[name][0]["packets"] + sent[name][0]["control_packets"]
        assert packets == sum(figures["sent"].values()), name
        assert received[name][0]["receptions"] == figures["receptions"] + figures["relayed"], name
        assert delivered[name][0]["deliveries"] == figures["deliveries"], name
        for part, value in figures["delivery_latency"].items():
            assert delivered[name][0][part] == pytest.approx(value), (name, part)
        for part, value in figures["wait"].items():
            assert held[name][0][part] == pytest.approx(value), (name, part)


def test_buffers_and_queues(trace: DataFrame, metered: tuple[Path, Measured]) -> None:
    buffers, queues, load = (by_run(metric(trace)) for metric in (M.buffered, M.sending_queue, M.load))
    for name in BROADCASTS:
        assert counts(buffers[name], "buffered_max") == metered[1][name]["pending_max_by_node"]
        assert counts(load[name], "bundle_max") == metered[1][name]["bundle_max_by_node"]
        assert sum(row["bytes_sent"] for row in load[name]) == metered[1][name]["bytes"]
        assert sum(row["delivered"] for row in load[name]) >= metered[1][name]["deliveries"]
        if "queued_mean" in metered[1][name] and name != "timed":
            packets = sum(row["packets"] for row in queues[name])
            waited = sum(row["wait_mean"] * row["packets"] for row in queues[name])
            assert waited / packets == pytest.approx(metered[1][name]["queued_mean"])


def counts(rows: list[dict[str, Any]], value: str) -> dict[str, int]:
    found: dict[int, int] = {}
    for row in rows:
        found[row[value]] = found.get(row[value], 0) + 1
    return {str(key): found[key] for key in sorted(found)}


def test_paths(trace: DataFrame, metered: tuple[Path, Measured]) -> None:
    relayed, crossed = by_run(M.relays(trace)), by_run(M.hops(trace))
    for name in BROADCASTS:
        assert relayed[name][0]["false_positives"] == 0
        total = sum(row["hops"] * row["deliveries"] for row in crossed[name])
        assert total / sum(row["deliveries"] for row in crossed[name]) > 1
    assert relayed["vcube-ps"][0]["false_positives"] == metered[1]["vcube-ps"]["relayed"] == 0
    assert relayed["srpt"][0]["false_positives"] > 0


def test_the_overview_has_a_row_a_run(trace: DataFrame, metered: tuple[Path, Measured]) -> None:
    found = by_run(M.overview(trace))
    assert set(found) == set(metered[1])
    for name, rows in found.items():
        assert len(rows) == 1
        assert rows[0]["published"] == metered[1][name]["published"]
    assert found["aggregated"][0]["packets"] == metered[1]["aggregated"]["packets"]
    latency = metered[1]["aggregated"]["delivery_latency"]
    assert found["aggregated"][0]["delivery_p99"] == pytest.approx(latency["p99"])


def test_filters_count_for_the_topics_they_take(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        Row(0, Event.SUBSCRIBE, 1, topic="a/+"),
        Row(0, Event.SUBSCRIBE, 1, topic="a/+"),  # again: opened once
        Row(0, Event.SUBSCRIBE, 2, topic="a/#"),
        Row(0, Event.SUBSCRIBE, 3, topic="#"),
        Row(0, Event.PUBLISH, 0, topic="a/b", source=0, seq=1),
        Row(0, Event.PUBLISH, 0, topic="a/b/c", source=0, seq=1),
        *(
            Row(1, Event.RECEIVE, node, topic=topic, source=0, seq=1)
            for node in (1, 2, 3)
            for topic in ("a/b", "a/b/c")
        ),
        Row(2, Event.UNSUBSCRIBE, 1, topic="a/+"),
        Row(3, Event.RECEIVE, 1, topic="a/b", source=0, seq=1),
    ]
    write_trace(table(rows), tmp_path / "run.parquet")
    (found,) = M.relays(read_traces(spark, tmp_path / "run.parquet")).collect()
    assert (found["receptions"], found["false_positives"], found["relays"]) == (7, 2, 1)


def test_times_of_the_wall_clock_are_in_milliseconds(spark: SparkSession) -> None:
    start = 1_700_000_000_000_000
    rows = [
        (start, "publish", 0, "t", 0, 1, None),
        (start + 2_500, "receive", 1, "t", 0, 1, None),
        (start + 4_000, "deliver", 1, "t", 0, 1, 1_500),
    ]
    frame = spark.createDataFrame(
        rows, "time_us LONG, event STRING, node INT, topic STRING, source INT, seq LONG, held_us LONG"
    )
    (latency,) = antecede.spark.metrics(frame, "delivery-latency").collect()
    assert (latency["mean"], latency["max"], latency["unit"], latency["run"]) == (4.0, 4.0, "ms", "run")
    (whole,) = antecede.spark.metrics(frame).collect()
    assert (whole["reception_mean"], whole["hold_mean"], whole["unit"]) == (2.5, 1.5, "ms")
    simulated = frame.withColumn("time_us", F.col("time_us") - start)
    (latency,) = antecede.spark.metrics(simulated, "delivery-latency").collect()
    assert (latency["mean"], latency["unit"]) == (0.004, "u.t.")


def test_what_cannot_be_read_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no traces"):
        read_traces(spark, tmp_path)
    write_trace(
        table([Row(0, Event.PUBLISH, 0, topic="a", source=0, seq=seq) for seq in range(1, 2000)]),
        tmp_path / "x.parquet",
    )
    data = bytearray((tmp_path / "x.parquet").read_bytes())
    for place in range(8, len(data) // 2):
        data[place] ^= 0x5A
    (tmp_path / "x.parquet").write_bytes(data)
    with pytest.raises(UsageError, match=r"x\.parquet': cannot be read") as caught, reading():
        M.barrier_sizes(read_traces(spark, tmp_path)).collect()
    assert "\n" not in str(caught.value)


def test_filters_take_the_topics_they_take_at_a_node(spark: SparkSession) -> None:
    frame = spark.createDataFrame(list(EXAMPLES), "filter string, topic string, expected boolean")
    found = frame.withColumn("pattern", M._pattern(F.col("filter"))).withColumn("taken", F.expr("topic rlike pattern"))
    assert [row.asDict() for row in found.where("taken <> expected").collect()] == []
