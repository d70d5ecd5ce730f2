"""`live_audit`: judges the deliveries of nodes as they come, and measures lag and hold times by topic.

    deliveries = spark.readStream.format("antecede").option("journal", "n0").option("topics", "#").load()
    live_audit(deliveries.withColumn("node", F.lit("n0")), whole=True).where("kind = 'violation'")

Each node has an online judge (`audit.online`), which takes the node's deliveries in the order of their positions; Spark
keeps its state. Each batch gives four kinds of rows. `violation`: one each. `topic`: for each node and topic, the
number of messages, how long after publication they were delivered and how long they were held. `source`: for each node
and source, the last sequence number delivered, by which nodes are compared. `content`: for each node, source and block
of sequence numbers, the sum of their contents, by which nodes are compared too.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, cast

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from antecede.audit.online import Finding, OnlineJudge, OnlineState
from antecede.core import UsageError
from antecede.spark.causal.packing import ROWS, opened, packed_schema, packer, packets, unpack
from antecede.spark.quoting import column_of
from antecede.trace import payload_digest

#: The columns of a topic that the judge reads, beside `node`.
COLUMNS: Final = (
    "topic string, source int, seq bigint, deps array<struct<source: int, seq: bigint>>, published timestamp, "
    "delivered timestamp, held_us bigint, position bigint, payload binary"
)
_NAMES: Final = ("topic", "source", "seq", "deps", "published", "delivered", "held_us", "position")

_OUT: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("node", pa.string()),
        ("rule", pa.string()),
        ("topic", pa.string()),
        ("source", pa.int32()),
        ("seq", pa.int64()),
        ("position", pa.int64()),
        #: The number of messages it is about.
        ("messages", pa.int64()),
        ("words", pa.string()),
        ("lag_ms_median", pa.float64()),
        ("lag_ms_p99", pa.float64()),
        ("lag_ms_max", pa.float64()),
        ("held", pa.int64()),
        ("hold_ms_mean", pa.float64()),
        ("hold_ms_max", pa.float64()),
        #: The sum of contents, by which nodes are compared.
        ("digest", pa.int64()),
    ]
)

#: The column that names the node, inside the job.
_NODE: Final = "node"

_decode = msgspec.msgpack.Decoder(OnlineState).decode


def live_audit(deliveries: DataFrame, *, whole: bool, node: str = "node") -> DataFrame:
    """Judge a stream of deliveries as they come.

    `deliveries`: the columns of `format("antecede")` and one that names the node. Headers are not needed; without the
    payload, contents are not compared. `whole`: the stream has all topics, so a skipped number is a loss.
    """
    if not isinstance(deliveries, DataFrame) or not deliveries.isStreaming:
        what = type(deliveries).__name__
        raise UsageError("deliveries", what, "is not a streaming DataFrame", "use `antecede audit` for finished runs")
    for name in (node, *_NAMES):
        if name not in deliveries.columns:
            there = ", ".join(deliveries.columns)
            raise UsageError(
                "deliveries", name, f"is not among the columns ({there})", "add it, for example with lit()"
            )
    payload = ["payload"] if "payload" in deliveries.columns else []
    # A name with a dot would be read as a field of a struct, here and by Spark's grouping.
    rows = deliveries.select(column_of(node).alias(_NODE), *_NAMES, *payload)
    packed = rows.mapInArrow(_packing(_NODE), packed_schema(rows.schema, (_NODE,)))
    judged = packed.groupBy(_NODE).applyInPandasWithState(
        cast(Any, _judging(whole)), f"{ROWS} binary", "state binary", "append", GroupStateTimeout.NoTimeout
    )
    return judged.mapInArrow(unpack, from_arrow_schema(_OUT))


def _packing(node: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Pack rows by node, with a digest of their content in place of the payload: less to shuffle."""
    pack = packer((node,))
    return lambda batches: pack(_digested(batch) for batch in batches)


def _digested(batch: pa.RecordBatch) -> pa.RecordBatch:
    if "payload" not in batch.schema.names:
        return batch.append_column("digest", pa.array([-1] * batch.num_rows, pa.int64()))
    # Two messages may say the same; then the time of publication tells them apart.
    published = pc.cast(batch.column("published"), pa.int64()).to_pylist()
    payloads = batch.column("payload").to_pylist()
    digests = [
        -1 if payload is None else payload_digest(f"{time_us} ".encode() + payload)
        for time_us, payload in zip(published, payloads, strict=True)
    ]
    return batch.drop_columns(["payload"]).append_column("digest", pa.array(digests, pa.int64()))


