"""Beyond one machine: the same commands against a real standalone cluster give the same results."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from antecede.audit import Question
from antecede.experiments import find
from antecede.spark.audit_targets import find_targets
from antecede.spark.manifest import load_runs
from antecede.spark.results import load_summary, load_values
from antecede.spark.sweep import sweep
from antecede.spark.sweep_directory import find_traces, read_request
from antecede.spark.verdicts import judge
from antecede.trace.directory import read_directory

from .cluster import cluster

EXPERIMENT = "vcube-ps-authors"

#: Where do the workers of this master have the package from?
WHERE = """
import sys
from antecede.spark.session import spark_session
def where(_):
    import antecede
    return antecede.__file__
context = spark_session(sys.argv[1], short=True).sparkContext
print(sorted(set(context.parallelize(range(4), 4).map(where).collect())))
"""


def python(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_MASTER"}
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=600, check=False, env=environment, cwd=cwd
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_a_cluster_gives_what_one_machine_gives(spark: SparkSession, tmp_path: Path) -> None:
    away, here = tmp_path / "away", tmp_path / "here"
    with cluster(tmp_path / "cluster") as master:
        shipped = python("-c", WHERE, master, cwd=tmp_path).stdout
        assert ".zip/antecede" in shipped
        words = ("experiments", "run", EXPERIMENT, "--seeds", "1", "--trace")
        python("-m", "antecede", *words, "--out", str(away), "--master", master, cwd=tmp_path)
        judged = python("-m", "antecede", "audit", str(away), "--json", "--master", master, cwd=tmp_path)
    assert read_request(away).environment["master"] == master
    sweep(spark, [find(EXPERIMENT)], (1,), here, trace=True)
    assert load_summary(away) == load_summary(here)
    assert load_values(away) == load_values(here)
    found, expected = ({row.key: (row.metrics, row.trace) for row in load_runs(place)} for place in (away, here))
    assert found == expected
    for trace in find_traces(here):
        assert read_directory(away / trace.relative_to(here)).equals(read_directory(trace))
    ours = {
        verdict.target.name: verdict.to_dict()["report"] for verdict in judge(spark, find_targets([here]), Question())
    }
    assert {run["run"]: run["report"] for run in json.loads(judged.stdout)} == ours
