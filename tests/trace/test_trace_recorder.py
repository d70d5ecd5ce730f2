"""A trace comes back as it went in: as rows, as an Arrow table, from a file."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.trace import SCHEMA, SCHEMA_VERSION, Event, Recorder, Row
from antecede.trace.files import read_trace, table_rows, write_trace
from antecede.trace.schema import COLUMNS, EVENTS


def record(rows: Sequence[Row]) -> Recorder:
    recorder = Recorder()
    for row in rows:
        fields = row._asdict()
        event, time_us, node, size = (fields.pop(name) for name in ("event", "time_us", "node", "bytes"))
        recorder.add(event, time_us, node, size=size, **fields)
    return recorder


A_CONVERSATION = [
    Row(0, Event.SUBSCRIBE, 1, topic="rooms/42"),
    Row(5, Event.PUBLISH, 0, topic="rooms/42", source=0, seq=1),
    Row(5, Event.SEND, 0, peer=1, topic="rooms/42", source=0, seq=1, packet=1, bundle=1, bytes=76),
    Row(105, Event.RECEIVE, 1, peer=0, topic="rooms/42", source=0, seq=1, packet=1, bundle=1, bytes=76, hops=1),
    Row(105, Event.DELIVER, 1, topic="rooms/42", source=0, seq=1, hops=1, held_us=0),
    Row(110, Event.PUBLISH, 1, topic="räume/♯", source=1, seq=1, deps=(("rooms/42", 0, 1), ("räume/♯", 7, 3))),
    Row(111, Event.SEND, 1, peer=0, packet=2, bundle=0, bytes=20, note="ack"),
    Row(112, Event.DROP, 0, peer=1, packet=2, note="lost"),
    Row(113, Event.CRASH, 0),
    Row(113, Event.STOP, 2),
    Row(999, Event.RECOVER, 0),
    Row(1000, Event.UNSUBSCRIBE, 1, topic="rooms/42"),
]


def test_a_conversation_comes_back_from_memory_arrow_and_file(tmp_path: Path) -> None:
    assert {row.event for row in A_CONVERSATION} == set(Event)
    recorder = record(A_CONVERSATION)
    assert len(recorder) == len(A_CONVERSATION)
    assert list(recorder.rows()) == A_CONVERSATION
    table = recorder.table("demo")
    assert list(table_rows(table)) == A_CONVERSATION
    write_trace(table, tmp_path / "demo.parquet")
    assert list(table_rows(read_trace(tmp_path / "demo.parquet"))) == A_CONVERSATION


def test_an_empty_trace_is_a_trace(tmp_path: Path) -> None:
    table = Recorder().table("nothing")
    assert table.schema.equals(SCHEMA, check_metadata=True)
    write_trace(table, tmp_path / "nothing.parquet")
    assert list(table_rows(read_trace(tmp_path / "nothing.parquet"))) == []


def int_of(bits: int) -> st.SearchStrategy[int]:
    """−1 (does not apply) or what fits the column."""
    return st.integers(-1, 2 ** (bits - 1) - 1)


names = st.one_of(st.sampled_from(["", "a", "a/b"]), st.text(st.characters(codec="utf-8"), max_size=8))
rows = st.builds(
    Row,
    time_us=int_of(64),
    event=st.sampled_from(Event),
    node=int_of(32),
    peer=int_of(32),
    topic=names,
    source=int_of(32),
    seq=int_of(64),
    packet=int_of(64),
    bundle=int_of(32),
    bytes=int_of(32),
    hops=int_of(32),
    deps=st.lists(st.tuples(names, int_of(32), int_of(64)), max_size=3).map(tuple),
    held_us=int_of(64),
    note=names,
    digest=int_of(64),
)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(rows, max_size=12))
def test_any_rows_come_back_from_memory_arrow_and_file(recorded: list[Row]) -> None:
    recorder = record(recorded)
    assert list(recorder.rows()) == recorded
    table = recorder.table("run")
    assert list(table_rows(table)) == recorded
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "run.parquet")
        write_trace(table, path)
        assert list(table_rows(read_trace(path))) == recorded


def test_a_table_is_in_the_schema_and_says_its_version_and_run() -> None:
    table = record(A_CONVERSATION).table("seed-7")
    assert table.schema.equals(SCHEMA, check_metadata=True)
    assert table.schema.metadata == {b"antecede.trace": str(SCHEMA_VERSION).encode()}
    assert set(table["run"].to_pylist()) == {"seed-7"}
    table.validate(full=True)


def test_what_does_not_apply_is_null_in_a_table() -> None:
    """So that SQL over a trace counts and averages what is there."""
    columns = record([Row(1, Event.CRASH, 4)]).table("run").to_pydict()
    applies = {name for name, values in columns.items() if values != [None]}
    assert applies == {"run", "time_us", "event", "node"}
    assert columns["event"] == ["crash"]


def test_a_row_s_fields_are_the_schema_s_columns() -> None:
    assert set(Row._fields) | {"run"} == set(SCHEMA.names) == set(COLUMNS)
    assert set(EVENTS) == set(Event)


def test_a_recorder_goes_on_after_giving_a_table() -> None:
    """A live node writes a trace every so often; an earlier table must neither stop it nor change."""
    recorder = record(A_CONVERSATION)
    table = recorder.table("first")
    recorder.add(Event.CRASH, 2000, 1)
    assert len(table) == len(A_CONVERSATION)
    assert list(table_rows(table)) == A_CONVERSATION
    assert len(recorder.table("second")) == len(A_CONVERSATION) + 1


def test_rows_may_come_in_several_batches() -> None:
    table = record(A_CONVERSATION).table("run")
    parts = pa.concat_tables([table.slice(0, 3), table.slice(3, 1), table.slice(4)])
    assert list(table_rows(parts)) == A_CONVERSATION


def test_what_does_not_fit_a_column_is_refused_not_cut_off() -> None:
    with pytest.raises(pa.ArrowInvalid):
        record([Row(0, Event.SEND, 0, bytes=2**31)]).table("run")
