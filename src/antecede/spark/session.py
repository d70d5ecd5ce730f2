"""Makes the Spark session, for small machines, large ones and clusters.

An active session (a notebook's) is used as it is. Otherwise a session is made at `master`, at `$SPARK_MASTER`, or on
all cores of this machine. A second call returns the same session: starting one takes seconds.

Why these settings (measured). The user interface and the progress lines cost start-up time and spoil the terminal.
Workers are reused, since a fresh one costs nearly a second per task. Partitions are not coalesced: that would put small
groups on one Python worker. Tasks do their work in Python, so the JVM needs little memory. `short` commands start the
JVM with the quick compiler only: long shuffles then run at half speed, and short commands have none. They also leave
out topics as tables (`topics`), whose registration starts a Python worker and takes some seconds.

On one machine, three more. Rows pass the JVM as byte arrays of megabytes, for which the default collector (G1) marks
the whole heap again and again; the parallel one takes a third less processor time. And a batch of a stream writes some
seven checkpoint files. By default Spark renames each through Hadoop's `FileContext`, which starts eight processes
(`readlink`) to do so; `FileSystem` starts none, and renames with the same system call. And the JVM's optimising
compiler (C2) begins later and inlines less deeply (`_COMPILER`). Planning a batch runs thousands of methods a few
hundred times each. Compiling those took a third of the processor time of a stream's first million rows. What runs for
each row is called often enough to be compiled all the same.
"""

import os
import socket
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from antecede.core import UsageError
from antecede.spark.archive import archive_options
from antecede.spark.java import check_java
from antecede.spark.jvm_output import filtered_stderr
from antecede.spark.ship import ship_package
from antecede.spark.worker_python import workers_run_this_python

_GIB: Final = 1 << 30
_CONNECT_S: Final = 5
_CHECKPOINTS: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
#: The thresholds are ten times Java's own; the depth is that of Java up to 13.
_COMPILER: Final = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
    "-XX:MaxInlineLevel=9",
)
#: How often Spark tries a task on one machine before it gives up, if its worker dies.
TASK_FAILURES_MAX: Final = 2


def spark_session(master: str | None = None, *, short: bool = False) -> SparkSession:
    """Return the session. `short`: the JVM should start fast rather than run long queries well."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    master = master or os.environ.get("SPARK_MASTER") or "local[*]"
    check_java()
    _check_master(master)
    builder = SparkSession.builder.appName("antecede").master(_with_failures(master))
    for name, value in settings(master, short=short).items():
        builder = builder.config(name, value)
    try:
        with filtered_stderr(), workers_run_this_python(on_this_machine=is_local(master)):
            session = builder.getOrCreate()
    except Exception as error:  # Py4J's own errors, a master that does not answer, a port that is taken
        raise UsageError("master", master, f"Spark did not start ({_cause(error)})", "check the address") from None
    session.sparkContext.setLogLevel("ERROR")
    if not is_local(master):
        ship_package(session.sparkContext)
    if not short:
        from antecede.spark.topics.format import register  # noqa: PLC0415 - short commands read no topics

        register(session)
    return session


def is_local(master: str) -> bool:
    return master.startswith("local") and not master.startswith("local-cluster")


def _check_master(master: str) -> None:
    """Refuse a standalone master that does not answer. Spark itself would try for more than a minute."""
    if not master.startswith("spark://"):
        return
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not host:port"
            problem = f"nothing answers at {address} ({reason})"
            raise UsageError("master", master, problem, "start the cluster, or leave --master out") from None


def _cause(error: Exception) -> str:
    """The line of a stack trace that says what happened."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    said = [line.strip(": ") for line in lines if "Exception: " in line]
    return said[-1] if said else lines[0]


def settings(master: str, *, short: bool = False) -> dict[str, str]:
    """Spark's settings for a session at `master`."""
    cores = os.cpu_count() or 1
    chosen = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": str(min(64, max(4, 2 * cores))),
        "spark.driver.memory": _driver_memory(),
        "spark.driver.extraJavaOptions": " ".join(_java_options(short, is_local(master))),
    }
    if is_local(master) or "//127.0.0.1" in master or "//localhost" in master:
        # Without this Spark looks up its host name, warns, and may listen on an interface that does not exist.
        chosen["spark.driver.bindAddress"] = "127.0.0.1"
        chosen["spark.driver.host"] = "127.0.0.1"
    if is_local(master):
        chosen["spark.sql.streaming.checkpointFileManagerClass"] = _CHECKPOINTS
    return chosen


def _with_failures(master: str) -> str:
    """Let Spark try a task again if its worker dies: by default `local[*]` gives up the whole job."""
    if master.startswith("local[") and "," not in master:
        return f"{master[:-1]},{TASK_FAILURES_MAX}]"
    return master


def _java_options(short: bool, local: bool) -> list[str]:
    options = [f"-Dlog4j2.configurationFile={_log_settings().as_uri()}", "-Djava.net.preferIPv4Stack=true"]
    if short:
        # With one tier of compilation the JVM reserves 48 MB for code, which a long session of many queries fills.
        options += ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", *archive_options()]
    elif local:
        options += ["-XX:+UseParallelGC", *_COMPILER]
    return options


def _log_settings() -> Path:
    with as_file(files("antecede.spark").joinpath("log4j2.properties")) as path:
        return path


def _driver_memory() -> str:
    """A quarter of the machine, between 1 and 8 GiB: results are small, and tasks keep their arrays in Python."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not everywhere
        memory = 4 * _GIB
    return f"{min(8, max(1, memory // 4 // _GIB))}g"
