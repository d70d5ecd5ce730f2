"""The directory of a sweep: who may write there, and what it says of itself (`sweep.json`)."""

import fcntl
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from antecede.core import UsageError
from antecede.spark.java import check_java
from antecede.spark.ship import code_version
from antecede.trace import layout

_FORMAT = 1


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep was asked for, most lately; with what it takes to ask again."""

    format: int = _FORMAT
    command: str
    experiments: list[str]
    seeds: list[int]
    full: bool
    trace: bool
    started: str
    #: None while it is going on, or if it was killed.
    finished: str | None = None
    runs: int = 0
    failed: int = 0
    environment: dict[str, Any] = {}


def check_place(out: Path, *, resume: bool) -> None:
    """Make sure `out` is ours to write: new, empty, or a sweep to continue."""
    if out.exists() and not out.is_dir():
        raise UsageError("--out", str(out), "is a file", "name a directory")
    there = out.is_dir() and any(name.name != ".lock" for name in out.iterdir())
    if there and not layout.is_sweep(out):
        raise UsageError("--out", str(out), "holds other files", "name a new directory")
    if there and not resume:
        raise UsageError("--out", str(out), "already holds results", "continue it with --resume, or name another")
    if there:
        read_asked(out)


@contextmanager
def claim(out: Path, *, resume: bool) -> Iterator[None]:
    """`out` is ours to write (`check_place`), and nobody else's meanwhile."""
    check_place(out, resume=resume)
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / ".lock").open("wb")
    except OSError as error:
        raise UsageError("--out", str(out), f"cannot be written ({error.strerror})", "choose another place") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError("--out", str(out), "is being written by another sweep", "wait for it to end") from None
        yield


def read_asked(out: Path) -> Asked:
    """What a sweep's directory says of itself."""
    path = out / "sweep.json"
    try:
        asked = msgspec.json.decode(path.read_bytes(), type=Asked)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError("sweep", str(path), f"cannot be read ({error})", "name a sweep's directory") from None
    if asked.format != _FORMAT:
        problem = f"has format {asked.format}, this antecede reads {_FORMAT}"
        raise UsageError("sweep", str(path), problem, "use the version that wrote it")
    return asked


def write_asked(out: Path, asked: Asked) -> None:
    layout.write_whole(out / "sweep.json", msgspec.json.format(msgspec.json.encode(asked), indent=2) + b"\n")


def environment(master: str) -> dict[str, Any]:
    """Where results came from."""
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
