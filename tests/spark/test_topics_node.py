"""Topics through a running node: read by its URL, written once, however often a task or a batch is tried."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from antecede.core import AntecedeError, UsageError
from antecede.core.errors import DeniedError, RefusedError, UnreachableError
from antecede.spark.topics.options import Where, sink_options, source_options
from antecede.spark.topics.sink import TopicStreamWriter, TopicWriter
from antecede.spark.topics.stores import open_store
from antecede.wire.security import init_certificates
from antecede.wire.security.tokens import new_token

from .nodes import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def table(spark: SparkSession, cluster: Cluster, topics: str, **options: str) -> DataFrame:
    return spark.read.format("antecede").options(url=cluster.url(), topics=topics, **options).load()


def bodies(spark: SparkSession, cluster: Cluster, topic: str) -> list[str]:
    """In the order of delivery."""
    return [row.payload.decode() for row in table(spark, cluster, topic).collect()]


def write(frame: DataFrame, cluster: Cluster, **options: str) -> None:
    frame.write.format("antecede").mode("append").options(url=cluster.url(), **options).save()


def test_a_node_gives_what_its_journal_holds(session: SparkSession, cluster: Cluster) -> None:
    cluster.publish([(f"rooms/{number % 3}", f"{number}".encode()) for number in range(30)])
    asked = table(session, cluster, "rooms/#", rowsPerPartition="7")
    read = session.read.format("antecede").options(journal=str(cluster.journal()), topics="rooms/#").load()
    assert asked.collect() == read.collect()
    first = asked.collect()[0]
    later = table(session, cluster, "rooms/1", since=f"{first.delivered.isoformat()}Z", until=str(first.position + 9))
    assert [row.payload for row in later.collect()] == [b"1", b"4", b"7"]


def test_rows_arrive_in_order_with_what_belongs_to_them(session: SparkSession, cluster: Cluster) -> None:
    cluster.publish([("cause", b"why")])
    (cause,) = table(session, cluster, "cause").select("source", "seq").collect()
    rows = [
        (f"written/{number % 2}", f"{number}", {"n": str(number)}, [(cause.source, cause.seq)] if number == 3 else None)
        for number in range(200)
    ]
    kinds = "topic STRING, payload STRING, headers MAP<STRING, STRING>, after ARRAY<STRUCT<source: INT, seq: BIGINT>>"
    write(session.createDataFrame(rows, kinds).repartition(1), cluster)
    found = table(session, cluster, "written/+").collect()
    assert sorted(int(row.payload) for row in found) == list(range(200))
    assert all(row.headers == {"n": row.payload.decode()} for row in found)
    assert all(row.topic == f"written/{int(row.payload) % 2}" for row in found)


def test_a_task_that_fails_leaves_nothing_behind(session: SparkSession, cluster: Cluster) -> None:
    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0 and context.partitionId() == 1:
            raise RuntimeError("on purpose")

    frame = session.range(0, 3000, 1, 3).selectExpr("CAST(id AS STRING) AS payload")
    write(frame.mapInArrow(fail_once, "payload STRING"), cluster, topic="retried")
    assert [int(body) for body in bodies(session, cluster, "retried")] == list(range(3000))


def test_a_job_with_a_name_publishes_once(session: SparkSession, cluster: Cluster) -> None:
    frame = session.createDataFrame([("a",), ("b",)], "payload STRING").repartition(1)
    for batch in ("1", "1", "2"):
        write(frame, cluster, topic="named", producer="nightly", batch=batch)
    assert sorted(bodies(session, cluster, "named")) == ["a", "a", "b", "b"]


def test_a_stream_through_spark_and_back(session: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    """The second batch is run again after its commit was lost, with a node that was killed in between."""
    into, back = f"in/{tmp_path.name}", f"back/{tmp_path.name}"  # new ones if Spark has the test run again

    def run() -> StreamingQuery:
        stream = session.readStream.format("antecede").options(url=cluster.url(), topics=into, since="earliest").load()
        query = (
            stream.selectExpr(f"'{back}' AS topic", "concat('re: ', CAST(payload AS STRING)) AS payload", "deps")
            .writeStream.format("antecede")
            .options(url=cluster.url(), checkpointLocation=str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query

    cluster.publish([(into, b"0"), (into, b"1")])
    run()
    cluster.publish([(into, b"2"), (into, b"3")])
    run()
    for name in ("1", ".1.crc"):
        (tmp_path / "commits" / name).unlink(missing_ok=True)
    cluster.run(cluster.inner.kill(0))
    cluster.run(cluster.inner.start(0))
    query = run()
    assert query.recentProgress[0].batchId == 1
    assert query.recentProgress[0].numInputRows == 2
    assert bodies(session, cluster, back) == [f"re: {number}" for number in range(4)]


def test_the_sink_waits_for_a_node_that_is_down_when_a_batch_begins(cluster: Cluster) -> None:
    """Spark makes a writer for each batch. It returns when the node is back, instead of failing the query."""
    options = sink_options({"url": cluster.url(), "topic": "b", "reconnect": "120"})
    cluster.run(cluster.inner.kill(0))
    with ThreadPoolExecutor(1) as thread:
        made = thread.submit(TopicStreamWriter, options, TEXT, overwrite=False)
        with pytest.raises(UnreachableError):  # a batch query is told at once; by then the other has dialled too
            TopicWriter(options, TEXT, overwrite=False)
        cluster.run(cluster.inner.start(0))
        assert made.result() is not None


# -- tables of the catalog --------------------------------------------------------------------------------------------


@pytest.fixture
def catalog(session: SparkSession) -> Iterator[SparkSession]:
    yield session
    for one in session.catalog.listTables():
        session.sql(f"DROP TABLE IF EXISTS {one.name}")


def test_a_table_keeps_its_options(catalog: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    kept = f"kept/{tmp_path.name}"
    cluster.publish([(f"{kept}/a", b"1"), (f"{kept}/b", b"2"), ("other", b"3")])
    place = f"url '{cluster.url()}', topics '{kept}/#'"
    catalog.sql(f"CREATE TABLE made USING antecede OPTIONS ({place}) TBLPROPERTIES ('team' = 'a')")
    catalog.catalog.createTable("called", source="antecede", url=cluster.url(), topics=f"{kept}/a")
    assert [bytes(row.payload) for row in catalog.sql("SELECT payload FROM made").collect()] == [b"1", b"2"]
    assert [row.topic for row in catalog.table("called").collect()] == [f"{kept}/a"]
    narrowed = catalog.sql(f"SELECT topic FROM made WITH (topics = '{kept}/b')")
    assert [row.topic for row in narrowed.collect()] == [f"{kept}/b"]
    query = catalog.readStream.option("since", "earliest").table("made").writeStream.format("memory")
    query.queryName("streamed").trigger(availableNow=True).start().awaitTermination()
    assert catalog.table("streamed").count() == 2


def test_what_save_as_table_left_is_read(catalog: SparkSession, cluster: Cluster) -> None:
    frame = catalog.createDataFrame([("saved/1", "a"), ("saved/2", "b")], "topic STRING, payload STRING")
    frame.write.format("antecede").mode("append").option("url", cluster.url()).saveAsTable("saved")
    place = f"url = '{cluster.url()}', topics = 'saved/#'"
    rows = catalog.sql(f"SELECT * FROM saved WITH ({place})").collect()
    assert [(row.topic, row.payload) for row in rows] == [("saved/1", "a"), ("saved/2", "b")]
    with pytest.raises(PySparkException, match=r"SELECT … FROM t WITH"):
        catalog.table("saved").collect()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("topics '#', token 'secret'", "token '…': would be readable"),
        ("topics '#', toppics 'a'", "option 'toppics': is not one for reading topics"),
    ],
)
def test_wrong_tables(catalog: SparkSession, cluster: Cluster, options: str, said: str) -> None:
    with pytest.raises(PySparkException, match=said):
        catalog.sql(f"CREATE TABLE wrong USING antecede OPTIONS (url '{cluster.url()}', {options})")


# -- what goes wrong is said before anything runs ---------------------------------------------------------------------


TEXT = StructType([StructField("payload", StringType())])


def column(name: str, kind: DataType | None = None) -> StructType:
    """Text with one more column."""
    return StructType([*TEXT, StructField(name, kind or StringType())])


@pytest.mark.parametrize(
    ("schema", "options", "said"),
    [
        (StructType([StructField("topic", StringType())]), {}, "column 'payload': is missing"),
        (TEXT, {}, "column 'topic': is missing"),
        (column("topic"), {"topic": "b"}, "stands beside a column topic"),
        (StructType([StructField("payload", LongType())]), {"topic": "b"}, "is bigint, not binary or string"),
        (column("color"), {"topic": "b"}, "column 'color': is not one of a message"),
        (column("headers"), {"topic": "b"}, "column 'headers': is string, not map<string,string>"),
        (TEXT, {"topic": "b/#"}, "has a wildcard"),
        (TEXT, {"topic": "b", "journal": "n0"}, "journal 'n0': is only read"),
        (TEXT, {"topic": "b", "since": "3"}, "option 'since': is not one for writing topics"),
        (TEXT, {"topic": "b", "batch": "3"}, "numbers a batch without a producer"),
        (TEXT, {"topic": "b", "url": "antecede://127.0.0.1:1"}, "127.0.0.1:1 cannot be reached"),
        (TEXT, {"topic": "b", "cluster": "theirs"}, "this is another cluster"),
    ],
)
def test_wrong_writes(cluster: Cluster, schema: StructType, options: dict[str, str], said: str) -> None:
    with pytest.raises(AntecedeError, match=said):
        TopicWriter(sink_options({"url": cluster.url()} | options), schema, overwrite=False)


def test_wrong_rows(cluster: Cluster, session: SparkSession) -> None:
    frame = session.sql("SELECT 'x' AS payload UNION ALL SELECT NULL")
    with pytest.raises(PySparkException, match="column 'payload': is null in a row"):
        write(frame, cluster, topic="b")
    with pytest.raises(PySparkException, match="column 'topic': is empty in a row"):
        write(session.sql("SELECT '' AS topic, 'x' AS payload"), cluster)
    with pytest.raises(PySparkException, match="cannot remove what was published"):
        frame.write.format("antecede").mode("overwrite").options(url=cluster.url(), topic="b").save()


def test_wrong_reads(cluster: Cluster, session: SparkSession) -> None:
    reader = session.read.format("antecede").option("topics", "#")
    with pytest.raises(PySparkException, match=r"127\.0\.0\.1:1 cannot be reached"):
        reader.option("url", "antecede://127.0.0.1:1").load()
    for options, said in [
        ({"url": f"{cluster.url()},127.0.0.1:2", "oneNode": "true"}, "names several nodes"),
        ({"url": "http://a"}, "is not the address of a node"),
        ({"url": f"{cluster.url()},nowhere:x"}, "nowhere:x"),
    ]:
        with pytest.raises(UsageError, match=said):
            source_options({"topics": "#", **options})


def test_tls_and_tokens(tmp_path: Path) -> None:
    certificates, tokens = tmp_path / "certificates", tmp_path / "tokens.json"
    init_certificates(certificates, cluster="antecede", nodes=("n0",))
    token = new_token(tokens, "spark", subscribe=("rooms/#",))
    settings = {"tls": str(certificates), "certificate": "n0", "tokens": str(tokens)}
    with Cluster(tmp_path / "cluster", **settings) as cluster:
        right = Where(url=cluster.url(), token=token, tls=str(certificates))
        with open_store(right, ("rooms/#",), patient=False) as store:
            store.check()
            assert store.extent().position == 0
        with (
            pytest.raises(DeniedError, match="may not subscribe to '#'"),
            open_store(right, ("#",), patient=False) as store,
        ):
            store.check()
        for where, kind, said in [
            (
                Where(url=cluster.url(), token="worn out", tls=str(certificates)),
                RefusedError,
                "token is not known here",
            ),
            (Where(url=cluster.url(), token=token), UnreachableError, "cannot be reached"),
            (Where(url=cluster.url(), token=token, tls=str(tmp_path / "none")), UsageError, "does not exist"),
        ]:
            with pytest.raises(kind, match=said), open_store(where, ("rooms/#",), patient=False):
                pass
