"""The session: which one is used, what it is told, and what is said when there can be none."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from antecede.core import UsageError
from antecede.spark import session as sessions
from antecede.spark.java import check_java
from antecede.spark.session import is_local, settings, spark_session
from antecede.spark.ship import code_version, zip_package


@pytest.fixture(autouse=True)
def _forget_java() -> Iterator[None]:
    check_java.cache_clear()
    yield
    check_java.cache_clear()


def fake_java(home: Path, script: str) -> None:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)


def test_this_java_will_do() -> None:
    assert check_java() >= 17


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("""echo 'openjdk version "11.0.2" 2019' >&2""", "is version 11; Spark needs 17 or later"),
        (  # Java 8 does not know modules
            """[ "$1" = -version ] && { echo 'java version "1.8.0_202"' >&2; exit 0; }
            echo 'Unrecognized option: --add-modules' >&2; exit 1""",
            "is version 8; Spark needs 17 or later",
        ),
        (
            """[ "$1" = -version ] && { echo 'openjdk version "17.0.1"' >&2; exit 0; }
            echo 'Error occurred: module jdk.incubator.vector not found' >&2; exit 1""",
            "lacks the module jdk.incubator.vector",
        ),
        ("exit 3", "cannot run Spark: it ended without output"),
    ],
)
def test_a_java_that_will_not_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str) -> None:
    fake_java(tmp_path, script)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match=said) as caught:
        check_java()
    assert "apt-get install openjdk-17-jre-headless" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_java_is_told_before_spark_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing here"))
    monkeypatch.setattr(sessions.SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(UsageError, match="was not found; Spark needs version 17 or later"):
        spark_session("local[1]")


def test_a_master_that_is_not_there_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions.SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(UsageError, match=r"nothing answers at 127\.0\.0\.1:1 "):
        spark_session("spark://127.0.0.1:1")
    with pytest.raises(UsageError, match=r"nothing answers at nonsense \(it is not host:port\)"):
        spark_session("spark://nonsense")


def test_an_active_session_is_used(spark: SparkSession) -> None:
    assert spark_session() is spark
    assert spark_session("spark://elsewhere:7077") is spark


def test_the_session_is_quiet_and_runs_this_python(spark: SparkSession) -> None:
    context = spark.sparkContext
    assert context.getConf().get("spark.ui.enabled") == "false"
    assert context.getConf().get("spark.ui.showConsoleProgress") == "false"
    found = context.parallelize([0], 1).map(lambda _: os.path.realpath(sys.executable)).first()
    assert found == os.path.realpath(sys.executable)


def test_settings_for_one_machine_and_for_a_cluster() -> None:
    here, there = settings("local[*]"), settings("spark://10.0.0.1:7077")
    assert here["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in there
    assert "FileSystemBased" in here["spark.sql.streaming.checkpointFileManagerClass"]  # no process for each rename
    assert "spark.sql.streaming.checkpointFileManagerClass" not in there  # there checkpoints are not local files
    for option in ("UseParallelGC", "Tier4InvocationThreshold"):
        assert option in here["spark.driver.extraJavaOptions"]
        assert option not in there["spark.driver.extraJavaOptions"]
    assert "TieredStopAtLevel=1" not in here["spark.driver.extraJavaOptions"]
    assert "TieredStopAtLevel=1" in settings("local[*]", short=True)["spark.driver.extraJavaOptions"]
    assert [is_local(master) for master in ("local", "local[4]", "local-cluster[2,1,1024]", "yarn")] == [
        True,
        True,
        False,
        False,
    ]


def test_the_shipped_package_is_this_package(tmp_path: Path) -> None:
    """What a worker of a cluster imports from the zip has the same code version, and finds its data."""
    code_version.cache_clear()
    zip_package(tmp_path / "antecede.zip")
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import antecede; assert '.zip' in antecede.__file__;"
        "from antecede.experiments.published import published; assert published();"
        "from antecede.spark.ship import code_version; print(code_version())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "antecede.zip")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == code_version()
