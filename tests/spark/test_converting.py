"""Traces of what other systems record: dumps with named columns, and OpenTelemetry spans."""

import pytest
from pyspark.sql import DataFrame, SparkSession

import antecede.spark
from antecede.audit import Report, Verdict
from antecede.audit import audit as judge
from antecede.core import UsageError
from antecede.spark import trace_from_messages, trace_from_spans
from antecede.spark.converting import KAFKA, NATS, node_names
from antecede.spark.frames import as_traces
from antecede.trace import Event
from antecede.trace.schema import Row


def rows_of(trace: DataFrame) -> list[Row]:
    events = {event.name.lower(): event for event in Event}
    return [
        Row(
            row.time_us,
            events[row.event],
            row.node,
            topic=row.topic or "",
            source=-1 if row.source is None else row.source,
            seq=-1 if row.seq is None else row.seq,
            deps=tuple((dep.topic, dep.source, dep.seq) for dep in row.deps or ()),
            digest=-1 if row.digest is None else row.digest,
        )
        for row in as_traces(trace).orderBy("row").collect()
    ]


def judged(trace: DataFrame) -> Report:
    return judge(rows_of(trace))


RECORDS = "topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, app STRING, value STRING, after ARRAY<STRING>"
CONSUMED = "topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, app STRING, value STRING"


def test_a_dump_of_kafka(spark: SparkSession) -> None:
    """A reader sees the shipment before the order that it is for, and never the second order."""
    stamp = "TIMESTAMP '2026-11-16 09:00:{:02d}'"
    sent = [("orders", 0, 0, 1, "shop", "o1", []), ("ships", 0, 0, 2, "store", "s1", ["orders/0/0", "gone/0/1"])]
    sent += [("orders", 0, 1, 3, "shop", "o2", [])]
    read = [("ships", 0, 0, 5, "page", "s1"), ("orders", 0, 0, 6, "page", "changed"), ("orders", 0, 1, 7, "log", "o2")]

    def frame(rows: list[tuple[object, ...]], kinds: str) -> DataFrame:
        drafts = spark.createDataFrame(rows, kinds.replace("timestamp TIMESTAMP", "at INT"))
        return drafts.selectExpr("*", f"timestampadd(SECOND, at, {stamp.format(0)}) AS timestamp").drop("at")

    named = {**KAFKA, "sender": "app", "receiver": "app", "causes": "after", "payload": "value"}
    trace = trace_from_messages(frame(sent, RECORDS), frame(read, CONSUMED), **named, owed=True)
    report = judged(trace)
    assert report.violated == ("causal", "same-content", "complete", "agreement")
    assert report.rule("causal").violations == 1
    assert (report.rule("complete").violations, report.rule("fifo").verdict) == (2, Verdict.HELD)
    assert report.messages == report.deliveries == 3
    names = node_names(trace)
    assert [names[node] for node in sorted(names)] == ["log", "page", "shop", "store"]


def test_a_dump_of_jetstream(spark: SparkSession) -> None:
    """A message is named by its stream and sequence, its topic is the subject; a column may have a dot in its name."""
    named = "stream STRING, sequence LONG, subject STRING, time LONG, `client.name` STRING"
    sent = spark.createDataFrame(
        [
            ("EVENTS", 1, "orders.new", 1_000_000, "shop", []),
            ("EVENTS", 2, "ships.new", 2_000_000, "store", [("EVENTS", 1)]),
            ("AUDIT", 1, "log", 3_000_000, "shop", [("EVENTS", 2), ("EVENTS", 9)]),
        ],
        f"{named}, causes ARRAY<STRUCT<stream: STRING, sequence: LONG>>",
    )
    read = spark.createDataFrame(
        [
            ("EVENTS", 2, "ships.new", 4_000_000, "page"),
            ("EVENTS", 1, "orders.new", 5_000_000, "page"),
            ("AUDIT", 1, "log", 6_000_000, "page"),
            ("AUDIT", 1, "log", 7_000_000, "page"),
        ],
        named,
    )
    trace = trace_from_messages(
        sent, read, **NATS, sender="client.name", receiver="client.name", causes="causes", run="jetstream"
    )
    report = judged(trace)
    assert set(report.violated) == {"causal", "exactly-once"}
    assert (report.messages, report.deliveries) == (3, 4)
    assert (report.rule("causal").violations, report.rule("exactly-once").violations) == (1, 1)
    published = [row for row in rows_of(trace) if row.event is Event.PUBLISH]
    assert [(row.topic, row.time_us, row.deps) for row in published] == [
        ("orders.new", 1_000_000, ()),
        ("ships.new", 2_000_000, (("orders.new", 1, 1),)),
        ("log", 3_000_000, (("ships.new", 2, 1),)),
    ]
    assert node_names(trace) == {0: "page", 1: "shop", 2: "store"}


SPANS = (
    "trace_id STRING, span_id STRING, parent_span_id STRING, kind STRING, start_time_unix_nano LONG, "
    "attributes MAP<STRING, STRING>, resource_attributes MAP<STRING, STRING>, "
    "links ARRAY<STRUCT<trace_id: STRING, span_id: STRING>>"
)


def span(
    name: str, kind: str, at_ms: int, service: str, *, topic: str = "", parent: str = "", links: tuple[str, ...] = ()
) -> tuple[object, ...]:
    attributes = {"messaging.destination.name": topic} if topic else {}
    start = 1_700_000_000_000_000_000 + at_ms * 1_000_000
    return "t", name, parent, kind, start, attributes, {"service.name": service}, [("t", link) for link in links]


def test_spans_of_open_telemetry(spark: SparkSession) -> None:
    spans = [
        span("ask", "SPAN_KIND_PRODUCER", 0, "shop", topic="questions"),
        span("work", "INTERNAL", 1, "shop", parent="ask"),
        span("hear", "CONSUMER", 2, "desk", links=("ask",)),
        span("answer", "4", 3, "desk", topic="answers", links=("hear",)),
        span("early", "5", 4, "page", parent="answer"),
        span("late", "CONSUMER", 5, "page", links=("ask", "work")),
    ]
    trace = trace_from_spans(spark.createDataFrame(spans, SPANS))
    report = judged(trace)
    assert report.violated == ("causal",)
    assert (report.messages, report.deliveries) == (2, 3)
    example = report.rule("causal").example
    assert example is not None
    assert example.messages == (("questions", 2, 1), ("answers", 0, 1))
    assert [row.deps for row in rows_of(trace) if row.topic == "answers" and row.event is Event.PUBLISH] == [
        (("questions", 2, 1),)
    ]
    (latency,) = antecede.spark.metrics(trace, "delivery-latency").collect()
    assert (latency["deliveries"], latency["max"], latency["unit"]) == (3, 5.0, "ms")


def test_columns_that_are_not_there(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 'a' AS id, 't' AS topic, 'x' AS sender, 1 AS time")
    with pytest.raises(UsageError, match="delivered 'receiver': is not among the columns"):
        trace_from_messages(frame, frame)
    with pytest.raises(UsageError, match="time 'time': is int; give a timestamp, or microseconds"):
        trace_from_messages(frame, frame.withColumnRenamed("sender", "receiver"))
    times = frame.withColumn("time", frame.time.cast("long"))
    with pytest.raises(UsageError, match="causes 'sender': is string; give an array of ids"):
        trace_from_messages(times, times.withColumnRenamed("sender", "receiver"), causes="sender")
