"""Where a sweep keeps what it makes. Everything that reads or writes these places goes through this file.

    DIR/
      sweep.json                                    what was asked, when, by which code, on what machine
      runs/experiment=NAME/runs.parquet             one row a run: its spec, metrics, error, replay command (`manifest`)
      runs/experiment=NAME/.journal.jsonl           rows that finished since `runs.parquet` was last written
      values.parquet                                one row a measured value: experiment, setting, seed, …, value
      summary.parquet, summary.json                 one row a line of a result table (`experiments.summary.Line`)
      audit.parquet, audit.json                     one row a run and rule, after `antecede audit DIR`
      traces/experiment=NAME/KEY/                   with --trace: the trace of the run whose spec has this key
        events.parquet                              publish, subscribe, unsubscribe, crash and recover rows
        deliveries-00.parquet, -01, …               deliver rows, in buckets by receiver: node modulo the number of them
        packets-00.parquet, -01, …                  send, receive and drop rows, in buckets by node

A trace directory holds the one trace schema (`antecede.trace.SCHEMA`), each row exactly once, plus the column `row`:
the row's place in the run. A single file says that by its order; parts cannot. Buckets are sorted by node and then by
row, so that one task judges one bucket without sorting, and a node's history is one slice of it. Every file says in
its metadata which part of what it is, and `events.parquet` how many rows each part must have: a directory that lost a
file, or gained a foreign one, is refused.

A directory is written under a hidden name and put in place whole. Integers are delta-encoded and not compressed, which
on these columns is both the smallest and the fastest to read; text is compressed; pages carry checksums.
"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from antecede.core import UsageError
from antecede.trace import SCHEMA, Event
from antecede.trace.files import check_trace

#: A bucket holds about so many rows. One bucket is one task's work and one task's memory (some 50 bytes a row).
BUCKET_ROWS: Final = 1_000_000

ROW: Final = pa.field("row", pa.int64(), nullable=False)
#: What the files of a trace directory hold.
STORED: Final = SCHEMA.append(ROW)

EVENTS: Final = "events.parquet"
_LAYOUT = b"antecede.layout"
_VERSION = 1

#: Which events stand in which part.
_PART_OF: Final[dict[Event, str]] = {
    Event.PUBLISH: "events",
    Event.SUBSCRIBE: "events",
    Event.UNSUBSCRIBE: "events",
    Event.CRASH: "events",
    Event.RECOVER: "events",
    Event.DELIVER: "deliveries",
    Event.SEND: "packets",
    Event.RECEIVE: "packets",
    Event.DROP: "packets",
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
    with Placing(path) as place:
        write_parts(files, place, run=run, buckets=buckets)


def write_parts(files: dict[str, pa.Table], place: Path, *, run: str, buckets: int) -> None:
    """Write the parts of a trace directory, already split and sorted, into the empty directory `place`."""
    rows_in = {name: len(part) for name, part in files.items()}
    for name, part in files.items():
        about = {"version": _VERSION, "run": run, "file": name, "buckets": buckets, "rows_in": rows_in}
        metadata = {**(STORED.metadata or {}), _LAYOUT: json.dumps(about).encode()}
        pq.write_table(
            part.replace_schema_metadata(metadata),
            place / name,
            compression={column: "zstd" if column in _TEXT else "none" for column in _leaves()},
            use_dictionary=[column for column in _leaves() if column in _TEXT],
            column_encoding={column: "DELTA_BINARY_PACKED" for column in _leaves() if column not in _TEXT},
            write_page_checksum=True,
        )


class Placing:
    """A directory that appears under its name whole, when the block ends without an error, or not at all."""

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


def read_part(file: Path, columns: list[str] | None = None) -> pa.Table:
    """A checked file of a trace directory."""
    try:
        # Three times as fast as `read_table`, which makes a data set of it first.
        with pq.ParquetFile(file, page_checksum_verification=True, pre_buffer=True) as opened:
            return opened.read(columns=columns, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        problem = f"cannot be read ({str(error).splitlines()[0]})"
        raise UsageError("trace", str(file), problem, "the file is damaged; run it again") from None


def read_directory(path: Path) -> pa.Table:
    """The whole trace in `SCHEMA`, rows in the order in which things happened: as if it were one file."""
    found = open_directory(path)
    table = pa.concat_tables([read_part(file) for file in found.files()]).unify_dictionaries()
    order = np.argsort(table["row"].to_numpy())
    return table.take(pa.array(order)).drop_columns([ROW.name]).cast(SCHEMA).replace_schema_metadata(SCHEMA.metadata)


def _about(file: Path) -> dict[str, Any]:
    check_trace(file, STORED)
    text = (pq.read_schema(file).metadata or {}).get(_LAYOUT)
    try:
        about: dict[str, Any] = json.loads(text or b"null")
    except ValueError:
        about = {}
    if not about or about.get("version") != _VERSION:
        raise UsageError("trace", str(file), "is no part of a trace directory", "name one antecede wrote")
    return about


# -- finding ----------------------------------------------------------------------------------------------------------


def is_directory(path: Path) -> bool:
    return (path / EVENTS).is_file()


def find_traces(path: Path) -> list[Path]:
    """Every trace under `path`, in order of their names: trace directories, and trace files on their own."""
    if not path.exists():
        raise UsageError("path", str(path), "there is no such file or directory", "check the path")
    if path.is_file():
        return [path]
    found: list[Path] = []
    for directory, names, files in os.walk(path):
        here = Path(directory)
        sweep = is_sweep(here)
        names[:] = sorted(name for name in names if not name.startswith((".", "_")) and not (sweep and name == "runs"))
        parquet = sorted(name for name in files if name.endswith(".parquet") and not name.startswith("."))
        if EVENTS in parquet:
            found.append(here)
            names.clear()
        elif parquet and any(name.partition("-")[0] in BUCKETED for name in parquet):
            raise UsageError("trace", str(here / EVENTS), "is missing beside its buckets", "run it again")
        elif not sweep:
            found += [here / name for name in parquet]
    return found


# -- the rest of a sweep ----------------------------------------------------------------------------------------------


def is_sweep(path: Path) -> bool:
    return (path / "sweep.json").is_file()


def trace_path(out: Path, experiment: str, key: str) -> Path:
    return out / "traces" / f"experiment={experiment}" / key


def sweep_up(out: Path) -> None:
    """Remove what a killed sweep left half written. Only for who has claimed the directory."""
    for left in (out / "traces").glob("experiment=*/.*"):
        shutil.rmtree(left, ignore_errors=True)


def runs_path(out: Path, experiment: str) -> Path:
    return out / "runs" / f"experiment={experiment}" / "runs.parquet"


def journal_path(out: Path, experiment: str) -> Path:
    return runs_path(out, experiment).with_name(".journal.jsonl")


def write_whole(path: Path, data: bytes) -> None:
    """Put `data` in place of whatever `path` held."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def write_table(path: Path, table: pa.Table) -> None:
    """Put `table` in place of whatever `path` held."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)
    os.replace(temporary, path)
