"""Writes rows as messages: `df.write.format("antecede")` and `df.writeStream.format("antecede")`.

Tasks stage their rows at a node (`wire.bulk`), which publishes nothing yet. When all tasks are done, the driver
releases them: the node publishes them, part after part, as one batch with a producer and a number. So a task that fails
and is tried again leaves nothing behind. A batch appears whole or not at all. A batch that was published is not
published again, even if the driver died in between, or computed the batch anew with other rows or in another order.
With several nodes in `url`, each batch is published by one of them (`failover`).

The producer of a streaming query is the query's id, which its checkpoint keeps; the number is Spark's batch id. A batch
query has no lasting name. It is safe against failing tasks only, unless `producer` and `batch` name it.
"""

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from antecede.core import UsageError
from antecede.spark.topics.columns import DEPENDENCY
from antecede.spark.topics.failover import Copies, Part, choose_nodes, discard_parts, publish
from antecede.spark.topics.options import SinkOptions
from antecede.wire.bulk import STAGE_BYTES, UNNAMED, Row, Stage, encode_rows
from antecede.wire.envelope import BODY_BYTES_MAX
from antecede.wire.topics import check_topic

_TYPES: Final[dict[str, tuple[DataType, ...]]] = {
    "topic": (StringType(),),
    "payload": (BinaryType(), StringType()),
    "headers": (MapType(StringType(), StringType()),),
    "after": (ArrayType(DEPENDENCY),),
    #: The same as `after`, by its name in a table that was read.
    "deps": (ArrayType(DEPENDENCY),),
}


@dataclass
class Staged(WriterCommitMessage):
    """What a task has staged: a part, its number of stages, and the addresses of the nodes that have it."""

    partition: int
    part: str
    stages: int
    nodes: tuple[str, ...]
    #: The id of a streaming query.
    query: str


class TopicWriter(DataSourceArrowWriter):
    """A batch query. Spark makes one per job, before its tasks."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        _check(options, schema, overwrite)
        self._options = options
        self._nodes = choose_nodes(options.where, patient=False)
        self._producer = options.producer or f"{UNNAMED}{uuid.uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return stage(self._options, self._nodes, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        publish(self._options, self._producer, self._options.batch, _parts(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        discard_parts(self._options, _parts(messages))


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """A streaming query. Spark makes one for each batch, so a node that is down is waited for here too."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        if options.producer:
            raise UsageError("producer", options.producer, "is for batch queries", "a stream's checkpoint names it")
        _check(options, schema, overwrite)
        self._options = options
        self._nodes = choose_nodes(options.where, patient=True)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return stage(self._options, self._nodes, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        queries = {message.query for message in _staged(messages)}
        if queries:  # a batch without tasks has nothing to publish
            (query,) = queries
            publish(self._options, f"spark/{query}", batchId, _parts(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        discard_parts(self._options, _parts(messages))


def _check(options: SinkOptions, schema: StructType, overwrite: bool) -> None:
    """Check the columns, at analysis."""
    if overwrite:
        raise UsageError("mode", "overwrite", "cannot remove what was published", "use .mode('append')")
    found = {field.name: field.dataType for field in schema}
    for name, kind in found.items():
        if name not in _TYPES:
            remedy = f"select {', '.join(_TYPES)}; put everything else into payload or headers"
            raise UsageError("column", name, "is not one of a message", remedy)
        if kind.simpleString() not in [allowed.simpleString() for allowed in _TYPES[name]]:
            allowed = " or ".join(one.simpleString() for one in _TYPES[name])
            raise UsageError("column", name, f"is {kind.simpleString()}, not {allowed}", "cast it")
    if "after" in found and "deps" in found:
        raise UsageError("column", "deps", "means the same as column after", "drop one of them")
    if "payload" not in found:
        raise UsageError(
            "column", "payload", "is missing", "select what to send as payload: select(… .alias('payload'))"
        )
    if ("topic" in found) == bool(options.topic):
        if options.topic:
            raise UsageError("topic", options.topic, "stands beside a column topic", "use one of them")
        raise UsageError("column", "topic", "is missing", "add it, or name one for all rows: .option('topic', …)")


def stage(options: SinkOptions, nodes: tuple[str, ...], batches: Iterable[pa.RecordBatch]) -> Staged:
    """Stage the rows of a task at these nodes, in order, under a name that no other attempt uses."""
    context = TaskContext.get()
    assert context is not None
    part = str(uuid.uuid4())
    stages = 0
    with Copies(options.where, nodes) as copies:
        for rows in _blocks(options.topic, batches):
            copies.stage(Stage(part, stages, rows))
            stages += 1
        nodes = copies.nodes
    query = context.getLocalProperty("sql.streaming.queryId") or ""
    return Staged(context.partitionId(), part, stages, nodes, query)


def _parts(messages: list[WriterCommitMessage | None]) -> list[Part]:
    return [Part(one.part, one.stages, one.nodes) for one in _staged(messages) if one.stages]


def _staged(messages: list[WriterCommitMessage | None]) -> list[Staged]:
    """The reports of the tasks that staged something, in the order of partitions."""
    return sorted([one for one in messages if isinstance(one, Staged)], key=lambda one: one.partition)


def _blocks(topic: str, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Encode rows as the node takes them, some hundred kilobytes at a time."""
    rows: list[Row] = []
    size = 0
    for batch in batches:
        for row in _rows(topic, batch):
            rows.append(row)
            size += 64 + len(row.body)
            if row.headers or row.after:
                size += 12 * len(row.after) + sum(len(word) for pair in row.headers.items() for word in pair)
            if size >= STAGE_BYTES:
                yield encode_rows(rows)
                rows, size = [], 0
    if rows:
        yield encode_rows(rows)


def _rows(topic: str, batch: pa.RecordBatch) -> Iterator[Row]:
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    payloads = columns["payload"]
    nothing: list[Any] = [None] * len(payloads)
    topics = columns["topic"] if "topic" in columns else [topic] * len(payloads)
    headers = columns.get("headers", nothing)
    afters = columns.get("after", columns.get("deps", nothing))
    known: set[str] = set()
    for name, payload, words, after in zip(topics, payloads, headers, afters, strict=True):
        if name and name not in known:
            known.add(check_topic(name))
        if name == "":
            problem = "is empty in a row"
            raise UsageError("column", "topic", problem, "name a topic in every row, or filter such rows out")
        if name is None or payload is None:
            column = "topic" if name is None else "payload"
            raise UsageError(
                "column", column, "is null in a row", "filter such rows out, or replace the null with coalesce()"
            )
        body = payload.encode() if isinstance(payload, str) else payload
        if len(body) > BODY_BYTES_MAX:
            problem = f"has {len(body)} bytes in a row"
            raise UsageError(
                "column", "payload", problem, f"send at most {BODY_BYTES_MAX} bytes, or a reference to the data"
            )
        follows = tuple((one["source"], one["seq"]) for one in after) if after else ()
        yield Row(name, body, dict(words) if words else {}, follows)
