"""Trace directories: what was written is read back, whole, whatever the number of buckets."""

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.audit.traces import random_trace, table

from antecede.core import UsageError
from antecede.sim import RunSpec, simulate
from antecede.spark.sweep_directory import find_traces
from antecede.trace import SCHEMA
from antecede.trace.directory import (
    BUCKETED,
    EVENTS,
    AtomicDirectory,
    open_directory,
    read_directory,
    read_part,
    write_directory,
)
from antecede.trace.files import read_trace


@pytest.fixture(scope="module")
def trace() -> pa.Table:
    recorder = simulate(RunSpec(protocol="causal-aggregation", nodes=12, seed=3), trace=True).trace
    assert recorder is not None
    return recorder.table("a-run")


@pytest.mark.parametrize("bucket_rows", [10**6, 100, 7, 1])
def test_a_trace_comes_back_as_it_was(trace: pa.Table, tmp_path: Path, bucket_rows: int) -> None:
    write_directory(trace, tmp_path / "run", bucket_rows=bucket_rows)
    found = open_directory(tmp_path / "run")
    assert found.run == "a-run"
    assert found.rows == len(trace)
    assert found.buckets == {10**6: 1, 100: 3, 7: 12, 1: 12}[bucket_rows]  # a node is never split
    back = read_directory(tmp_path / "run")
    assert back.schema.equals(SCHEMA, check_metadata=True)
    assert back.to_pylist() == trace.to_pylist()


def test_random_traces_come_back(tmp_path: Path) -> None:
    for seed in range(40):
        rows = table(random_trace(Random(seed)), f"run-{seed}")
        write_directory(rows, tmp_path / str(seed), bucket_rows=1 + seed)
        assert read_directory(tmp_path / str(seed)).to_pylist() == rows.to_pylist()


def test_buckets_are_sorted_by_node_and_row(trace: pa.Table, tmp_path: Path) -> None:
    """What the audit's speed and correctness rest on."""
    write_directory(trace, tmp_path / "run", bucket_rows=50)
    found = open_directory(tmp_path / "run")
    for part in BUCKETED:
        for bucket in range(found.buckets):
            rows = read_part(found.file(part, bucket), ["node", "row", "event"])
            node, row = rows["node"].to_numpy(), rows["row"].to_numpy()
            assert set(node % found.buckets) <= {bucket}
            places = node * len(trace) + row
            assert (np.diff(places) > 0).all()
            if part == "deliveries":
                assert set(rows["event"].to_pylist()) <= {"deliver"}


def test_optional_columns_of_nulls_are_left_out(trace: pa.Table, tmp_path: Path) -> None:
    """Here no row has a note until the rows of the last node have one."""
    wanted, kind = ["row", "note", "digest", "peer"], trace.schema.field("note")
    write_directory(trace, tmp_path / "run")
    file = open_directory(tmp_path / "run").file("deliveries", 0)
    assert read_part(file, wanted).column_names == wanted
    assert read_part(file, wanted, optional=("note", "digest")).column_names == ["row", "digest", "peer"]
    notes = pc.if_else(pc.equal(trace["node"], trace["node"][-1]), "late", pa.scalar(None, pa.string()))
    write_directory(trace.set_column(trace.column_names.index("note"), kind, notes.cast(kind.type)), tmp_path / "run")
    assert read_part(file, wanted, optional=("note", "digest")).column_names == wanted


def test_writing_again_replaces_and_failing_leaves_alone(trace: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "run"
    write_directory(trace.slice(0, 50), path, bucket_rows=10)
    write_directory(trace, path)
    assert len(read_directory(path)) == len(trace)
    with pytest.raises(KeyError), AtomicDirectory(path):
        raise KeyError
    assert len(read_directory(path)) == len(trace)
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_a_part_on_its_own_is_no_trace(trace: pa.Table, tmp_path: Path) -> None:
    write_directory(trace, tmp_path / "run")
    with pytest.raises(UsageError, match="is one part of a trace directory; name the directory"):
        read_trace(tmp_path / "run" / "deliveries-00.parquet")
    pq.write_table(trace, tmp_path / "run" / EVENTS)
    with pytest.raises(UsageError, match=r"events\.parquet': differs from a trace in row"):
        open_directory(tmp_path / "run")


def test_other_tools_read_it_too(trace: pa.Table, tmp_path: Path) -> None:
    write_directory(trace, tmp_path / "traces" / "experiment=e" / "run", bucket_rows=100)
    whole = pq.read_table(tmp_path / "traces")
    assert whole.num_rows == len(trace)
    assert set(whole["experiment"].to_pylist()) == {"e"}


def test_finding(trace: pa.Table, tmp_path: Path) -> None:
    write_directory(trace, tmp_path / "b" / "run")
    write_directory(trace, tmp_path / "a" / "runs")
    (tmp_path / "a" / ".hidden").mkdir()
    pq.write_table(trace, tmp_path / "c.parquet")
    names = [path.relative_to(tmp_path) for path in find_traces(tmp_path)]
    assert names == [Path("c.parquet"), Path("a/runs"), Path("b/run")]
