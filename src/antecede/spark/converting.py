"""Makes traces of what other systems record: messages with named columns, dumps of Kafka and NATS, OpenTelemetry spans.

    trace = trace_from_messages(published, delivered, id="sha", topic="repo", sender="author", causes="parents")
    antecede.spark.audit(trace).show()

Names of senders and receivers become node numbers, in the order of the names (`node_names` has the list). The messages
of a sender are numbered by time in each topic, as a trace needs them. Rows stand in the order of their times; of rows
with one time, publications stand first. So clocks of different machines should agree better than messages travel:
otherwise a delivery seems to precede its publication, and `no-invention` says so.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as W
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StructType, TimestampNTZType, TimestampType

from antecede.core import UsageError
from antecede.spark.quoting import column_of
from antecede.trace.schema import payload_digest

#: The columns of a dump of Kafka and of JetStream, for `trace_from_messages(…, **KAFKA)`.
KAFKA: Final[Mapping[str, Any]] = MappingProxyType(
    {"id": ("topic", "partition", "offset"), "topic": "topic", "time": "timestamp"}
)
NATS: Final[Mapping[str, Any]] = MappingProxyType({"id": ("stream", "sequence"), "topic": "subject", "time": "time"})

_ROW_OF: Final = {"subscribe": 0, "publish": 1, "deliver": 2}


def trace_from_messages(
    published: DataFrame,
    delivered: DataFrame,
    *,
    id: str | Sequence[str] = "id",
    topic: str = "topic",
    sender: str = "sender",
    receiver: str = "receiver",
    time: str = "time",
    causes: str | None = None,
    payload: str | None = None,
    owed: bool = False,
    run: str = "run",
) -> DataFrame:
    """Return a trace of messages and their deliveries, for `audit`, `metrics` and `df.write.parquet`.

    `published` has a row for each message, with the columns `id` (one or several), `topic`, `sender` and `time`.
    `delivered` has a row for each delivery, with the columns `id`, `receiver` and `time`. A time is a timestamp, or
    microseconds since 1970. `causes`: a column of `published` with the ids of messages that come before it, an array of
    text (several columns of an id joined by "/") or of structs with the columns of the id. Causes that were not
    published are left out. `payload`: a column of both, by which contents are compared. `owed`: a receiver that has a
    message of a topic should have all messages of the topic.
    """
    ids = (id,) if isinstance(id, str) else tuple(id)
    _check(published, "published", (*ids, topic, sender, time, *filter(None, (causes, payload))))
    _check(delivered, "delivered", (*ids, receiver, time, *filter(None, (payload,))))
    messages = published.select(
        _joined([column_of(name) for name in ids]).alias("id"),
        column_of(topic).cast("string").alias("topic"),
        column_of(sender).cast("string").alias("name"),
        _time_us(published, time).alias("time_us"),
        _causes(published, causes, ids).alias("causes"),
        _digest(payload).alias("digest"),
    )
    deliveries = delivered.select(
        _joined([column_of(name) for name in ids]).alias("id"),
        column_of(receiver).cast("string").alias("name"),
        _time_us(delivered, time).alias("time_us"),
        _digest(payload).alias("digest"),
    )
    return _trace(messages, deliveries, owed=owed, run=run)


def trace_from_spans(spans: DataFrame, *, owed: bool = False, run: str = "run") -> DataFrame:
    """Return a trace of OpenTelemetry spans, by the semantic conventions for messaging.

    Columns: `trace_id`, `span_id`, `parent_span_id`, `kind` (`PRODUCER` and `CONSUMER` count, also as 4 and 5 or with
    the prefix `SPAN_KIND_`), `start_time_unix_nano`, `attributes` (map), `resource_attributes` (map), `links` (array of
    structs with `trace_id` and `span_id`). A producer span publishes a message on `messaging.destination.name`, in the
    name of its resource's `service.name`. A consumer span delivers the messages of the producer spans that it links to,
    or that of its parent. Links of a producer span are the dependencies of its message: to other producer spans, or to
    consumer spans, which stand for what they consumed.
    """
    _check(spans, "spans", ("trace_id", "span_id", "parent_span_id", "kind", "start_time_unix_nano"))
    _check(spans, "spans", ("attributes", "resource_attributes", "links"))
    kind = F.regexp_replace(F.upper(F.col("kind").cast("string")), "^SPAN_KIND_", "")
    chosen = spans.select(
        F.concat_ws("/", "trace_id", "span_id").alias("id"),
        F.when(F.col("parent_span_id") != "", F.concat_ws("/", "trace_id", "parent_span_id")).alias("parent"),
        F.when(kind.isin("PRODUCER", "4"), "producer").when(kind.isin("CONSUMER", "5"), "consumer").alias("kind"),
        F.floor(F.col("start_time_unix_nano") / 1000).cast("long").alias("time_us"),
        F.element_at("attributes", F.lit("messaging.destination.name")).alias("topic"),
        F.element_at("resource_attributes", F.lit("service.name")).alias("name"),
        F.transform("links", lambda link: F.concat_ws("/", link["trace_id"], link["span_id"])).alias("links"),
    ).where(F.col("kind").isNotNull())
    producers = chosen.where("kind = 'producer'")
    sent = producers.select(F.col("id").alias("message"))
    linked = F.explode(F.array_distinct(F.concat(F.coalesce("links", F.array()), F.array_compact(F.array("parent")))))
    consumed = (
        chosen.where("kind = 'consumer'")
        .select("id", "name", "time_us", linked.alias("message"))
        .join(sent, "message", "left_semi")
    )
    # What a link names: a message, or by a consumer span the messages that it consumed.
    stands_for = sent.select(F.col("message").alias("link"), "message").unionByName(
        consumed.select(F.col("id").alias("link"), "message")
    )
    causes = (
        producers.select("id", F.explode("links").alias("link"))
        .join(stands_for, "link")
        .groupBy("id")
        .agg(F.sort_array(F.collect_set("message")).alias("causes"))
    )
    messages = producers.join(causes, "id", "left").select(
        "id", "topic", "name", "time_us", "causes", F.lit(None).cast("long").alias("digest")
    )
    deliveries = consumed.select(
        F.col("message").alias("id"), "name", "time_us", F.lit(None).cast("long").alias("digest")
    )
    return _trace(messages, deliveries, owed=owed, run=run)


def node_names(trace: DataFrame) -> dict[int, str]:
    """The names of a trace's nodes by number, from the column `note`."""
    named = trace.where(F.col("note").startswith(_NAMED)).select("node", "note").distinct()
    return {row.node: row.note.removeprefix(_NAMED) for row in named.collect()}


