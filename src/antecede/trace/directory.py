"""Writes and reads trace directories: one run's trace, split into Parquet files that are judged one by one.

    KEY/
      events.parquet                  publish, subscribe, unsubscribe, crash, stop and recover rows
      deliveries-00.parquet, -01, …   deliver rows, in buckets by receiver: node modulo the number of buckets
      packets-00.parquet, -01, …      send, receive and drop rows, in buckets by node

Every row of the trace (`antecede.trace.SCHEMA`) is in exactly one file, with one more column, `row`: the row's number
in the run. A single trace file keeps the order of rows by itself; several files cannot. Buckets are sorted by node and
then by row, so a task judges one bucket without sorting, and a node's history is one slice of it. The metadata of each
file names the file, and `events.parquet` says how many rows each file must have: a directory with a missing or a
foreign file is refused.

A directory is written under a hidden name and renamed when it is whole. Integers are delta-encoded and not compressed:
on these columns that is both the smallest and the fastest to read. Text is compressed. Pages carry checksums.
"""

import json
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from antecede.core import UsageError
from antecede.trace import SCHEMA, Event
from antecede.trace.files import LAYOUT, check_part
from antecede.trace.tables import check_values

#: A bucket holds about so many rows. One bucket is one task's work and one task's memory (some 50 bytes a row).
BUCKET_ROWS: Final = 1_000_000

ROW: Final = pa.field("row", pa.int64(), nullable=False)
#: What the files of a trace directory hold.
STORED: Final = SCHEMA.append(ROW)

EVENTS: Final = "events.parquet"
_VERSION = 1

#: Which events stand in which part.
_PART_OF: Final[dict[Event, str]] = {
    **dict.fromkeys(Event, "events"),
    Event.DELIVER: "deliveries",
    **dict.fromkeys((Event.SEND, Event.RECEIVE, Event.DROP), "packets"),
}
BUCKETED: Final = ("deliveries", "packets")

_TEXT = ("run", "event", "topic", "note", "deps.list.element.topic")


class TraceDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """One run's trace on disk, as its own metadata describes it."""

    path: Path
    run: str
    buckets: int
    #: Rows of the run, and rows by file name.
    rows: int
    rows_in: dict[str, int]

    def file(self, part: str, bucket: int) -> Path:
        return self.path / bucket_name(part, bucket)

    def files(self) -> list[Path]:
        return [self.path / name for name in self.rows_in]


def part_of(event: Event) -> str:
    return _PART_OF[event]


def bucket_name(part: str, bucket: int) -> str:
    return f"{part}-{bucket:02d}.parquet"


# -- writing ----------------------------------------------------------------------------------------------------------


