"""Writes and reads a trace as one Parquet file. A file is written whole or not at all, and checked before it is used.

Files and directories of files that another program wrote are read too (`trace.tables`).

Pages carry checksums. Without them most bytes of a Parquet file can change unnoticed, and the audit of a damaged trace
would blame the protocol. Needs the extra `lab`.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from antecede.core import UsageError
from antecede.trace.arrow import SCHEMA
from antecede.trace.schema import ADDED_IN_2, SCHEMA_VERSION, Event, Row
from antecede.trace.tables import as_trace, check_columns, check_values

V = TypeVar("V")

#: The key in the metadata of a file that is one part of a trace directory.
LAYOUT: Final = b"antecede.layout"


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


def check_trace(path: Path) -> None:
    """Raise `UsageError` unless the file or directory of files at `path` has the columns of a trace."""
    schema = _schema(path)
    _check_version(schema, path)
    if LAYOUT in (schema.metadata or {}):
        raise UsageError("trace", str(path), "is one part of a trace directory", "name the directory")
    check_columns(schema.names, str(path))


def check_part(path: Path, columns: pa.Schema) -> None:
    """Raise `UsageError` unless the file at `path` was written by antecede with exactly these `columns`."""
    schema = _schema(path)
    version = _check_version(schema, path)
    if version is None:
        raise UsageError("trace", str(path), "is Parquet, but not an antecede trace", "name a file antecede wrote")
    if version == b"1":
        columns = pa.schema([field for field in columns if field.name not in ADDED_IN_2])
    wrong = _differs(schema, columns)
    if wrong:
        raise UsageError(
            "trace", str(path), f"differs from a trace in {', '.join(wrong)}", "name a file antecede wrote"
        )


def read_trace(path: Path, run: str | None = None) -> pa.Table:
    """Return the trace at `path`, a file or a directory of files that any program wrote, as a table in `SCHEMA`.

    `run`: which run, where there are several. Rows of several files without a column `row` are put in the order of
    their times. Raises `UsageError` if the table is damaged or no trace.
    """
    check_trace(path)
    partitioning = "hive" if path.is_dir() else None
    ours = is_ours(path)
    try:
        table = pq.read_table(
            path, schema=SCHEMA if ours else None, partitioning=partitioning, page_checksum_verification=True
        )
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        problem = f"cannot be read ({_reason(error)})"
        raise UsageError("trace", str(path), problem, "the file is damaged; write it again") from None
    if ours:
        check_values(table, str(path))
        return _one_run(table, path, run)
    in_order = "row" in table.column_names or not path.is_dir()
    table = as_trace(table, str(path), run=path.stem)
    if not in_order:
        table = table.take(pa.array(np.argsort(table["time_us"].to_numpy(), kind="stable")))
    return _one_run(table, path, run)


def is_ours(path: Path) -> bool:
    """Tell whether antecede wrote the table at `path`, with exactly the columns and types that it writes now."""
    if path.is_dir():
        return False
    schema = _schema(path)
    return b"antecede.trace" in (schema.metadata or {}) and not _differs(schema, SCHEMA)


def runs_in(path: Path) -> list[str]:
    """The names of the runs in a table that any program wrote; empty where antecede wrote it, or it names none."""
    schema = _schema(path)
    if b"antecede.trace" in (schema.metadata or {}):
        return []
    try:
        names = pq.read_table(path, columns=["run"], partitioning="hive" if path.is_dir() else None)["run"]
    except (pa.ArrowException, KeyError):
        return []  # it has no such column, or is damaged, which reading it will tell
    return sorted(str(name) for name in pc.unique(names).to_pylist() if name is not None)


def _one_run(table: pa.Table, path: Path, run: str | None) -> pa.Table:
    if run is not None:
        return table.filter(pc.equal(table["run"], run))
    names = pc.unique(table["run"]).to_pylist()
    if len(names) > 1:
        problem = f"has {len(names)} runs ({', '.join(map(repr, names[:3]))}{', …' if len(names) > 3 else ''})"
        raise UsageError("trace", str(path), problem, "choose one with --run")
    return table


def _differs(schema: pa.Schema, columns: pa.Schema) -> list[str]:
    """The names of the columns in which they differ. Arrow would fill a missing one with nulls and cast other types."""
    wrong = [field.name for field in columns if field.name not in schema.names or schema.field(field.name) != field]
    return wrong + sorted(set(schema.names) - set(columns.names))


def _schema(path: Path) -> pa.Schema:
    try:
        if path.is_dir():
            import pyarrow.dataset as ds  # noqa: PLC0415  (slow to load, and rarely needed)

            found = ds.dataset(path, format="parquet", partitioning="hive")
            if not found.files:
                raise UsageError("trace", str(path), "is a directory without Parquet files", "name a trace")
            return found.schema
        return pq.read_schema(path)
    except FileNotFoundError:
        raise UsageError("trace", str(path), "there is no such file", "check the path") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        problem = f"is not a readable Parquet file ({_reason(error)})"
        raise UsageError("trace", str(path), problem, "write it again") from None


def _check_version(schema: pa.Schema, path: Path) -> bytes | None:
    """The version of the schema that antecede wrote; None in a table of another program."""
    version: bytes | None = (schema.metadata or {}).get(b"antecede.trace")
    if version not in (None, b"1", str(SCHEMA_VERSION).encode()):
        raise UsageError(
            "trace",
            str(path),
            f"has trace schema version {version.decode(errors='replace')}, this antecede reads 1 to {SCHEMA_VERSION}",
            "write it again with this version, or read it with the one that wrote it",
        )
    return version


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
