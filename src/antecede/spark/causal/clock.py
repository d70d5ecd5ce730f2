"""A streaming source that gives the time a query has run, so that patience does not count the time it was stopped.

Its offset is that time, in milliseconds. Spark writes offsets into the checkpoint before a batch runs: a batch that is
run again has the same time, and a query that was stopped for an hour goes on where its clock stood. A row is one tick.
Ticks become the watermark of the re-order operator, whose timers then measure time that the query ran.

With the trigger `availableNow` there is one tick, so that the query ends.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructField, StructType, TimestampType

from antecede.core import UsageError

#: The column of ticks. Time 0 is when the query was first started.
TICK: Final = "ran"
_NAME: Final = "antecede_clock"
_RAN: Final = "ran_ms"
#: Patience is measured this exactly, but no faster than batches can follow each other.
_TICKS_OF_PATIENCE: Final = 10
_TICK_MS_MIN: Final = 100


def ticks(spark: SparkSession, patience_ms: int) -> DataFrame:
    """The clock of a query, as a stream of ticks."""
    spark.dataSource.register(_Clock)
    tick_ms = max(_TICK_MS_MIN, patience_ms // _TICKS_OF_PATIENCE)
    return spark.readStream.format(_NAME).option("tickMs", tick_ms).load()


class RunningTime:
    """Measures how long a query has run, on top of the time it had run before."""

    def __init__(self, tick_ms: int, now_ms: int) -> None:
        self._tick_ms, self._began_ms = tick_ms, now_ms
        self._before_ms: int | None = None
        self._only_ms: int | None = None
        self._once = False

    def once(self) -> None:
        """Give one tick, then stand still."""
        self._once = True

    def latest(self, start_ms: int, now_ms: int) -> int:
        """The time that the query has run. `start_ms`: the latest tick, of this run or an earlier one."""
        if self._before_ms is None:
            self._before_ms = start_ms
        ran_ms = self._before_ms + max(0, now_ms - self._began_ms)
        if self._once:
            if self._only_ms is None:
                self._only_ms = ran_ms
            return max(start_ms, self._only_ms)
        return start_ms if ran_ms < start_ms + self._tick_ms else ran_ms


@dataclass
class _Tick(InputPartition):
    ran_ms: int


class _Clock(DataSource):
    @classmethod
    def name(cls) -> str:
        return _NAME

    def schema(self) -> StructType:
        return StructType([StructField(TICK, TimestampType())])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _Ticks(self.options)


class _Ticks(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._time = RunningTime(int(options.get("tickMs", _TICK_MS_MIN)), _now_ms())

    def initialOffset(self) -> dict[str, Any]:
        return {_RAN: 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._time.once()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return {_RAN: self._time.latest(start[_RAN], _now_ms())}

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [_Tick(end[_RAN])]

    def read(self, partition: InputPartition) -> Iterator[tuple[datetime]]:
        if not isinstance(partition, _Tick):
            raise UsageError("partition", partition, "is not a tick", "read the clock through causal_order")
        yield (datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=partition.ran_ms),)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
