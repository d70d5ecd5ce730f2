"""A real standalone cluster on loopback: a master and workers, from the Spark that PySpark brings."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


@contextmanager
def cluster(place: Path, workers: int = 2) -> Iterator[str]:
    """The address of a master whose workers have registered. Everything is stopped at the end."""
    port = _free_port()
    address = f"spark://127.0.0.1:{port}"
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(_start(place / "master", "master.Master", "--host", "127.0.0.1", "--port", str(port)))
        _wait(place / "master.log", b"I have been elected leader")
        for number in range(workers):
            name = f"worker-{number}"
            started.append(
                _start(
                    place / name,
                    "worker.Worker",
                    *("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--work-dir", str(place / name)),
                    address,
                )
            )
        for number in range(workers):
            _wait(place / f"worker-{number}.log", b"Successfully registered with master")
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            process.wait(30)


def _start(place: Path, what: str, *words: str) -> subprocess.Popen[bytes]:
    place.mkdir(parents=True)
    # Workers know nothing of where this package is: it has to be brought to them.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "512m"}
    with place.with_suffix(".log").open("wb") as log:
        return subprocess.Popen(
            [str(SPARK_CLASS), f"org.apache.spark.deploy.{what}", "--webui-port", "0", *words],
            stdout=log,
            stderr=log,
            env=environment,
            cwd=place,
        )


def _wait(log: Path, words: bytes, patience_s: float = 120) -> None:
    deadline = time.monotonic() + patience_s
    while words not in log.read_bytes():
        assert time.monotonic() < deadline, f"{log} never said {words!r}:\n{log.read_text()}"
        time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
