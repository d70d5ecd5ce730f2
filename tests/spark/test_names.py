"""Columns whose names have dots, spaces and backticks: ordered like any others, in streams and tables."""

import re
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession

from antecede.spark import causal_order, causal_sort, dead_letters, waiting_rows
from antecede.spark.quoting import original_name, plain_name
from tests.spark.feeding import Feed

KEY: Final = ["chat.room", "the `house`"]
IDS: Final[dict[str, Any]] = {"id": "id.of row", "parents": "`follows`"}
NUMBERS: Final[dict[str, Any]] = {"source": "who.`wrote`", "seq": "its number", "deps": "after.all"}
NAMINGS: Final = [pytest.param(IDS, id="ids"), pytest.param(NUMBERS, id="numbers")]


class Said(NamedTuple):
    """A row. Ann's messages are a1, a2, …; a row follows the one message it names."""

    name: str
    after: str | None = None
    house: str = "h.1"


TYPES: Final = {
    "chat.room": pa.string(),
    "the `house`": pa.string(),
    "id.of row": pa.string(),
    "`follows`": pa.list_(pa.string()),
    "who.`wrote`": pa.string(),
    "its number": pa.int64(),
    "after.all": pa.list_(pa.struct([("who.`wrote`", pa.string()), ("its number", pa.int64())])),
    "what.was said": pa.string(),
    "chat": pa.struct([("room", pa.string())]),  # that `chat.room` unquoted would mean
}
DDL: Final = (
    "`chat.room` string, `the ``house``` string, `id.of row` string, ```follows``` array<string>, "
    "`who.``wrote``` string, `its number` bigint, "
    "`after.all` array<struct<`who.``wrote```: string, `its number`: bigint>>, `what.was said` string, "
    "chat struct<room: string>"
)


def table(rows: list[Said]) -> pa.Table:
    columns: list[list[Any]] = [
        ["r.1" for _ in rows],
        [one.house for one in rows],
        [one.name for one in rows],
        [[one.after] if one.after else [] for one in rows],
        [one.name[0] for one in rows],
        [int(one.name[1:]) for one in rows],
        [[{"who.`wrote`": one.after[0], "its number": int(one.after[1:])}] if one.after else [] for one in rows],
        [f"{one.name} says" for one in rows],
        [{"room": "another"} for _ in rows],
    ]
    return pa.table(dict(zip(TYPES, columns, strict=True)), pa.schema(list(TYPES.items())))


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path, DDL, table)


def names(rows: list[Row]) -> list[str]:
    return [row["id.of row"] for row in rows]


@given(st.text(alphabet="a_0x2E.` 😀") | st.text())
@example("_0x2E_")
@example("._0x41_")
def test_a_plain_name_is_an_identifier_and_stands_for_one_name(name: str) -> None:
    assert original_name(plain_name(name)) == name
    assert re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*)?", plain_name(name))


@pytest.mark.parametrize("naming", NAMINGS)
def test_a_stream_with_any_names_of_columns(feed: Feed, naming: dict[str, Any]) -> None:
    feed.put([Said("b1", "a1"), Said("c1", "b1"), Said("b1", "x1", "h.2")])
    feed.put([Said("a1")])
    feed.run(lambda stream: causal_order(stream, key=KEY, required="what.was said", **naming))
    assert names(feed.shown()) == ["a1", "b1", "c1"]
    (last,) = [row for row in feed.shown() if row["order_position"] == 3]
    assert last.asDict(recursive=True) == table([Said("c1", "b1")]).to_pylist()[0] | {
        "order": "causal",
        "held_ms": last["held_ms"],
        "order_position": 3,
    }
    (waiting,) = waiting_rows(feed.spark, str(feed.directory / "checkpoint")).collect()
    assert (waiting["chat.room"], waiting["the `house`"]) == ("r.1", "h.2")
    assert waiting["missing"] == (["x1"] if "id" in naming else ["x.1"])


@pytest.mark.parametrize("naming", NAMINGS)
def test_a_table_with_any_names_of_columns(feed: Feed, naming: dict[str, Any]) -> None:
    feed.put([Said("c1", "b1"), Said("b1", "a1"), Said("a1"), Said("b1", "x1", "h.2")])
    whole = feed.spark.read.schema(DDL).parquet(str(feed.directory / "in"))
    assert names(causal_order(whole, key=KEY, **naming).collect()) == ["a1", "b1", "c1", "b1"]
    rows = causal_sort(whole, key=KEY, by="what.was said", **naming).collect()
    assert names(rows) == ["a1", "b1", "c1", "b1"]
    entry = "x1" if "id" in naming else {"who.`wrote`": "x", "its number": 1}
    assert [row.asDict(recursive=True)["missing"] for row in rows] == [None, None, None, [entry]]
    assert dead_letters(whole, key=KEY, required="what.was said", **naming).count() == 0
