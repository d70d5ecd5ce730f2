"""Traces as Parquet files: only `UsageError` may escape, from the file, from its rows or from their audit.

The first byte of an input says what the rest is. 0: a file. Other values: rows in JSON, which the harness writes as a
file. Checksums and compression would keep the fuzzer from changing rows in a file.
"""

import tempfile
from pathlib import Path

import msgspec
import pyarrow as pa

from antecede.audit import audit
from antecede.core import UsageError
from antecede.trace import Event, Recorder
from antecede.trace.arrow import SCHEMA, make_table
from antecede.trace.files import read_trace, table_rows, write_trace
from tests.fuzz.parsers import kind_of


def read(data: bytes) -> set[str]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "trace.parquet"
        if data[:1] in (b"", b"\x00"):
            path.write_bytes(data[1:])
        elif not _write_rows(data[1:], path):
            return {"no rows"}
        try:
            rows = list(table_rows(read_trace(path)))
            report = audit(rows)
        except UsageError as error:
            return {kind_of(error)}
        return {rule.name for rule in report.rules if rule.violations} | {str(len(rows))}


def _write_rows(data: bytes, path: Path) -> bool:
    try:
        rows = msgspec.json.decode(data, type=list[dict[str, object]])
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
        write_trace(table, path)
    except (msgspec.DecodeError, RecursionError, pa.ArrowException, OverflowError, TypeError, ValueError):
        return False
    return True


def seeds() -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for count in (0, 2, 20):
        recorder = Recorder()
        recorder.add(Event.SUBSCRIBE, 0, 1, topic="t")
        for seq in range(1, count + 1):
            deps = (("t", 0, seq - 1),) if seq > 1 else ()
            recorder.add(Event.PUBLISH, seq, 0, topic="t", source=0, seq=seq, deps=deps, digest=seq)
            recorder.add(Event.DELIVER, seq + 1, 1, topic="t", source=0, seq=seq, held_us=3, digest=seq)
        table = make_table(recorder, "run")
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "trace.parquet"
            write_trace(table, path)
            found[f"file-{count}"] = b"\x00" + path.read_bytes()
        if count < 20:
            found[f"rows-{count}"] = b"\x01" + msgspec.json.encode(table.to_pylist())
    row = {"run": "r", "time_us": 1, "event": "deliver", "node": 1, "topic": "t", "source": 0, "seq": 1}
    for name, odd in (("event", "explode"), ("node", -5), ("seq", None), ("topic", None), ("time_us", -1), ("run", "")):
        found[f"odd-{name}"] = b"\x01" + msgspec.json.encode([row | {name: odd}])
    return found
