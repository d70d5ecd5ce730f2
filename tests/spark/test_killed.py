"""A driver killed in the middle of a sweep: resumed, it gives the tables of an undisturbed one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from antecede.spark.manifest import load_runs
from antecede.spark.results import load_summary, load_values
from antecede.spark.sweep import sweep
from antecede.spark.sweep_directory import find_traces, journal_path, read_request, runs_path
from antecede.trace.directory import read_directory

from .small import Slow

ROOT = Path(__file__).parents[2]
#: The real command, with one more experiment to choose from.
COMMAND = """
import sys
from antecede.cli import main
from antecede.experiments import EXPERIMENTS
from tests.spark.small import Slow
EXPERIMENTS["slow"] = Slow()
sys.argv = ["antecede", *"experiments run slow --seeds 4 --trace --master local[2] --out".split(), sys.argv[1]]
main()
"""


def test_kill_and_resume(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    journal = journal_path(out, "slow")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    driver = subprocess.Popen([sys.executable, "-c", COMMAND, str(out)], env=environment, cwd=tmp_path)
    deadline = time.monotonic() + 180
    while not journal.exists() or journal.read_bytes().count(b"\n") < 5:
        assert driver.poll() is None, "the sweep ended before it could be killed"
        assert time.monotonic() < deadline, "the sweep did not get going"
        time.sleep(0.05)
    driver.send_signal(signal.SIGKILL)
    driver.wait()

    rows = load_runs(out)
    assert 5 <= len(rows) < 16
    # Whoever edits the sources while this test runs does not change what it tests.
    monkeypatch.setattr("antecede.spark.sweep.code_version", lambda: rows[0].code)
    assert read_request(out).finished is None
    result = sweep(spark, [Slow()], range(1, 5), out, trace=True, resume=True)
    assert result.complete >= 5
    assert result.complete + result.done == 16
    assert not result.failed

    undisturbed = tmp_path / "undisturbed"
    sweep(spark, [Slow()], range(1, 5), undisturbed, trace=True)
    assert load_summary(out) == load_summary(undisturbed)
    assert load_values(out) == load_values(undisturbed)
    found, expected = ({row.key: (row.metrics, row.trace) for row in load_runs(place)} for place in (out, undisturbed))
    assert found == expected
    for trace in find_traces(undisturbed):
        same = out / trace.relative_to(undisturbed)
        assert read_directory(same).equals(read_directory(trace))
    hidden = [path for path in out.rglob(".*") if path.name != ".lock"]
    assert all(path.name.startswith(".") and "." in path.name[1:] for path in hidden)


@pytest.mark.slow
def test_ctrl_c(tmp_path: Path) -> None:
    """One line, exit code 130, and the tables of what was finished."""
    out = tmp_path / "out"
    journal = journal_path(out, "slow")
    driver = subprocess.Popen(
        [sys.executable, "-c", COMMAND, str(out)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 180
    while not journal.exists() or journal.read_bytes().count(b"\n") < 5:
        assert driver.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    driver.send_signal(signal.SIGINT)
    _, said = driver.communicate(timeout=120)
    assert driver.returncode == 130
    assert said.startswith("stopped; continue with: antecede experiments run slow")
    assert said.endswith("--resume\n")
    assert len(load_runs(out)) >= 5
    assert load_summary(out)
    assert runs_path(out, "slow").exists()
