"""Traces as Parquet: written whole or not at all, read with every doubt raised before a row is used."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from antecede.core import UsageError
from antecede.trace.schema import SCHEMA, SCHEMA_VERSION, Event, Row

V = TypeVar("V")


def write_trace(table: pa.Table, path: Path) -> None:
    """Write to a temporary name beside `path`, then rename: a reader never sees half a file."""
    if path.exists():
        raise UsageError("trace", str(path), "already exists", "choose another file name or remove it")
    if not path.parent.is_dir():
        raise UsageError("trace", str(path), "its directory does not exist", f"create {path.parent}")
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        pq.write_table(table, temporary, compression="zstd")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def check_trace(path: Path) -> None:
    """Refuse what is not a trace of this version, naming the file and what is wrong with it."""
    try:
        schema = pq.read_schema(path)
    except FileNotFoundError:
        raise UsageError("trace", str(path), "there is no such file", "check the path") from None
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError("trace", str(path), f"is not a readable Parquet file ({reason})", "write it again") from None
    version = (schema.metadata or {}).get(b"antecede.trace")
    if version is None:
        raise UsageError("trace", str(path), "is Parquet, but not an antecede trace", "name a file antecede wrote")
    if version != str(SCHEMA_VERSION).encode():
        raise UsageError(
            "trace",
            str(path),
            f"has trace schema version {version.decode(errors='replace')}, this antecede reads {SCHEMA_VERSION}",
            "write it again with this version, or read it with the one that wrote it",
        )


def read_trace(path: Path) -> pa.Table:
    check_trace(path)
    try:
        return pq.read_table(path, schema=SCHEMA)
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError("trace", str(path), f"cannot be read ({reason})", "the file is damaged; write it again") from None


def table_rows(table: pa.Table) -> Iterator[Row]:
    """The rows of a table in `SCHEMA`, as the recorder would have given them."""
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
            )


def _or(value: V | None, default: V) -> V:
    return default if value is None else value
