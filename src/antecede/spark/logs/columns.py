"""Defines the columns of a log and builds record batches of them. A schema may name fewer columns, in any order."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.pandas.types import to_arrow_schema

from antecede.core import ProtocolError, UsageError
from antecede.logs.contract import LogRecord
from antecede.protocols.logs import Header, decode_header

LOG_SCHEMA: Final = types.StructType(
    [
        types.StructField("topic", types.StringType()),
        #: The name of the log, and the record's offset there: together they name the record.
        types.StructField("log", types.StringType()),
        types.StructField("offset", types.LongType()),
        #: By log: the offset up to which its writer had read or written. Only logs that are read, and only offsets
        #: behind the beginning of the query.
        types.StructField(
            "past",
            types.ArrayType(
                types.StructType(
                    [types.StructField("log", types.StringType()), types.StructField("offset", types.LongType())]
                )
            ),
        ),
        #: The session that wrote it, and its number among that session's records in the log. Null: another producer.
        types.StructField("writer", types.LongType()),
        types.StructField("number", types.LongType()),
        #: It was sent before, and may be in the log already.
        types.StructField("retry", types.BooleanType()),
        #: It is empty, and takes the place of a record that its writer gave up.
        types.StructField("tombstone", types.BooleanType()),
        types.StructField("payload", types.BinaryType()),
        types.StructField("headers", types.MapType(types.StringType(), types.StringType())),
        #: When the log stored it, by the server's clock.
        types.StructField("stored", types.TimestampType()),
    ]
)
_HALF: Final = 1 << 63


def check_log_schema(schema: types.StructType) -> None:
    """Refuse a column that a log does not have, or one of another type."""
    ours = {field.name: field.dataType.simpleString() for field in LOG_SCHEMA}
    for field in schema:
        if field.name not in ours:
            raise UsageError("column", field.name, "is not one of a log", f"use some of {', '.join(ours)}")
        if field.dataType.simpleString() != ours[field.name]:
            problem = f"is {ours[field.name]}, not {field.dataType.simpleString()}"
            raise UsageError("column", field.name, problem, "read it as it is, and cast it then")


class LogBuilder:
    """Makes record batches of one log's records."""

    def __init__(
        self,
        schema: types.StructType,
        log: str,
        names: Mapping[int, str],
        starts: Mapping[str, int],
        taken: Mapping[int, frozenset[int]],
    ) -> None:
        """`names`: by number, the logs that are read. `starts`: by name, the offset behind which the query began.
        `taken`: by number, offsets behind the start that are not read, because the cursor it began from has them."""
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._log = log
        self._names = names
        self._starts = starts
        self._taken = taken
        self._fill: dict[str, Callable[[list[LogRecord], list[Header | None]], list[Any]]] = {
            "topic": lambda rows, _: [row.topic for row in rows],
            "log": lambda rows, _: [log] * len(rows),
            "offset": lambda rows, _: [row.offset for row in rows],
            "past": lambda _, headers: [self._past(header) for header in headers],
            "writer": lambda _, headers: [None if one is None else _signed(one.writer) for one in headers],
            "number": lambda _, headers: [None if one is None else one.number for one in headers],
            "retry": lambda _, headers: [one is not None and one.retry for one in headers],
            "tombstone": lambda _, headers: [one is not None and one.tombstone for one in headers],
            "payload": lambda rows, _: [row.payload for row in rows],
            "headers": lambda rows, _: [list(row.headers.items()) for row in rows],
            "stored": lambda rows, _: [row.time_us for row in rows],
        }
        self._pasts: dict[tuple[tuple[int, int], ...], list[dict[str, Any]]] = {}

    def batch(self, rows: list[LogRecord]) -> pa.RecordBatch:
        headers = [_header(row) for row in rows]
        columns = []
        for field in self._schema:
            values = self._fill[field.name](rows, headers)
            if pa.types.is_timestamp(field.type):
                columns.append(pa.array(values, pa.int64()).view(field.type))
            else:
                columns.append(pa.array(values, field.type))
        self._pasts.clear()
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _past(self, header: Header | None) -> list[dict[str, Any]]:
        if header is None:
            return []
        known = self._pasts.get(header.past)
        if known is None:
            named = [(self._names[log], self._untaken(log, at)) for log, at in header.past if log in self._names]
            known = [{"log": name, "offset": offset} for name, offset in named if offset > self._starts[name]]
            self._pasts[header.past] = known
        return known

    def _untaken(self, log: int, offset: int) -> int:
        """The last offset up to `offset` that is read."""
        taken = self._taken.get(log, ())
        while offset in taken:
            offset -= 1
        return offset


def _header(record: LogRecord) -> Header | None:
    try:
        return None if record.header is None else decode_header(record.header)
    except ProtocolError:
        return None  # as if it had none: it is read in the order of its log


def _signed(writer: int) -> int:
    return writer - 2 * _HALF if writer >= _HALF else writer
