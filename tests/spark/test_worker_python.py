"""Workers on one machine import the installed PySpark, and run whatever Python the user chose."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from antecede.spark.worker_python import workers_run_this_python

_SHOW_PATH = "import os; print(os.environ['PYTHONPATH'])"


def _chosen(*, on_this_machine: bool = True) -> str:
    with workers_run_this_python(on_this_machine=on_this_machine):
        return os.environ["PYSPARK_PYTHON"]


def _path_seen_by_a_worker(entries: list[str]) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entries)}
    run = subprocess.run([_chosen(), "-c", _SHOW_PATH], env=environment, capture_output=True, text=True, check=True)
    return run.stdout.strip()


@pytest.fixture(autouse=True)
def _nothing_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield
    assert "PYSPARK_PYTHON" not in os.environ


def test_a_worker_imports_what_is_installed(spark: SparkSession) -> None:
    def where(_: int) -> tuple[str, str]:
        return pyspark.__file__, sys.executable

    assert spark.sparkContext.parallelize([0], 1).map(where).collect() == [(pyspark.__file__, sys.executable)]


def test_only_the_zips_of_spark_leave_the_path() -> None:
    lib = "/opt/spark/python/lib"
    mine = ["/home/me/my code/*", "/jobs/pyspark.zip", "/jobs/tools.zip"]
    theirs = [f"{lib}/pyspark.zip", f"{lib}/py4j-0.10.9.9-src.zip"]
    assert _path_seen_by_a_worker([*theirs, *mine]) == os.pathsep.join(mine)


def test_an_empty_path_stays_empty() -> None:
    assert _path_seen_by_a_worker(["/opt/spark/python/lib/pyspark.zip"]) == ""


def test_a_python_whose_name_has_a_space(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    beside = tmp_path / "my python's"
    beside.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(beside))
    assert _path_seen_by_a_worker(["/jobs"]) == "/jobs"


def test_a_chosen_python_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    assert _chosen() == "/opt/python"
    monkeypatch.delenv("PYSPARK_PYTHON")


def test_other_machines_are_told_of_this_python() -> None:
    assert _chosen(on_this_machine=False) == sys.executable


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    assert _chosen() == sys.executable


def test_a_deleted_script_is_made_again(tmp_path: Path) -> None:
    first = _chosen()
    shutil.rmtree(tmp_path / "cache")
    assert _chosen() == first
    assert os.access(first, os.X_OK)
