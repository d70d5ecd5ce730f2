"""Makes an archive of loaded classes, with which a JVM starts in about half the time. Optional, made once per machine.

    python -m antecede.spark.archive

The archive lies in the user's cache, under the versions of Spark and Java it belongs to; a JVM ignores an archive that
does not fit. Short commands use it, because starting is most of their time.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pyspark

from antecede.core import UsageError
from antecede.spark.java import check_java

_WARM_UP: Final = """
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
session.sparkContext.parallelize([0], 1).map(str).collect()
session.range(3).groupBy("id").count().collect()
session.stop()
"""


def cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "antecede"


def archive_path() -> Path:
    return cache_directory() / f"spark-{pyspark.__version__}-java-{check_java()}.jsa"


def archive_options() -> list[str]:
    """The JVM options that use the archive; none if it was not made."""
    path = archive_path()
    return [f"-XX:SharedArchiveFile={path}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"] if path.is_file() else []


def make_archive() -> Path:
    path = archive_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    options = f"-XX:ArchiveClassesAtExit={temporary} -XX:+UseSerialGC -Xlog:cds=off -Xlog:cds+dynamic=off"
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"--driver-java-options '{options}' pyspark-shell",
    }
    # Writing the archive keeps the JVM alive after the Python that started it; its pipe closes when the JVM ends.
    with subprocess.Popen(
        [sys.executable, "-c", _WARM_UP], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        said, _ = process.communicate()
    if not temporary.is_file():
        problem = (said.strip().splitlines() or ["no output"])[-1]
        raise UsageError("archive", str(path), f"was not made ({problem})", "short commands work without it")
    os.replace(temporary, path)
    return path


if __name__ == "__main__":
    sys.stdout.write(f"{make_archive()}\n")
