"""Spark Connect: registration, source, sink, causal order and sort, audit and metrics with a remote session."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_a_remote_session_does_all_of_it(tmp_path: Path) -> None:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.connected", str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.strip().splitlines()[-1]) == {
        "read": ["1", "2"],
        "answers": ["re: 1", "re: 2"],
        "sorted": [1, 2],
        "violated": ["exactly-once"],
        "of files": ["exactly-once"],
        "delivered": [2],
    }
