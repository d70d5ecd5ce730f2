"""The directory of a sweep: the paths of its files, the lock of its writer, and what `sweep.json` says.

DIR/
  sweep.json                             the request: experiments, seeds, time, code version, machine
  runs/experiment=NAME/runs.parquet      one row per run: spec, metrics, error, replay command (`manifest`)
  runs/experiment=NAME/.journal.jsonl    rows that finished since `runs.parquet` was last written
  values.parquet                         one row per measured value: experiment, setting, seed, …, value
  summary.parquet, summary.json          one row per line of a result table (`experiments.summary.Line`)
  audit.parquet, audit.json              one row per run and rule, after `antecede audit DIR`
  traces/experiment=NAME/KEY/            with --trace: the trace directory of the run whose spec has this key
"""

import fcntl
import os
import platform
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from antecede.core import UsageError
from antecede.spark.java import check_java
from antecede.spark.ship import code_version
from antecede.trace.directory import BUCKETED, EVENTS

_FORMAT = 1


class SweepRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The latest request to a sweep directory, with the command that repeats it."""

    format: int = _FORMAT
    command: str
    experiments: list[str]
    seeds: list[int]
    full: bool
    trace: bool
    started: str
    #: None while the sweep runs, or if it was killed.
    finished: str | None = None
    runs: int = 0
    failed: int = 0
    environment: dict[str, Any] = {}


def check_out(out: Path, *, resume: bool) -> None:
    """Refuse an `out` that is neither new, nor empty, nor a sweep to continue."""
    if out.exists() and not out.is_dir():
        raise UsageError("--out", str(out), "is a file", "name a directory")
    there = out.is_dir() and any(name.name != ".lock" for name in out.iterdir())
    if there and not is_sweep(out):
        raise UsageError("--out", str(out), "holds other files", "name a new directory")
    if there and not resume:
        raise UsageError("--out", str(out), "already holds results", "continue it with --resume, or name another")
    if there:
        read_request(out)


@contextmanager
def claim(out: Path, *, resume: bool) -> Iterator[None]:
    """Check `out` (`check_out`) and lock it against other sweeps inside the block."""
    check_out(out, resume=resume)
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / ".lock").open("wb")
    except OSError as error:
        raise UsageError(
            "--out", str(out), f"cannot be written ({error.strerror})", "choose another directory"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError("--out", str(out), "is being written by another sweep", "wait for it to end") from None
        yield


def read_request(out: Path) -> SweepRequest:
    """Read `sweep.json`."""
    path = out / "sweep.json"
    try:
        asked = msgspec.json.decode(path.read_bytes(), type=SweepRequest)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError("sweep", str(path), f"cannot be read ({error})", "name a sweep's directory") from None
    if asked.format != _FORMAT:
        problem = f"has format {asked.format}, this antecede reads {_FORMAT}"
        raise UsageError("sweep", str(path), problem, "use the version that wrote it")
    return asked


def write_request(out: Path, asked: SweepRequest) -> None:
    write_bytes(out / "sweep.json", msgspec.json.format(msgspec.json.encode(asked), indent=2) + b"\n")


def environment(master: str) -> dict[str, Any]:
    """The environment of the results: versions and machine."""
    return {
        "antecede": version("antecede"),
        "code": code_version(),
        "python": platform.python_version(),
        "pyspark": version("pyspark"),
        "numpy": version("numpy"),
        "pyarrow": version("pyarrow"),
        "java": check_java(),
        "master": master,
        "system": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "byteorder": sys.byteorder,
    }


# -- files ------------------------------------------------------------------------------------------------------------


def is_sweep(path: Path) -> bool:
    return (path / "sweep.json").is_file()


def runs_path(out: Path, experiment: str) -> Path:
    return out / "runs" / f"experiment={experiment}" / "runs.parquet"


def journal_path(out: Path, experiment: str) -> Path:
    return runs_path(out, experiment).with_name(".journal.jsonl")


def trace_path(out: Path, experiment: str, key: str) -> Path:
    return out / "traces" / f"experiment={experiment}" / key


def find_traces(path: Path) -> list[Path]:
    """List every trace under `path` by name: trace directories, files, and tables in several files.

    The other tables of a sweep are left out.
    """
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
        elif not sweep and is_table(here, files):
            found.append(here)
            names.clear()
        elif not sweep:
            found += [here / name for name in parquet]
    return found


def is_table(path: Path, files: Iterable[str] | None = None) -> bool:
    """Tell whether the files of a directory are one table, as Spark writes it."""
    names = os.listdir(path) if files is None else files
    return any(name == "_SUCCESS" or (name.startswith("part-") and name.endswith(".parquet")) for name in names)


def remove_unfinished(out: Path) -> None:
    """Remove the traces that a killed sweep left half written. The caller must have claimed the directory."""
    for left in (out / "traces").glob("experiment=*/.*"):
        shutil.rmtree(left, ignore_errors=True)


def write_bytes(path: Path, data: bytes) -> None:
    """Replace the file `path` by one with `data`, at once."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def columns_of(row: type) -> list[pa.Field]:
    """The Arrow columns of a table whose rows are of this class."""
    arrow = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    columns = []
    for name, hint in get_type_hints(row).items():
        optional = type(None) in get_args(hint)
        columns.append(pa.field(name, arrow[get_args(hint)[0] if optional else hint], nullable=optional))
    return columns


def write_table(path: Path, table: pa.Table) -> None:
    """Replace the Parquet file `path` by one with `table`, at once."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)
    os.replace(temporary, path)
