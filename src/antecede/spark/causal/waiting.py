"""Shows the rows that wait in a query of `causal_order`, and for what, as a table.

It reads the state of the last batch from the query's checkpoint (Spark's `statestore` format), so it costs the query
nothing, and works while the query runs or is stopped.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from antecede.spark.causal.packing import EVERYTHING
from antecede.spark.causal.stateful import KEPT, STATE
from antecede.spark.causal.steps import Held
from antecede.spark.quoting import original_name, quote_name

_WAITING: Final = pa.schema(
    [
        ("name", pa.string()),
        ("waits_for", pa.list_(pa.string())),
        ("missing", pa.list_(pa.string())),
        ("since", pa.timestamp("us", "UTC")),
        ("order_position_next", pa.int64()),
    ]
)


class _Any(msgspec.Struct, array_like=True):
    """The beginning of every state of the operator."""

    version: int
    held: Held


_decode = msgspec.msgpack.Decoder(_Any).decode


def waiting_rows(spark: SparkSession, checkpoint: str) -> DataFrame:
    """The rows that wait, by the state in `checkpoint` (the query's `checkpointLocation`).

    The columns of the key; `name`: the row's id, or its source and number. `waits_for`: the names it waits for;
    `missing`: those of them that have not come themselves. `since`: when the row came.
    `order_position_next`: the position that the next row of its key will have.
    """
    reader = spark.read.format("statestore")
    by_id = _variables(spark, checkpoint)
    states = (reader.option("stateVarName", KEPT) if by_id else reader).load(checkpoint)
    keys = [field for field in states.schema["key"].dataType if field.name != EVERYTHING]  # type: ignore[attr-defined]
    plain = [field.name for field in keys]
    named = [F.col(f"key.{quote_name(name)}").alias(name) for name in plain]
    # `applyInPandasWithState` keeps the state in a struct, beside its timeout.
    value = f"value.{STATE}" if by_id else f"value.groupState.{STATE}"
    found = states.select(*named, F.col(value).alias(STATE))
    original = [StructField(original_name(field.name), field.dataType) for field in keys]
    out = StructType([*original, *from_arrow_schema(_WAITING)])
    return found.mapInArrow(_expanded(plain), out)


def _variables(spark: SparkSession, checkpoint: str) -> bool:
    """Does the query keep its state in variables, as rows with ids do?"""
    operators = spark.read.format("state-metadata").load(checkpoint).select("operatorName").collect()
    return any("transformWithState" in row.operatorName for row in operators)


def _expanded(keys: list[str]) -> Any:
    def expand(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            owner: list[int] = []
            rows: list[dict[str, Any]] = []
            for at, state in enumerate(batch.column(STATE)):
                waiting = describe(state.as_py())
                owner += [at] * len(waiting)
                rows += waiting
            told = pa.Table.from_pylist(rows, _WAITING)
            columns = [batch.column(name).take(pa.array(owner, pa.int64())) for name in keys]
            merged = pa.table([*columns, *told.columns], [*keys, *told.schema.names])
            yield from merged.to_batches()

    return expand


def describe(state: bytes) -> list[dict[str, Any]]:
    """The waiting rows of the state of one key."""
    held = _decode(state).held
    here = set(held.names)
    return [
        {
            "name": name,
            "waits_for": waits_for,
            "missing": [one for one in waits_for if one not in here],
            "since": datetime.fromtimestamp(came_ms / 1000, UTC),
            "order_position_next": held.released + 1,
        }
        for name, waits_for, came_ms in zip(held.names, held.waits_for, held.came_ms, strict=True)
    ]
