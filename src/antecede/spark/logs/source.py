"""Reads logs as a table or stream: `spark.read.format("antecede").option("url", "nats://host?streams=a,b")`.

A task reads one range of offsets of one log, so as many executors can read as there are ranges. What a log has at an
offset never changes. Spark writes the ranges of each batch into its checkpoint before they are read, so a batch that is
run again reads the same rows, and a query that is killed continues without a gap or a repetition.

A streaming batch ends at a consistent cut, unless `maxRowsPerBatch` makes it shorter. `until` ends a query at a cut:
the table is the logs *as of* that cut, and whatever a row depends on is in it.

Rows come in the order of each log. `causal_order` puts them into causal order across logs.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from antecede.core import UsageError
from antecede.logs.contract import LogRecord
from antecede.protocols.logs import LogsCursor
from antecede.spark.gc_freeze import freeze_once
from antecede.spark.logs.access import Logs
from antecede.spark.logs.columns import LOG_SCHEMA, LogBuilder, check_log_schema
from antecede.spark.logs.options import LogOptions, log_options

log = logging.getLogger("antecede.spark")

#: Rows of one Arrow batch.
_ROWS: Final = 8192


@dataclass
class LogRange(InputPartition):
    """Offsets of a log after `after` up to `last`. `starts`: by log, the offset behind which the query began."""

    name: str
    after: int
    last: int
    starts: dict[str, int]


def read_schema(options: Mapping[str, str], *, check: bool) -> StructType:
    """The columns of logs. Raises an error if the options are wrong or, with `check`, the logs cannot be reached."""
    known = log_options(options)
    if check:
        with Logs(known):
            pass
    return LOG_SCHEMA


class LogReader(DataSourceReader):
    """A batch query."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        check_log_schema(schema)
        self._options = log_options(options)
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        with Logs(self._options) as logs:
            starts = begin(self._options, logs, "earliest")
            return list(ranges(self._options, logs, starts, end(self._options, logs), starts))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._options, self._schema, partition)


class LogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query. It keeps nothing open between two calls of Spark.

    An offset has, for each log by name, the last offset read, and where the query began.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        check_log_schema(schema)
        self._options = log_options(options)
        self._schema = schema
        #: With the trigger "available now": where to stop.
        self._target: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, Any]:
        with Logs(self._options) as logs:
            starts = begin(self._options, logs, "latest")
            return {"logs": starts, "starts": starts}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self._options.rows_max is None else ReadMaxRows(self._options.rows_max)

    def prepareForTriggerAvailableNow(self) -> None:
        with Logs(self._options) as logs:
            self._target = end(self._options, logs)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with Logs(self._options) as logs:
            ends = self._target or end(self._options, logs)
            after, starts = _both(start, logs)
        ends = {name: max(after[name], ends.get(name, after[name])) for name in after}
        if isinstance(limit, ReadMaxRows):
            ends = _at_most(after, ends, limit.max_rows)
        return {"logs": ends, "starts": starts} if ends != after else start

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with Logs(self._options) as logs:
            after, _ = _both(start, logs)
            return list(ranges(self._options, logs, after, end["logs"], end["starts"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._options, self._schema, partition)


# -- where to begin and to end ----------------------------------------------------------------------------------------


def begin(options: LogOptions, logs: Logs, default: str) -> dict[str, int]:
    """By log: the offset behind which reading begins."""
    cursor = options.cursor("since")
    if cursor is not None:
        return {name: cursor.logs[number].low for name, number in _named(cursor, logs, "since").items()}
    bounds = {name: logs.bounds(name) for name in logs.numbers}
    if (options.since or default) == "latest":
        return {name: at.last for name, at in bounds.items()}
    return {name: at.first - 1 for name, at in bounds.items()}


def end(options: LogOptions, logs: Logs) -> dict[str, int]:
    """By log: the last offset to read."""
    cursor = options.cursor("until")
    if cursor is None:
        return logs.cut()
    at = {name: cursor.logs[number] for name, number in _named(cursor, logs, "until").items()}
    return {name: max(one.low, *one.beyond, one.low) for name, one in at.items()}


def _named(cursor: LogsCursor, logs: Logs, option: str) -> dict[str, int]:
    missing = [name for name, number in logs.numbers.items() if number not in cursor.logs]
    if missing:
        problem = f"is a cursor without {', '.join(missing)}"
        raise UsageError(option, "…", problem, "name the logs of the cursor in the url, with the same numbers")
    return logs.numbers


def _both(start: dict[str, Any], logs: Logs) -> tuple[dict[str, int], dict[str, int]]:
    """The offset reached and the start of each log. A partition that was added since is read from its beginning."""
    gone = sorted(start["logs"].keys() - logs.numbers.keys())
    if gone:
        problem = f"lacks {', '.join(gone)}, which the query's checkpoint has read"
        raise UsageError("url", "…", problem, "name the same logs, or begin with a new checkpoint")
    new = {name: logs.bounds(name).first - 1 for name in logs.numbers if name not in start["logs"]}
    return {**start["logs"], **new}, {**start["starts"], **new}


def _at_most(after: Mapping[str, int], ends: Mapping[str, int], rows: int) -> dict[str, int]:
    """Ends with at most about `rows` rows before them, each log by its share."""
    total = sum(ends[name] - after[name] for name in after)
    if total <= rows:
        return dict(ends)
    return {name: after[name] + -(-(ends[name] - after[name]) * rows // total) for name in after}


def ranges(
    options: LogOptions, logs: Logs, after: Mapping[str, int], ends: Mapping[str, int], starts: Mapping[str, int]
) -> Iterator[LogRange]:
    """Split what is to be read into ranges of about `rowsPerPartition`, one log each."""
    for name, last in ends.items():
        first = after.get(name, starts[name])
        if last <= first:
            continue
        bounds = logs.bounds(name)
        if last > bounds.last:
            problem = f"ends at {bounds.last}, the query is at {last}"
            raise UsageError("log", name, problem, "it was made anew: begin with a new checkpoint")
        if first < bounds.first - 1:
            first = lost(options, name, first, min(last, bounds.first - 1))
        count = -(-(last - first) // options.rows_per_partition) if options.dense else 1
        for number in range(count):
            yield LogRange(
                name=name,
                after=first + (last - first) * number // count,
                last=first + (last - first) * (number + 1) // count,
                starts=dict(starts),
            )


def lost(options: LogOptions, name: str, after: int, removed: int) -> int:
    """Report that retention removed offsets after `after`; return where to go on if failOnDataLoss is false."""
    if options.fail_on_data_loss:
        problem = f"offsets {after + 1} to {removed} of {name} were removed by retention and cannot be read"
        remedy = "begin with since=earliest, keep more, or set failOnDataLoss=false to go on without them"
        raise UsageError("failOnDataLoss", True, problem, remedy)
    log.warning("offsets %d to %d of %s were removed by retention: left out", after + 1, removed, name)
    return removed


# -- in a task --------------------------------------------------------------------------------------------------------


def read_range(options: LogOptions, schema: StructType, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Read one range."""
    if not isinstance(partition, LogRange):  # Spark makes a partition of its own if there are none
        return
    freeze_once()
    with Logs(options) as logs:
        number = logs.numbers[partition.name]
        names = {logs.numbers[name]: name for name in partition.starts if name in logs.numbers}
        since, beyond = options.cursor("since"), _end(options, number)
        taken_before = {} if since is None else {log: frozenset(at.beyond) for log, at in since.logs.items()}
        skip = taken_before.get(number, frozenset())
        build = LogBuilder(schema, partition.name, names, partition.starts, taken_before).batch
        rows: list[LogRecord] = []
        after = partition.after
        for batch in logs.read(partition.name, partition.after, partition.last):
            if batch.first > after + 1:
                lost(options, partition.name, after, batch.first - 1)
            after = batch.upto
            taken = batch.records
            if skip or beyond is not None:
                taken = [one for one in taken if one.offset not in skip and (beyond is None or one.offset in beyond)]
            rows += taken
            if len(rows) >= _ROWS:
                yield build(rows)
                rows = []
        if rows:
            yield build(rows)


class _Within:
    """The offsets of a log that a cursor has taken."""

    def __init__(self, low: int, beyond: tuple[int, ...]) -> None:
        self._low, self._beyond = low, frozenset(beyond)

    def __contains__(self, offset: int) -> bool:
        return offset <= self._low or offset in self._beyond


def _end(options: LogOptions, number: int) -> _Within | None:
    """The offsets of a log that are to be read, where a cursor with single offsets is the end."""
    until = options.cursor("until")
    if until is None or number not in until.logs or not until.logs[number].beyond:
        return None
    return _Within(until.logs[number].low, until.logs[number].beyond)
