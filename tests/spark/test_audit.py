"""The audit as Spark tasks: thousands of runs in one job, large runs by bucket, errors that name the file."""

import shutil
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import antecede.spark
from antecede.audit import ALL_RULES, Question
from antecede.core import UsageError
from antecede.report import frame_report
from antecede.spark.audit_targets import find_targets
from antecede.spark.frames import read_traces
from antecede.spark.read_errors import reading
from antecede.spark.sweep import sweep
from antecede.spark.sweep_directory import find_traces
from antecede.spark.verdicts import AUDIT_SCHEMA, audit, judge, verdict_table
from antecede.trace import SCHEMA, Row
from antecede.trace.directory import STORED, write_directory
from antecede.trace.files import write_trace
from tests.audit.judged import same_verdict
from tests.audit.traces import random_trace, table

from .small import Small


def write_random(directory: Path, seeds: range, asked: Question) -> dict[str, list[Row]]:
    """Random traces under the directory, some as files, some in one bucket, some in several."""
    written: dict[str, list[Row]] = {}
    directory.mkdir()
    for seed in seeds:
        rows = random_trace(Random(seed))
        name = f"{seed:06d}"
        if seed % 3 == 0:
            write_trace(table(rows, name), directory / f"{name}.parquet")
        else:
            few = max(1, len(rows) // 4) if seed % 30 == 1 else 10**6
            write_directory(table(rows, name), directory / name, bucket_rows=few)
        written[name] = rows
    return written


@pytest.mark.parametrize("across_topics", [True, False])
def test_many_runs_in_one_job(spark: SparkSession, tmp_path: Path, across_topics: bool) -> None:
    asked = Question(across_topics=across_topics, rules=ALL_RULES)
    written = write_random(tmp_path / "traces", range(200_000, 200_100), asked)
    verdicts = judge(spark, find_targets([tmp_path / "traces"]), asked)
    assert len(verdicts) == len(written)
    for verdict in verdicts:
        same_verdict(written[verdict.target.name], asked, verdict.outcome)


@pytest.mark.slow
def test_thousands_of_runs_in_one_job(spark: SparkSession, tmp_path: Path) -> None:
    asked = Question(rules=ALL_RULES)
    written = write_random(tmp_path / "traces", range(300_000, 304_000), asked)
    for verdict in judge(spark, find_targets([tmp_path / "traces"]), asked):
        same_verdict(written[verdict.target.name], asked, verdict.outcome)


def test_a_dataframe_is_judged_as_its_files_are(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever wrote it: Spark's own types, no column that does not apply, rows in any order, −1 for null."""
    asked = Question(rules=ALL_RULES, examples=3)
    written = write_random(tmp_path / "traces", range(400_000, 400_012), asked)
    frame = read_traces(spark, tmp_path / "traces").withColumn("source", F.coalesce("source", F.lit(-1)).cast("long"))
    frame = frame.drop("experiment", "packet", "bundle", "bytes", "hops", "held_us").orderBy(F.rand(1))
    columns = ["run", "rule", "verdict", "checked", "violations", "reason", "example", "examples"]
    by_files = audit(spark, tmp_path / "traces", rules=ALL_RULES, examples=3).select(*columns)
    expected = by_files.orderBy("run", "rule").collect()
    assert len({row.run for row in expected}) == len(written)
    assert any(len(row.examples or ()) > 1 for row in expected)
    assert antecede.spark.audit(frame, rules=ALL_RULES, examples=3).select(*columns).orderBy(
        "run", "rule"
    ).collect() == (expected)
    frame.write.parquet(str(tmp_path / "theirs"))
    assert len(find_traces(tmp_path / "theirs")) == 1
    verdicts = judge(spark, find_targets([tmp_path / "theirs"]), asked)
    again = spark.createDataFrame(verdict_table(verdicts)).select(*columns).orderBy("run", "rule").collect()
    assert again == expected


def test_a_page_of_a_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    start = 1_700_000_000_000_000
    rows = [
        (start, "publish", 0, "t", 0, 1),
        (start + 900, "deliver", 1, "t", 0, 1),
        (start + 950, "deliver", 1, "t", 0, 1),
    ]
    frame = spark.createDataFrame(rows, "time_us LONG, event STRING, node INT, topic STRING, source INT, seq LONG")
    text = frame_report(frame, tmp_path / "page.html", title="A chat").read_text()
    assert "A promise of order was broken in 1 of 1 audited run." in text
    assert "A violation of exactly-once" in text
    assert "node 1 delivered t/0.1 twice" in text
    assert "Delivery mean" in text


def test_a_dataframe_with_other_columns_is_refused(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="trace 'the DataFrame': lacks the column event"):
        antecede.spark.audit(spark.sql("SELECT 1L AS time_us, 1 AS node"))
    with pytest.raises(UsageError, match="has a column dep, which a trace does not have; drop or rename it"):
        antecede.spark.metrics(spark.sql("SELECT 1L AS time_us, 1 AS node, 'crash' AS event, 1 AS dep"))
    odd = spark.sql("SELECT 1L AS time_us, 1 AS node, 'explode' AS event")
    for query in (antecede.spark.audit(odd), antecede.spark.metrics(odd, "load")):
        with pytest.raises(UsageError, match="event 'explode': is not an event of a trace"), reading():
            query.collect()


def test_the_table_has_a_row_for_each_run_and_rule(spark: SparkSession, tmp_path: Path) -> None:
    asked = Question()
    write_random(tmp_path / "traces", range(400_000, 400_030), asked)
    frame = audit(spark, tmp_path / "traces")
    assert frame.columns == AUDIT_SCHEMA.names
    rows = frame.collect()
    expected = verdict_table(judge(spark, find_targets([tmp_path / "traces"]), asked)).to_pylist()
    assert [row.asDict(recursive=True) for row in rows] == expected
    by_verdict = {row["verdict"] for row in rows}
    assert by_verdict >= {"held", "violated", "unknown"}
    for row in rows:
        assert (row["example"] is not None) == (row["verdict"] == "violated")


def test_a_sweep_is_judged_with_and_without_traces(spark: SparkSession, tmp_path: Path) -> None:
    sweep(spark, [Small()], (1, 2), tmp_path / "traced", trace=True)
    sweep(spark, [Small()], (1, 2), tmp_path / "bare")
    verdicts = {}
    for name in ("traced", "bare"):
        found = judge(spark, find_targets([tmp_path / name]), Question())
        assert all(verdict.ok for verdict in found)
        assert {verdict.target.spec is None for verdict in found} == {name == "traced"}
        verdicts[name] = {verdict.target.name: verdict.outcome for verdict in found}
    assert len(verdicts["bare"]) == 8
    assert verdicts["traced"] == verdicts["bare"]


# -- what cannot be judged --------------------------------------------------------------------------------------------


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    write_directory(table(random_trace(Random(3))), tmp_path / "t" / "run", bucket_rows=5)
    return tmp_path / "t" / "run"


def audit_error(spark: SparkSession, path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        judge(spark, find_targets([path]), Question())
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_empty_directory(spark: SparkSession, tmp_path: Path) -> None:
    assert "holds no traces" in audit_error(spark, tmp_path)
    assert "no such file" in audit_error(spark, tmp_path / "not there")


def test_a_truncated_file(spark: SparkSession, trace: Path) -> None:
    file = trace / "deliveries-01.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    said = audit_error(spark, trace)
    assert str(file) in said
    assert "not a readable Parquet file" in said


def test_a_damaged_page(spark: SparkSession, trace: Path) -> None:
    file = trace / "deliveries-00.parquet"
    data = bytearray(file.read_bytes())
    for place in range(4, len(data) // 2):
        data[place] ^= 0xFF
    file.write_bytes(data)
    assert str(file) in audit_error(spark, trace)


def test_foreign_parquet(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "foreign.parquet")
    said = audit_error(spark, tmp_path)
    assert str(tmp_path / "foreign.parquet") in said
    assert "lacks the column time_us; a trace has the columns run, time_us, event" in said


def test_another_version(spark: SparkSession, tmp_path: Path) -> None:
    later = table([]).replace_schema_metadata({"antecede.trace": "99"})
    pq.write_table(later, tmp_path / "later.parquet")
    said = audit_error(spark, tmp_path)
    assert str(tmp_path / "later.parquet") in said
    assert "version 99" in said


def test_a_lost_and_a_strange_part(spark: SparkSession, trace: Path) -> None:
    shutil.copy(trace / "deliveries-00.parquet", trace / "deliveries-99.parquet")
    assert "deliveries-99.parquet': is no part" in audit_error(spark, trace)
    (trace / "deliveries-99.parquet").unlink()
    shutil.copy(trace / "deliveries-00.parquet", trace / "deliveries-01.parquet")
    assert "deliveries-01.parquet': belongs to another trace" in audit_error(spark, trace)
    (trace / "deliveries-01.parquet").unlink()
    assert "deliveries-01.parquet': is missing" in audit_error(spark, trace)
    (trace / "events.parquet").unlink()
    assert "events.parquet': is missing" in audit_error(spark, trace.parent)


def test_an_unknown_rule(spark: SparkSession, trace: Path) -> None:
    with pytest.raises(UsageError, match="there is no such rule"):
        judge(spark, find_targets([trace]), Question(rules=("fairness",)))


def test_a_trace_that_contradicts_itself_is_refused_and_the_others_judged(spark: SparkSession, tmp_path: Path) -> None:
    good, bad = random_trace(Random(10)), [row._replace(node=-1) for row in random_trace(Random(11))]
    write_trace(table(good), tmp_path / "good.parquet")
    write_trace(table(bad), tmp_path / "bad.parquet")
    by_run = {row["run"]: row for row in audit(spark, tmp_path).collect()}
    assert by_run["bad"]["verdict"] == "refused"
    assert "node numbers count from 0" in by_run["bad"]["reason"]
    assert by_run["good"]["verdict"] != "refused"


def test_the_schema_is_one() -> None:
    assert STORED.names == [*SCHEMA.names, "row"]