#: How the note begins that names a node.
_NAMED: Final = "node "


def _trace(messages: DataFrame, deliveries: DataFrame, *, owed: bool, run: str) -> DataFrame:
    names = messages.select("name").union(deliveries.select("name")).distinct()
    nodes = names.select("name", (F.row_number().over(W.orderBy("name")) - 1).alias("node"))
    count = F.row_number().over(W.partitionBy("topic", "source").orderBy("time_us", "id"))
    numbered = messages.join(nodes, "name").withColumnRenamed("node", "source").withColumn("seq", count.cast("long"))
    name = F.struct(F.col("topic"), F.col("source"), F.col("seq"))
    caused = (
        numbered.select("id", F.explode("causes").alias("cause"))
        .join(numbered.select(F.col("id").alias("cause"), name.alias("dep")), "cause")
        .groupBy("id")
        .agg(F.sort_array(F.collect_set("dep")).alias("deps"))
    )
    note = F.concat(F.lit(_NAMED), F.col("name")).alias("note")
    columns = ["event", "time_us", "node", "topic", "source", "seq", "deps", "note", "digest"]
    none = F.lit(None)
    published = numbered.join(caused, "id", "left").select(
        F.lit("publish").alias("event"), "time_us", F.col("source").alias("node"), *columns[3:7], note, "digest"
    )
    taken = deliveries.join(nodes, "name").join(numbered.select("id", "topic", "source", "seq"), "id")
    given = taken.select(F.lit("deliver").alias("event"), "time_us", "node", "topic", "source", "seq", note, "digest")
    kinds = published.schema
    rows = published.unionByName(given, allowMissingColumns=True)
    if owed:
        began = numbered.agg(F.min("time_us").alias("began"))
        subscribed = taken.select("node", "name", "topic").distinct().crossJoin(began)
        subscribed = subscribed.select(
            F.lit("subscribe").alias("event"),
            F.col("began").alias("time_us"),
            "node",
            "topic",
            *(none.cast(kinds[name].dataType).alias(name) for name in ("source", "seq", "deps", "digest")),
            note,
        )
        rows = rows.unionByName(subscribed)
    rank = F.coalesce(*(F.when(F.col("event") == event, at) for event, at in _ROW_OF.items()))
    order = W.orderBy("time_us", rank, "node", "topic", "source", "seq")
    return rows.select(
        F.lit(run).alias("run"), *columns, (F.row_number().over(order) - 1).cast("long").alias("row")
    ).orderBy("row")


def _check(frame: DataFrame, argument: str, names: Sequence[str]) -> None:
    for name in names:
        if name not in frame.columns:
            there = ", ".join(frame.columns)
            raise UsageError(argument, name, f"is not among the columns ({there})", "name the column, or rename it")


def _joined(columns: Sequence[Column]) -> Column:
    return F.concat_ws("/", *(column.cast("string") for column in columns))


def _time_us(frame: DataFrame, name: str) -> Column:
    kind = frame.schema[name].dataType
    if isinstance(kind, (TimestampType, TimestampNTZType)):
        return F.unix_micros(column_of(name).cast("timestamp"))
    if not isinstance(kind, LongType):
        raise UsageError(
            "time", name, f"is {kind.simpleString()}", "give a timestamp, or microseconds since 1970 as bigint"
        )
    return column_of(name)


def _causes(frame: DataFrame, name: str | None, ids: Sequence[str]) -> Column:
    if name is None:
        return F.array().cast("array<string>")
    kind = frame.schema[name].dataType
    if not isinstance(kind, ArrayType):
        raise UsageError("causes", name, f"is {kind.simpleString()}", "give an array of ids")
    if isinstance(kind.elementType, StructType):
        return F.transform(column_of(name), lambda one: _joined([one[part] for part in ids]))
    return column_of(name).cast("array<string>")


def _digest(payload: str | None) -> Column:
    if payload is None:
        return F.lit(None).cast("long")

    def digest(content: bytes | None) -> int | None:
        return None if content is None else payload_digest(bytes(content))

    return F.udf(digest, "long")(column_of(payload).cast("binary"))
