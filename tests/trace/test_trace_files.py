"""Trace files: written whole or not at all, never over another, and refused when anything about them is wrong."""

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede.core import UsageError
from antecede.trace import SCHEMA, Event, Recorder
from antecede.trace.files import check_trace, read_trace, runs_in, table_rows, write_trace


def some_trace(run: str = "run") -> pa.Table:
    recorder = Recorder()
    for n in range(40):
        deps = (("t", 1, n), ("u", 2, n)) if n % 4 == 0 else ()
        recorder.add(Event.PUBLISH, 7 * n, n % 5, topic=f"t{n % 3}", source=n % 5, seq=n, deps=deps, note="x" * (n % 2))
    return recorder.table(run)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "run.parquet"
    write_trace(some_trace(), path)
    return path


# -- writing ----------------------------------------------------------------------------------------------------------


def test_the_same_rows_make_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    write_trace(some_trace(), first)
    write_trace(some_trace(), second)
    assert first.read_bytes() == second.read_bytes()
    other = tmp_path / "other.parquet"
    write_trace(some_trace("another run"), other)
    assert first.read_bytes() != other.read_bytes()


def test_a_rewritten_trace_is_the_same_file(written: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.parquet"
    write_trace(read_trace(written), again)
    assert read_trace(again).equals(read_trace(written))


def test_nothing_is_left_beside_the_file(written: Path) -> None:
    assert os.listdir(written.parent) == [written.name]


def test_an_existing_file_is_never_overwritten(written: Path) -> None:
    before = written.read_bytes()
    with pytest.raises(UsageError, match="already exists"):
        write_trace(some_trace("another run"), written)
    assert written.read_bytes() == before


def test_a_file_that_appears_while_we_write_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.parquet"
    write_table = pq.write_table

    def somebody_else_is_faster(table: pa.Table, where: Path, **options: object) -> None:
        write_table(table, where, **options)
        path.write_text("theirs")

    monkeypatch.setattr(pq, "write_table", somebody_else_is_faster)
    with pytest.raises(UsageError, match="already exists"):
        write_trace(some_trace(), path)
    assert path.read_text() == "theirs"
    assert os.listdir(tmp_path) == ["run.parquet"]


def test_a_file_system_without_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*paths: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    path = tmp_path / "run.parquet"
    write_trace(some_trace(), path)
    with pytest.raises(UsageError, match="already exists"):
        write_trace(some_trace("another run"), path)
    assert read_trace(path).equals(some_trace())
    assert os.listdir(tmp_path) == ["run.parquet"]


def test_a_directory_is_not_written_over(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="already exists"):
        write_trace(some_trace(), tmp_path)


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"its directory does not exist; create .*missing"):
        write_trace(some_trace(), tmp_path / "missing" / "run.parquet")


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), RuntimeError("a bug")])
def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    def half_a_file(table: pa.Table, where: Path, **options: object) -> None:
        where.write_bytes(b"PAR1 and then")
        raise failure

    monkeypatch.setattr(pq, "write_table", half_a_file)
    expected = UsageError if isinstance(failure, OSError) else RuntimeError
    with pytest.raises(expected, match=r"No space left|a bug"):
        write_trace(some_trace(), tmp_path / "run.parquet")
    assert os.listdir(tmp_path) == []


# -- refusals ---------------------------------------------------------------------------------------------------------


def refused(path: Path) -> str:
    """The one line with which both `check_trace` and `read_trace` refuse a file."""
    with pytest.raises(UsageError) as by_check:
        check_trace(path)
    with pytest.raises(UsageError) as by_read:
        read_trace(path)
    message = str(by_check.value)
    assert message == str(by_read.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_a_good_file_is_not_refused(written: Path) -> None:
    check_trace(written)
    assert read_trace(written).equals(some_trace())


def test_no_such_file(tmp_path: Path) -> None:
    assert "there is no such file" in refused(tmp_path / "missing.parquet")
    assert "there is no such file" in refused(tmp_path / "no directory" / "missing.parquet")


def test_a_directory_is_no_trace(tmp_path: Path) -> None:
    assert "is a directory without Parquet files" in refused(tmp_path)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"time,event\n1,send\n" * 50, b"\0" * 5000])