def _judging(whole: bool) -> Callable[..., Iterator[pd.DataFrame]]:
    def judge(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        node = str(key[0])
        rows = pa.concat_tables(opened(frames))
        kept = state.getOption
        before = None if kept is None else _load(bytes(kept[0]))
        found, after = judge_rows(node, rows, before, whole=whole)
        state.update((_stored(after),))
        yield pd.DataFrame({ROWS: list(packets(pa.Table.from_pylist(found, _OUT)))})

    return judge


def _stored(state: OnlineState) -> bytes:
    return msgspec.msgpack.encode(state)


def _load(data: bytes) -> OnlineState:
    try:
        return _decode(data)
    except msgspec.DecodeError as error:
        remedy = "start with a new checkpoint"
        raise UsageError("checkpoint", "live_audit", f"has a state that cannot be read ({error})", remedy) from None


def judge_rows(
    node: str, rows: pa.Table, state: OnlineState | None, *, whole: bool
) -> tuple[list[dict[str, Any]], OnlineState]:
    """Judge one node's deliveries of a batch, in any order. Returns the rows to emit, and the judge's new state."""
    rows = rows.take(pc.sort_indices(rows, sort_keys=[("position", "ascending")])).combine_chunks()
    judge = OnlineJudge(node, whole=whole, state=state)
    found: list[dict[str, Any]] = []
    columns = [rows.column(name).to_pylist() for name in ("position", "source", "seq", "digest")]
    for at, (position, source, seq, digest, deps) in enumerate(zip(*columns, _deps(rows), strict=True)):
        for finding in judge.take(position, source, seq, deps, digest):
            found.append(_violation(node, rows.column("topic")[at].as_py(), finding))
    found += [_violation(node, None, finding) for finding in judge.losses()]
    found += _topics(node, rows)
    state = judge.state
    met = sorted(set(columns[1]))
    found += [{"kind": "source", "node": node, "source": one, "seq": state.highest[one]} for one in met]
    latest = [contents for one in met if (contents := judge.contents(one)) is not None]
    found += [
        {"kind": "content", "node": node, "source": one.source, "seq": one.last, "digest": one.digest}
        for one in dict.fromkeys([*judge.blocks, *latest])
    ]
    return found, state


def _deps(rows: pa.Table) -> list[Sequence[tuple[int, int]]]:
    lists = rows.column("deps").combine_chunks()
    lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    entries = lists.flatten()
    names = list(zip(*(pc.struct_field(entries, name).to_pylist() for name in ("source", "seq")), strict=True))
    ends = np.cumsum(lengths).tolist()
    return [names[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def _violation(node: str, topic: str | None, finding: Finding) -> dict[str, Any]:
    return {
        "kind": "violation",
        "node": node,
        "rule": finding.rule,
        "topic": topic,
        "source": finding.source,
        "seq": finding.seq,
        "position": finding.position,
        "messages": finding.count,
        "words": finding.words,
    }


def _topics(node: str, rows: pa.Table) -> Iterator[dict[str, Any]]:
    encoded = rows.column("topic").combine_chunks().dictionary_encode()
    encoded = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    lag_ms = (_us(rows, "delivered") - _us(rows, "published")) / 1000
    hold_ms = rows.column("held_us").to_numpy() / 1000
    order = np.argsort(codes, kind="stable")
    bounds = np.flatnonzero(np.diff(codes[order], prepend=-1, append=-1))
    for begin, end in pairwise(bounds.tolist()):
        mine = order[begin:end]
        held = hold_ms[mine][hold_ms[mine] > 0]
        yield {
            "kind": "topic",
            "node": node,
            "topic": encoded.dictionary[int(codes[mine[0]])].as_py(),
            "messages": len(mine),
            "lag_ms_median": float(np.median(lag_ms[mine])),
            "lag_ms_p99": float(np.percentile(lag_ms[mine], 99)),
            "lag_ms_max": float(lag_ms[mine].max()),
            "held": len(held),
            "hold_ms_mean": float(held.mean()) if len(held) else 0.0,
            "hold_ms_max": float(held.max(initial=0.0)),
        }


def _us(rows: pa.Table, name: str) -> Any:
    return pc.cast(rows.column(name), pa.int64()).to_numpy()
