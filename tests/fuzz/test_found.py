"""What fuzzing found: inputs that once raised an error from the depths of a library, or took all memory."""

from pathlib import Path

import pyarrow as pa
import pytest

from antecede.core import Message, UsageError
from antecede.journal.blocks import (
    DamagedError,
    KeptCodec,
    LeanMessage,
    StoredChange,
    decode_changes,
    decode_deliveries,
    decode_lean,
    encode_changes,
    encode_deliveries,
    seal_block,
    unpack_deps,
)
from antecede.journal.lives import Identity
from antecede.node.config import load_config
from antecede.node.directory import open_roster
from antecede.node.protocol import node_records
from antecede.protocols.live_registry import LIVE
from antecede.trace.arrow import SCHEMA
from antecede.trace.files import read_trace, write_trace
from antecede.wire.security.tokens import TokenFile

#: JSON and TOML that nest deeper than Python's stack.
NESTED = b"[" * 3000 + b"]" * 3000


def test_settings_that_nest_too_deep(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_bytes(b"seeds = " + NESTED)
    with pytest.raises(UsageError, match="is not TOML"):
        load_config(path)


def test_a_roster_that_nests_too_deep(tmp_path: Path) -> None:
    (tmp_path / "roster.json").write_bytes(b'{"key":7,"members":[],"x":' + NESTED + b"}")
    roster = open_roster(tmp_path, Identity("c", 1, 7, 1), 4)
    assert list(roster.members) == [1], "its own slot is in its journal; seeds lead to the others"


def test_tokens_that_nest_too_deep(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_bytes(b'{"clients":[],"x":' + NESTED + b"}")
    with pytest.raises(UsageError, match="token file"):
        TokenFile.read(path)


def test_kept_records_that_nest_too_deep() -> None:
    with pytest.raises(DamagedError):
        KeptCodec(node_records(LIVE["vcube"])).decode(seal_block(b"\x91\x92\xa1x" + b"\x91" * 5000))


def test_deliveries_that_nest_too_deep() -> None:
    with pytest.raises(DamagedError):
        decode_deliveries(seal_block(b"\x94\x90\x80\x90" + b"\x91" * 5000))


def test_a_run_of_changes_that_would_take_all_memory() -> None:
    block = encode_changes([StoredChange(0, "publish", "t", None, 1 << 40)])
    with pytest.raises(DamagedError, match="changes"):
        decode_changes(block)


def test_dependencies_of_another_type() -> None:
    (message,) = decode_lean(encode_deliveries([Message("t", 0, 1, ((1, 1),), b"")], {})).messages
    assert unpack_deps([message]) == ([1], [1, 1])
    wrong = LeanMessage("t", 0, 1, type(message.deps)(b"\x92\xa1x\xa1y"), b"")
    with pytest.raises(DamagedError, match="dependencies"):
        unpack_deps([wrong])


@pytest.mark.parametrize(
    ("odd", "problem"),
    [
        ({"event": "explode"}, "event 'explode': is not an event of a trace"),
        ({"deps": [{"topic": "t", "source": None, "seq": 1}]}, "dependencies without"),
        ({"deps": [None]}, "dependencies without"),
    ],
)
def test_a_trace_with_values_that_are_no_rows(tmp_path: Path, odd: dict[str, object], problem: str) -> None:
    row = {"run": "r", "time_us": 1, "event": "publish", "node": 1, "topic": "t", "source": 1, "seq": 1} | odd
    write_trace(pa.Table.from_pylist([row], schema=SCHEMA), tmp_path / "trace.parquet")
    with pytest.raises(UsageError, match=problem):
        read_trace(tmp_path / "trace.parquet")


def test_a_trace_whose_footer_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    row = {"run": "r", "time_us": 1, "event": "publish", "node": 1, "topic": "t", "source": 1, "seq": 1}
    write_trace(pa.Table.from_pylist([row], schema=SCHEMA), path)
    path.write_bytes(path.read_bytes().replace(b"held_us", b"\xfdeld_us"))
    with pytest.raises(UsageError, match=r"trace\.parquet"):
        read_trace(path)
