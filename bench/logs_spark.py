"""JetStream into Spark: a million records over eight streams, by one executor and by two, with the driver killed once.

    python bench/logs_spark.py [--records 1000000] [--streams 8] [--executors 1,2] [--kill]

One nats-server stores the records; each carries antecede's header with a past of two streams. A streaming query reads
them in batches of a tenth into Parquet. Each executor is a process with one core (`local-cluster`). The rate is that of
the query's batches, by Spark's own clock: the start of Spark is not counted. With `--kill` the driver is killed (-9)
when a third is read, and started again from its checkpoint. Every (log, offset) must be in the table once.
"""

import argparse
import base64
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from antecede.protocols.logs import Header, encode_header, log_number

PAYLOAD = bytes(100)
PROGRAM = shutil.which("nats-server", path=f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/usr/sbin")
#: Records of each stream between two acknowledgements: a server drops what it cannot take at once.
WINDOW = 1000
BATCHES = 10


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# -- the records -------------------------------------------------------------------------------------------------------


class Wire:
    """A connection to a NATS server at the level of its protocol: a client library takes many times as long."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._file = self._socket.makefile("rb")
        self._file.readline()
        self.send(b'CONNECT {"verbose":false,"headers":true}\r\nSUB acks 1\r\n')

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def answers(self, count: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while len(found) < count:
            words = self._file.readline().split()
            if words[0] == b"MSG":
                found.append(json.loads(self._file.read(int(words[-1]) + 2)))
            elif words[0] == b"PING":
                self.send(b"PONG\r\n")
            elif words[0] == b"-ERR":
                raise RuntimeError(words)
        return found

    def ask(self, subject: str, request: dict[str, Any]) -> dict[str, Any]:
        data = json.dumps(request).encode()
        self.send(b"PUB %s acks %d\r\n%s\r\n" % (subject.encode(), len(data), data))
        return self.answers(1)[0]


def fill(port: int, names: list[str], records: int) -> None:
    """One writer goes round the streams; each record names the one before it."""
    wire = Wire(port)
    for name in names:
        answer = wire.ask(f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"]})
        assert "error" not in answer, answer
    numbers, writer = [log_number(name) for name in names], secrets.randbits(64)
    count = len(names)
    chunk: list[bytes] = []
    for record in range(records):
        at, offset = record % count, record // count + 1
        before = (numbers[at - 1], offset if at else offset - 1)
        past = tuple(sorted(entry for entry in (before, (numbers[at], offset - 1)) if entry[1]))
        header = base64.b64encode(encode_header(Header(writer, offset, past)))
        head = b"NATS/1.0\r\nAntecede: %s\r\n\r\n" % header
        last = record // count % WINDOW == WINDOW - 1 or record >= records - count
        reply = b" acks" if last else b""
        sizes = (len(head), len(head) + len(PAYLOAD))
        chunk.append(b"HPUB %s.x%s %d %d\r\n%s%s\r\n" % (names[at].encode(), reply, *sizes, head, PAYLOAD))
        if last and at == count - 1:
            wire.send(b"".join(chunk))
            chunk = []
            for answer in wire.answers(count):
                assert "error" not in answer, answer


# -- the query, in a process of its own --------------------------------------------------------------------------------


def drive(url: str, executors: int, records: int, place: Path) -> None:
    from antecede.spark.session import spark_session  # noqa: PLC0415 - the process that starts it needs no Spark

    spark = spark_session(f"local-cluster[{executors},1,1024]")
    rows = spark.readStream.format("antecede").option("url", url).option("since", "earliest")
    rows = rows.option("maxRowsPerBatch", records // BATCHES).load()
    query = rows.writeStream.format("parquet").option("checkpointLocation", str(place / "checkpoint"))
    query = query.trigger(availableNow=True).start(str(place / "table"))
    query.awaitTermination()
    progress = [one for one in query.recentProgress if one.numInputRows]
    told = {"rows": [one.numInputRows for one in progress], "ms": [one.durationMs for one in progress]}
    (place / "progress.json").write_text(json.dumps(told))
    spark.stop()


def start(url: str, executors: int, records: int, place: Path) -> subprocess.Popen[bytes]:
    place.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, __file__, "--drive", url, "--executors", str(executors), "--records", str(records)]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    return subprocess.Popen([*words, "--place", str(place)], start_new_session=True, env=environment)


def check(place: Path, streams: int, records: int) -> tuple[int, int]:
    """How many records are missing from the table, and how many are there twice."""
    files: dict[str, None] = {}
    for manifest in sorted((place / "table" / "_spark_metadata").glob("[0-9]*")):
        for line in manifest.read_text().splitlines()[1:]:
            files[json.loads(line)["path"].removeprefix("file://")] = None
    seen: dict[str, list[int]] = {}
    for file in files:
        table = pq.ParquetFile(file).read(columns=["log", "offset"]).to_pydict()
        for log, offset in zip(table["log"], table["offset"], strict=True):
            seen.setdefault(log, []).append(offset)
    total = sum(map(len, seen.values()))
    distinct = sum(len(set(offsets)) for offsets in seen.values())
    return records - distinct, total - distinct


def measure(url: str, executors: int, options: argparse.Namespace, place: Path, *, kill: bool) -> dict[str, Any]:
    began = time.monotonic()
    process = start(url, executors, options.records, place)
    killed = 0
    while process.poll() is None:
        time.sleep(0.5)
        commits = place / "checkpoint" / "commits"
        if kill and not killed and commits.exists() and len(list(commits.glob("[0-9]*"))) > BATCHES // 3:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            killed += 1
            process = start(url, executors, options.records, place)
    assert process.returncode == 0, process.returncode
    missing, twice = check(place, options.streams, options.records)
    told = json.loads((place / "progress.json").read_text())
    busy_s = sum(one["triggerExecution"] for one in told["ms"]) / 1000
    return {
        "executors": executors,
        "driver kills": killed,
        "records": options.records,
        "missing": missing,
        "twice": twice,
        "batches": len(told["rows"]),
        "records/s": None if killed else round(sum(told["rows"]) / busy_s),
        "records/s without the first batch": None
        if killed or len(told["rows"]) < 2
        else round(sum(told["rows"][1:]) / sum(one["triggerExecution"] for one in told["ms"][1:]) * 1000),
        "seconds in all": round(time.monotonic() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--executors", default="1,2")
    parser.add_argument("--kill", action="store_true", help="kill the driver once, with the last number of executors")
    parser.add_argument("--drive", help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drive:
        drive(options.drive, int(options.executors), options.records, options.place)
        return
    options.records -= options.records % options.streams
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="antecede-logs-spark-") as directory:
        place = Path(directory)
        words = [str(PROGRAM), "-js", "-sd", str(place / "server"), "-a", "127.0.0.1", "-p", str(port)]
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(2)
            names = [f"s{number}" for number in range(options.streams)]
            began = time.monotonic()
            fill(port, names, options.records)
            print(f"{options.records} records stored in {time.monotonic() - began:.0f} s", flush=True)
            url = f"nats://127.0.0.1:{port}?streams={','.join(names)}"
            counts = [int(one) for one in options.executors.split(",")]
            for executors in counts:
                print(json.dumps(measure(url, executors, options, place / f"e{executors}", kill=False)), flush=True)
            if options.kill:
                print(json.dumps(measure(url, counts[-1], options, place / "killed", kill=True)), flush=True)
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
