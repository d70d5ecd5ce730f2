"""Runs a step of ordering inside Spark's stateful operators, and keeps its state there.

Rows with numbers, and rows of logs, have a state that is one value for each key: `applyInPandasWithState`, which needs
no special setting. Rows with ids have a memory of ids that must not be rewritten in each batch:
`transformWithStateInPandas`, with a map beside the value. It needs Spark's RocksDB state store.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias, cast

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from antecede.core import UsageError
from antecede.spark.causal.across import LogRule, advance_logs
from antecede.spark.causal.by_id import ById, advance_ids
from antecede.spark.causal.holes import WithHoles
from antecede.spark.causal.keyed import Rule, advance
from antecede.spark.causal.packing import EVERYTHING, ROWS, opened, packets
from antecede.spark.causal.steps import WORDS, Step
from antecede.spark.gc_freeze import freeze_once
from antecede.spark.quoting import plain_name

#: The names of the columns that are added: of the word, of the time a row waited, and of its position.
Added: TypeAlias = tuple[str, str, str]

_OUT: Final = f"{ROWS} binary, counts array<bigint>"
#: The state variable of a key, of rows with ids.
KEPT: Final = "kept"
STATE: Final = "state"
_PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def order_packets(packed: DataFrame, rule: Rule | LogRule, added: Added) -> DataFrame:
    """Order packets of rows by key. Gives packets of released rows, with the counts of their step."""
    groups = packed.groupBy(*(map(plain_name, rule.naming.key) if rule.naming.key else [EVERYTHING]))
    if isinstance(rule, Rule) and (rule.naming.by_id or rule.holes):
        _use_rocksdb(packed.sparkSession)
        mode = "None" if rule.patience_ms is None else "EventTime"
        return groups.transformWithStateInPandas(IdProcessor(rule, added), _OUT, "Append", mode)
    timeout = GroupStateTimeout.NoTimeout if rule.patience_ms is None else GroupStateTimeout.EventTimeTimeout
    return groups.applyInPandasWithState(cast(Any, _ordering(rule, added)), _OUT, f"{STATE} binary", "append", timeout)


def _use_rocksdb(spark: SparkSession) -> None:
    """Let new queries of this session use RocksDB. A query that exists goes on with what its checkpoint says."""
    chosen = spark.conf.get(_PROVIDER, None)
    if chosen is None or chosen.endswith(".HDFSBackedStateStoreProvider"):
        spark.conf.set(_PROVIDER, _ROCKSDB)
    elif not chosen.endswith("RocksDBStateStoreProvider"):
        raise UsageError(_PROVIDER, chosen, "cannot hold a map for each key", f"set it to {_ROCKSDB}")


def _ordering(rule: Rule | LogRule, added: Added) -> Callable[..., Iterator[pd.DataFrame]]:
    def order(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        freeze_once()
        arrived = opened(frames)
        kept = state.getOption
        if not arrived and kept is None:
            return  # a tick
        now_ms = state.getCurrentProcessingTimeMs()
        clock_ms = now_ms if rule.patience_ms is None else state.getCurrentWatermarkMs()
        before = None if kept is None else bytes(kept[0])
        if isinstance(rule, LogRule):
            step = advance_logs(rule, before, arrived, now_ms, clock_ms)
        else:
            step = advance(rule, before, arrived, now_ms, clock_ms)
        state.update((step.state,))
        if step.wake_ms is not None:
            # Spark calls once the watermark is past this.
            state.setTimeoutTimestamp(max(clock_ms + 1, step.wake_ms - 1))
        yield from _shown(step, added)

    return order


class IdProcessor(StatefulProcessor):
    """Orders rows with ids, and rows whose numbers have holes."""

    def __init__(self, rule: Rule, added: Added) -> None:
        self._rule, self._added = rule, added

    def init(self, handle: StatefulProcessorHandle) -> None:
        freeze_once()
        self._handle = handle
        self._kept = handle.getValueState(KEPT, f"{STATE} binary")
        self._store = _MapStore(handle.getMapState("ids", "segment bigint, part int", "ids binary"))

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        arrived = opened(rows)
        if arrived or self._kept.exists():
            yield from self._step(arrived, timerValues)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        yield from self._step([], timerValues)

    def close(self) -> None:
        pass

    def _step(self, arrived: list[pa.Table], timers: TimerValues) -> Iterator[pd.DataFrame]:
        # Without timers Spark does not say what time it is. It is only told, and decides nothing.
        now_ms = timers.getCurrentProcessingTimeInMs()
        now_ms = now_ms if now_ms > 0 else time.time_ns() // 1_000_000
        clock_ms = now_ms if self._rule.patience_ms is None else timers.getCurrentWatermarkInMs()
        kept = self._kept.get() if self._kept.exists() else None
        before = None if kept is None else bytes(kept[0])
        kind = WithHoles if self._rule.holes else ById
        step = advance_ids(self._rule, before, self._store, arrived, now_ms, clock_ms, kind)
        self._kept.update((step.state,))
        if self._rule.patience_ms is not None:
            for timer in list(self._handle.listTimers()):
                self._handle.deleteTimer(timer)
            if step.wake_ms is not None:
                self._handle.registerTimer(max(clock_ms + 1, step.wake_ms))
        yield from _shown(step, self._added)


class _MapStore:
    """Segments of ids in a map of Spark's state."""

    def __init__(self, parts: MapState) -> None:
        self._parts = parts

    def read(self, segment: int, part: int) -> bytes:
        found = self._parts.getValue((segment, part))
        if found is None:
            problem = f"has no part {part} of the ids of segment {segment}"
            raise UsageError("checkpoint", "causal_order", problem, "start with a new checkpoint")
        return bytes(found[0])

    def write(self, segment: int, part: int, ids: bytes) -> None:
        self._parts.updateValue((segment, part), (ids,))

    def remove(self, segment: int, part: int) -> None:
        self._parts.removeKey((segment, part))


def _shown(step: Step, added: Added) -> Iterator[pd.DataFrame]:
    sealed = [*packets(_released(step, added))] or [b""]
    counts = [list(step.counts), *[[0] * len(step.counts)] * (len(sealed) - 1)]  # once
    for packet, count in zip(sealed, counts, strict=True):
        yield pd.DataFrame({ROWS: [packet], "counts": [count]})


def _released(step: Step, added: Added) -> pa.Table:
    order = step.order
    as_they_came = len(order) == step.pool.num_rows and bool((order == np.arange(len(order))).all())
    rows = step.pool if as_they_came else step.pool.take(pa.array(order))
    words = pa.DictionaryArray.from_arrays(pa.array(step.words), pa.array(WORDS)).cast(pa.string())
    positions = pa.array(np.arange(step.first_position, step.first_position + len(order)))
    for name, column in zip(added, (words, pa.array(step.held_ms), positions), strict=True):
        rows = rows.append_column(name, column)
    return rows