def write_directory(table: pa.Table, path: Path, *, bucket_rows: int = BUCKET_ROWS) -> None:
    """Write a trace (in `SCHEMA`, rows in order) as the directory `path`, replacing what is there."""
    table = table.append_column(ROW, pa.array(np.arange(len(table)), pa.int64()))
    parts = _split(table)
    largest = max(len(parts["deliveries"]), len(parts["packets"]))
    nodes = pc.count_distinct(table["node"]).as_py()
    buckets = max(1, min(-(-largest // bucket_rows), nodes))
    files = {EVENTS: parts["events"]}
    for part in BUCKETED:
        files.update(_buckets(part, parts[part], buckets))
    run = table["run"][0].as_py() if len(table) else path.name
    with AtomicDirectory(path) as hidden:
        write_parts(files, hidden, run=run, buckets=buckets)


def write_parts(files: dict[str, pa.Table], path: Path, *, run: str, buckets: int) -> None:
    """Write the files of a trace directory, already split and sorted, into the empty directory `path`."""
    rows_in = {name: len(part) for name, part in files.items()}
    for name, part in files.items():
        about = {"version": _VERSION, "run": run, "file": name, "buckets": buckets, "rows_in": rows_in}
        metadata = {**(STORED.metadata or {}), LAYOUT: json.dumps(about).encode()}
        pq.write_table(
            part.replace_schema_metadata(metadata),
            path / name,
            compression={column: "zstd" if column in _TEXT else "none" for column in _leaves()},
            use_dictionary=[column for column in _leaves() if column in _TEXT],
            column_encoding={column: "DELTA_BINARY_PACKED" for column in _leaves() if column not in _TEXT},
            write_page_checksum=True,
        )


class AtomicDirectory:
    """Writes a directory under a hidden name; renames it to `path` if the block ends without an error."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hidden = path.with_name(f".{path.name}.{os.getpid()}")

    def __enter__(self) -> Path:
        shutil.rmtree(self._hidden, ignore_errors=True)
        self._hidden.mkdir(parents=True)
        return self._hidden

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            old = self._hidden.with_name(f"{self._hidden.name}.old")
            if self._path.exists():  # of other code, or of a task that was tried twice
                os.replace(self._path, old)
            os.replace(self._hidden, self._path)
            shutil.rmtree(old, ignore_errors=True)
        shutil.rmtree(self._hidden, ignore_errors=True)


def _split(table: pa.Table) -> dict[str, pa.Table]:
    events = {event.name.lower(): part for event, part in _PART_OF.items()}
    part_of = pc.cast(table["event"], pa.string())
    return {
        part: table.filter(pc.is_in(part_of, pa.array([name for name, its in events.items() if its == part])))
        for part in ("events", *BUCKETED)
    }


def _buckets(part: str, table: pa.Table, buckets: int) -> Iterator[tuple[str, pa.Table]]:
    node = table["node"].to_numpy()
    order = np.argsort(node, kind="stable")  # rows stay in order at each node
    bucket = node[order] % buckets
    for number in range(buckets):
        yield bucket_name(part, number), table.take(pa.array(order[bucket == number])).combine_chunks()


def _leaves() -> list[str]:
    names = [field.name for field in STORED if field.name != "deps"]
    return [*names, *(f"deps.list.element.{name}" for name in ("topic", "source", "seq"))]


def is_trace_directory(path: Path) -> bool:
    """Tell whether `path` looks like a trace directory: it has `events.parquet`."""
    return (path / EVENTS).is_file()


# -- reading ----------------------------------------------------------------------------------------------------------


def open_directory(path: Path) -> TraceDirectory:
    """What `path` holds, after every one of its files was found to be what it should."""
    events = path / EVENTS
    about = _about(events)
    rows_in: dict[str, int] = about["rows_in"]
    names = {file.name for file in path.glob("*.parquet")}
    for name in sorted(names - set(rows_in)):
        raise UsageError("trace", str(path / name), f"is no part of {events}", "remove it, or put it elsewhere")
    for name, rows in rows_in.items():
        file = path / name
        if name not in names:
            raise UsageError("trace", str(file), f"is missing, {events} says it has {rows} rows", "run it again")
        if name != EVENTS and _about(file) != {**about, "file": name}:
            raise UsageError("trace", str(file), f"belongs to another trace than {events}", "run it again")
        found = pq.read_metadata(file).num_rows
        if found != rows:
            raise UsageError("trace", str(file), f"has {found} rows, {events} says {rows}", "run it again")
    return TraceDirectory(
        path=path, run=about["run"], buckets=about["buckets"], rows=sum(rows_in.values()), rows_in=rows_in
    )


def read_part(file: Path, columns: list[str] | None = None, *, optional: Collection[str] = ()) -> pa.Table:
    """A checked file of a trace directory. `optional`: of `columns`, those left out if they hold only nulls."""
    try:
        # Three times as fast as `read_table`, which makes a data set of it first.
        with pq.ParquetFile(file, page_checksum_verification=True, pre_buffer=True) as opened:
            if columns is not None and optional:
                useless = _only_nulls(opened.metadata).intersection(optional)
                columns = [name for name in columns if name not in useless]
            return opened.read(columns=columns, use_threads=False)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        problem = f"cannot be read ({str(error).splitlines()[0]})"
        raise UsageError("trace", str(file), problem, "the file is damaged; run it again") from None


def _only_nulls(about: pq.FileMetaData) -> set[str]:
    found: list[set[str]] = []
    for group in map(about.row_group, range(about.num_row_groups)):
        columns = [group.column(number) for number in range(group.num_columns)]
        known = [column for column in columns if column.statistics is not None]
        found.append({each.path_in_schema for each in known if each.statistics.null_count == group.num_rows})
    return set.intersection(*found) if found else set()


def read_directory(path: Path) -> pa.Table:
    """The whole trace in `SCHEMA`, rows in the order in which things happened: as if it were one file."""
    found = open_directory(path)
    table = pa.concat_tables([read_part(file) for file in found.files()]).unify_dictionaries()
    for field in SCHEMA:
        if field.name not in table.column_names:  # a trace of an earlier version
            table = table.append_column(field, pa.nulls(len(table), field.type))
    order = np.argsort(table["row"].to_numpy())
    table = table.take(pa.array(order)).select(SCHEMA.names).cast(SCHEMA).replace_schema_metadata(SCHEMA.metadata)
    check_values(table, str(path))
    return table


def _about(file: Path) -> dict[str, Any]:
    check_part(file, STORED)
    text = (pq.read_schema(file).metadata or {}).get(LAYOUT)
    try:
        about: dict[str, Any] = json.loads(text or b"null")
    except ValueError:
        about = {}
    if not about or about.get("version") != _VERSION:
        raise UsageError("trace", str(file), "is no part of a trace directory", "name one antecede wrote")
    return about
