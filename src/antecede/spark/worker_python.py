"""Starts the Python workers of Spark on one machine with a third of the processor time.

Spark puts its own `pyspark.zip` first on the path of every Python worker. Python keeps no compiled modules for a zip,
so each worker compiles PySpark anew. That takes 0.5 s of processor time for the daemon that forks the others, and 0.7 s
for the process of each streaming query, which must start within ten seconds however busy the machine is. The PySpark
installed beside this Python is the same code, compiled already: it takes 0.15 s and 0.25 s.

So the workers run a script in the user's cache that takes the zips off the path and then runs this Python.
"""

import hashlib
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pyspark

from antecede.spark.archive import cache_directory

_VARIABLE: Final = "PYSPARK_PYTHON"

_SCRIPT: Final = """#!/bin/sh
# Made by {module}, which says why. It can be deleted: the next Spark session makes it again.
set -f
kept=
IFS=:
for entry in $PYTHONPATH; do
  case $entry in
    */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip) ;;
    *) kept=$kept${{kept:+:}}$entry ;;
  esac
done
PYTHONPATH=$kept exec {python} "$@"
"""


@contextmanager
def workers_run_this_python(*, on_this_machine: bool) -> Iterator[None]:
    """Let a session that is made in this context run its workers with this Python: PySpark takes any `python3`.

    A Python chosen with PYSPARK_PYTHON stays chosen.
    """
    if _VARIABLE in os.environ:
        yield
        return
    os.environ[_VARIABLE] = (_launcher() if on_this_machine else None) or sys.executable
    try:
        yield
    finally:
        del os.environ[_VARIABLE]


def _launcher() -> str | None:
    """The script, made if need be; None where it cannot be made or run, or where PySpark itself comes from a zip."""
    if os.name != "posix" or not Path(pyspark.__file__).is_file():
        return None
    script = _SCRIPT.format(module=__name__, python=shlex.quote(sys.executable))
    path = cache_directory() / f"worker-python-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    with suppress(OSError):
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(f".{os.getpid()}")
            temporary.write_text(script)
            temporary.chmod(0o755)
            os.replace(temporary, path)
    return str(path) if os.access(path, os.X_OK) else None
