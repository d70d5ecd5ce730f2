"""Writes and reads a trace as one Parquet file. A file is written whole or not at all, and checked before it is used.

Pages carry checksums. Without them most bytes of a Parquet file can change unnoticed, and the audit of a damaged trace
would blame the protocol. Needs the extra `lab`.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from antecede.core import UsageError
from antecede.trace.arrow import SCHEMA
from antecede.trace.schema import ADDED_IN_2, SCHEMA_VERSION, Event, Row

V = TypeVar("V")


def write_trace(table: pa.Table, path: Path) -> None:
    """Write `table` to `path`, which must not exist, through a temporary file: a reader never sees half a trace."""
    if path.exists():
        raise _exists(path)
    if not path.parent.is_dir():
        raise UsageError("trace", str(path), "its directory does not exist", f"create {path.parent}")
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)
        _put(temporary, path)
    except OSError as error:
        raise UsageError("trace", str(path), f"cannot be written ({_reason(error)})", "choose another place") from None
    finally:
        temporary.unlink(missing_ok=True)


def check_trace(path: Path, columns: pa.Schema = SCHEMA) -> None:
    """Raise `UsageError` unless the file at `path` is a trace of this version with these `columns`.

    A trace directory has one column more (`trace.directory.STORED`).
    """
    try:
        schema = pq.read_schema(path)
    except FileNotFoundError:
        raise UsageError("trace", str(path), "there is no such file", "check the path") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        problem = f"is not a readable Parquet file ({_reason(error)})"
        raise UsageError("trace", str(path), problem, "write it again") from None
    version = (schema.metadata or {}).get(b"antecede.trace")
    if version is None:
        raise UsageError("trace", str(path), "is Parquet, but not an antecede trace", "name a file antecede wrote")
    if version not in (b"1", str(SCHEMA_VERSION).encode()):
        raise UsageError(
            "trace",
            str(path),
            f"has trace schema version {version.decode(errors='replace')}, this antecede reads 1 to {SCHEMA_VERSION}",
            "write it again with this version, or read it with the one that wrote it",
        )
    if version == b"1":
        columns = pa.schema([field for field in columns if field.name not in ADDED_IN_2])
    # Arrow would fill a missing column with nulls and cast another type.
    wrong = [field.name for field in columns if field.name not in schema.names or schema.field(field.name) != field]
    wrong += sorted(set(schema.names) - set(columns.names))
    if wrong:
        raise UsageError(
            "trace", str(path), f"differs from a trace in {', '.join(wrong)}", "name a file antecede wrote"
        )


def read_trace(path: Path) -> pa.Table:
    """Return the trace at `path` as a table in `SCHEMA`. Raises `UsageError` if the file is damaged or no trace."""
    check_trace(path)
    try:
        table = pq.read_table(path, schema=SCHEMA, page_checksum_verification=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        problem = f"cannot be read ({_reason(error)})"
        raise UsageError("trace", str(path), problem, "the file is damaged; write it again") from None
    problem = _wrong_values(table)
    if problem:
        raise UsageError("trace", str(path), problem, "name a file antecede wrote")
    return table


def _wrong_values(table: pa.Table) -> str:
    """What keeps the values of a table in `SCHEMA` from being rows; empty: nothing."""
    deps = pc.list_flatten(table["deps"])
    if deps.null_count or any(column.null_count for column in deps.combine_chunks().flatten()):
        return "has dependencies without a topic, source or sequence number"
    unknown = sorted({*pc.unique(table["event"]).to_pylist()} - {event.name.lower() for event in Event})
    return f"has events that are not known ({', '.join(unknown[:5])})" if unknown else ""


def table_rows(table: pa.Table) -> Iterator[Row]:
    """Yield the rows of a table in `SCHEMA`; `Recorder.rows` gives equal ones."""
    events = {event.name.lower(): event for event in Event}
    for batch in table.to_batches():
        for row in batch.to_pylist():
            yield Row(
                time_us=row["time_us"],
                event=events[row["event"]],
                node=row["node"],
                peer=_or(row["peer"], -1),
                topic=_or(row["topic"], ""),
                source=_or(row["source"], -1),
                seq=_or(row["seq"], -1),
                packet=_or(row["packet"], -1),
                bundle=_or(row["bundle"], -1),
                bytes=_or(row["bytes"], -1),
                hops=_or(row["hops"], -1),
                deps=tuple((d["topic"], d["source"], d["seq"]) for d in row["deps"] or ()),
                held_us=_or(row["held_us"], -1),
                note=_or(row["note"], ""),
                digest=_or(row["digest"], -1),
            )


def _put(temporary: Path, path: Path) -> None:
    """Rename, but refuse to overwrite a file that appeared meanwhile, where the file system has hard links."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise _exists(path) from None
    except OSError:  # this file system has no hard links
        os.replace(temporary, path)


def _exists(path: Path) -> UsageError:
    return UsageError("trace", str(path), "already exists", "choose another file name or remove it")


def _reason(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _or(value: V | None, default: V) -> V:
    return default if value is None else value