def test_other_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.parquet"
    path.write_bytes(content)
    assert "is not a readable Parquet file" in refused(path)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.99])
def test_a_truncated_file(written: Path, share: float) -> None:
    content = written.read_bytes()
    written.write_bytes(content[: int(share * len(content))])
    assert "is not a readable Parquet file" in refused(written)


def test_a_table_that_lacks_columns(tmp_path: Path) -> None:
    path = tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"time_us": [1, 2], "event": ["send", "send"]}), path)
    assert "lacks the column node; a trace has the columns run, time_us, event, node, " in refused(path)


@pytest.mark.parametrize("version", [b"0", b"3", b"11", b"", b"\xff"])
def test_another_schema_version(tmp_path: Path, version: bytes) -> None:
    path = tmp_path / "other.parquet"
    pq.write_table(some_trace().replace_schema_metadata({b"antecede.trace": version}), path)
    message = refused(path)
    assert f"has trace schema version {version.decode(errors='replace')}, this antecede reads 1 to 2" in message


CHANGES: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "no node": (lambda table: table.drop_columns(["node"]), "lacks the column node"),
    "colour": (lambda table: table.append_column("colour", table["seq"]), "has a column colour"),
    "no time": (
        lambda table: table.set_column(1, "time_us", pa.nulls(len(table), pa.int64())),
        "column 'time_us': is null in 40 rows",
    ),
    "large": (
        lambda table: table.set_column(3, "node", pa.array([1 << 40] * len(table))),
        "column 'node': is int64 and does not become int32",
    ),
    "words": (
        lambda table: table.set_column(7, "seq", pa.array(["one"] * len(table))),
        "column 'seq': is string and does not become int64",
    ),
    "event": (
        lambda table: table.set_column(2, "event", pa.array(["explode"] * len(table))),
        "event 'explode': is not an event of a trace",
    ),
    "no event": (
        lambda table: table.set_column(2, "event", pa.array([None] * len(table), pa.string())),
        "column 'event': is null in 40 rows",
    ),
    "deps": (
        lambda table: table.set_column(12, "deps", pa.array([[1]] * len(table))),
        "column 'deps': is list<element: int64> and does not become",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_trace_with_other_columns(tmp_path: Path, change: str) -> None:
    """Left to itself, Arrow fills a missing column with nulls."""
    make, said = CHANGES[change]
    path = tmp_path / "other.parquet"
    pq.write_table(make(some_trace()).replace_schema_metadata(SCHEMA.metadata), path)
    with pytest.raises(UsageError) as caught:
        read_trace(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


# -- tables of other programs -----------------------------------------------------------------------------------------


def foreign(table: pa.Table) -> pa.Table:
    """As another program might write it: other widths, plain text, null or −1, no metadata, columns in any order."""
    rows = table.to_pylist()
    columns = {
        "node": pa.array([row["node"] for row in rows], pa.int64()),
        "event": pa.array([row["event"] for row in rows], pa.large_string()),
        "deps": pa.array(
            [
                [{"seq": dep["seq"], "source": dep["source"], "topic": dep["topic"]} for dep in row["deps"] or []]
                for row in rows
            ]
        ),
        "time_us": pa.array([row["time_us"] for row in rows], pa.timestamp("us", "UTC")),
        "topic": table["topic"].cast(pa.dictionary(pa.int64(), pa.string())),
        "source": pa.array([row["source"] for row in rows], pa.uint8()),
        "seq": pa.array([float(row["seq"]) for row in rows]),
        "hops": pa.array([-1] * len(rows)),
        "note": pa.array([row["note"] or "" for row in rows]),
    }
    return pa.table(columns)


def test_a_table_of_another_program_is_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "theirs.parquet"
    pq.write_table(foreign(some_trace()), path)
    check_trace(path)
    found = read_trace(path)
    assert found.schema.equals(SCHEMA, check_metadata=True)
    assert found.to_pylist() == [{**row, "run": "theirs"} for row in some_trace().to_pylist()]
    bare = some_trace().replace_schema_metadata(None)
    pq.write_table(bare, tmp_path / "bare.parquet")
    assert read_trace(tmp_path / "bare.parquet").to_pylist() == bare.to_pylist()
    for kind in (pa.int16(), pa.int64()):  # a dictionary of another width, as pandas and Spark write it
        event = bare["event"].cast(pa.string()).cast(pa.dictionary(kind, pa.string()))
        pq.write_table(some_trace().set_column(2, "event", event), tmp_path / f"{kind}.parquet")
        assert read_trace(tmp_path / f"{kind}.parquet").to_pylist() == bare.to_pylist()


def test_minus_one_and_nothing_mean_null(tmp_path: Path) -> None:
    """With the very types of our schema, too: else −1 counts as a node, and '' as a topic."""
    ours = some_trace()
    mixed = ours
    for at, field in enumerate(ours.schema):
        empty = -1 if pa.types.is_integer(field.type) else ""
        if ours.column(at).null_count and not pa.types.is_list(field.type):
            values = [empty if value is None and row % 2 else value for row, value in enumerate(ours[at].to_pylist())]
            mixed = mixed.set_column(at, field.name, pa.array(values, field.type))
    assert not mixed.equals(ours)
    pq.write_table(mixed.replace_schema_metadata(None), tmp_path / "mixed.parquet")
    assert read_trace(tmp_path / "mixed.parquet").to_pylist() == ours.to_pylist()


def test_a_table_in_several_files_is_one_trace(tmp_path: Path) -> None:
    """As Spark writes it, and in any order: a column `row` or the times put its rows in order."""
    rows = foreign(some_trace())
    numbered = rows.append_column("row", pa.array(range(len(rows))))
    for name, table in (("by time", rows), ("by row", numbered)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "_SUCCESS").touch()
        for number in range(4):
            part = table.take(list(range(len(table) - 1 - number, -1, -4))[::-1])
            pq.write_table(part, tmp_path / name / f"part-{number}.snappy.parquet")
        found = read_trace(tmp_path / name)
        assert list(table_rows(found)) == list(table_rows(some_trace()))


def test_runs_of_one_table(tmp_path: Path) -> None:
    both = pa.concat_tables([some_trace("b"), some_trace("a").slice(0, 7)]).replace_schema_metadata(None)
    pq.write_table(both, tmp_path / "both.parquet")
    assert runs_in(tmp_path / "both.parquet") == ["a", "b"]
    assert len(read_trace(tmp_path / "both.parquet", "a")) == 7
    with pytest.raises(UsageError, match=r"has 2 runs .'b', 'a'.; choose one with --run"):
        read_trace(tmp_path / "both.parquet")
    write_trace(some_trace(), tmp_path / "ours.parquet")
    assert runs_in(tmp_path / "ours.parquet") == []


def test_a_changed_byte_changes_no_row(written: Path) -> None:
    """Wherever it is: the file is refused, or the byte meant nothing. Without checksums half of them go unnoticed."""
    content = written.read_bytes()
    rows = list(table_rows(read_trace(written)))
    refusals = 0
    for position in range(0, len(content), 23):
        damaged = bytearray(content)
        damaged[position] ^= 0x55
        written.write_bytes(damaged)
        try:
            table = read_trace(written)
        except UsageError:
            refusals += 1
        else:
            assert list(table_rows(table)) == rows, f"byte {position} of {len(content)}"
    assert refusals > 100


def test_a_directory_s_name_adds_no_column(tmp_path: Path) -> None:
    """Traces lie in directories such as `experiment=figure-4.3`, which Arrow likes to read as a column."""
    directory = tmp_path / "experiment=figure-4.3"
    directory.mkdir()
    write_trace(some_trace(), directory / "run.parquet")
    assert read_trace(directory / "run.parquet").equals(some_trace())
