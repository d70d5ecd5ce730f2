"""Logs of other systems as tables and streams: ranges of offsets, each record once, as of a cut."""

import asyncio
import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from antecede.core import UsageError
from antecede.logs import connect
from antecede.logs.address import SYSTEMS as SCHEMES
from antecede.logs.cursors import write_cursor
from antecede.protocols.logs import LogCursor, LogsCursor, log_number
from antecede.spark.logs.columns import LOG_SCHEMA
from antecede.spark.logs.source import LogReader, LogStream
from antecede.spark.topics.options import LOG_SCHEMES, sink_options
from tests.logs.systems import SYSTEMS, System, running

LOGS = ("orders", "shipping")


@pytest.fixture(scope="module", params=sorted(SYSTEMS))
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with running(request.param, tmp_path_factory.mktemp(request.param)) as system:
        asyncio.run(system.create(*LOGS))
        yield system


@pytest.fixture(scope="module")
def cut(system: System) -> str:
    """Ten turns of a conversation over both logs, a record of another producer, a cut, two more turns."""

    async def talk() -> str:
        async with connect(system.url(*LOGS)) as bus:
            for turn in range(10):
                await bus.publish(f"{LOGS[turn % 2]}/talk", b"%d" % turn, headers={"turn": str(turn)})
            await system.append_plain("orders/plain", b"plain")
            cut = await bus.cut()
            for turn in range(10, 12):
                await bus.publish(f"{LOGS[turn % 2]}/talk", b"%d" % turn)
            return cut

    return asyncio.run(talk())


def rows_of(reader: Any, partitions: Any) -> list[dict[str, Any]]:
    return [row for one in partitions for batch in reader.read(one) for row in batch.to_pylist()]


def told(rows: list[dict[str, Any]]) -> list[bytes]:
    """Each record once, though a log may have copies."""
    return list({(row["writer"], row["log"], row["number"]): row["payload"] for row in rows}.values())


def test_a_table_of_everything_and_as_of_a_cut(system: System, cut: str) -> None:
    options = {"url": system.url(*LOGS), "rowsPerPartition": "2"}
    reader = LogReader(options, LOG_SCHEMA)
    partitions = reader.partitions()
    rows = rows_of(reader, partitions)
    talk = [b"%d" % turn for turn in range(12)]
    assert sorted(told(rows)) == sorted([*talk, b"plain"])
    assert len(partitions) == (2 if system.name == "redis" else len(partitions)) >= 2
    assert len({(row["log"], row["offset"]) for row in rows}) == len(rows)

    by_payload = {row["payload"]: row for row in rows}
    third, fourth = by_payload[b"3"], by_payload[b"4"]
    assert {"log": third["log"], "offset": third["offset"]} in fourth["past"]
    assert (third["headers"], third["retry"], third["tombstone"]) == ([("turn", "3")], False, False)
    assert by_payload[b"plain"]["writer"] is None
    assert by_payload[b"plain"]["topic"] == "orders/plain"

    before = LogReader({**options, "until": cut}, LOG_SCHEMA)
    after = LogReader({**options, "since": cut}, LOG_SCHEMA)
    earlier, later = (rows_of(one, one.partitions()) for one in (before, after))
    assert sorted(told(earlier)) == sorted([*talk[:10], b"plain"])
    assert sorted(told(later)) == sorted(talk[10:])
    named = {(entry["log"], entry["offset"]) for row in earlier for entry in row["past"]}
    assert named <= {(row["log"], row["offset"]) for row in earlier}, "what a row depends on is in the cut too"
    tenth = next(row for row in later if row["payload"] == b"10")
    assert tenth["past"] == [], "what lies before the beginning is not waited for"


def test_a_stream_reads_each_offset_once(system: System, cut: str) -> None:
    options = {"url": system.url(*LOGS), "since": "earliest"}
    stream = LogStream(options, LOG_SCHEMA)
    everything = rows_of(reader := LogReader(options, LOG_SCHEMA), reader.partitions())
    start, rows = stream.initialOffset(), []
    limit = ReadAllAvailable() if system.name == "redis" else ReadMaxRows(4)
    while (end := stream.latestOffset(start, limit)) != start:
        batch = rows_of(stream, stream.partitions(start, end))
        again = LogStream(options, LOG_SCHEMA)
        assert rows_of(again, again.partitions(start, end)) == batch, "a batch that is run again has the same rows"
        rows += batch
        start = end
    assert len(rows) == len(everything)
    assert sorted(told(rows)) == sorted(told(everything))
    ending = LogStream({**options, "until": cut}, LOG_SCHEMA)
    ending.prepareForTriggerAvailableNow()
    first = ending.initialOffset()
    assert len(told(rows_of(ending, ending.partitions(first, ending.latestOffset(first, ReadAllAvailable()))))) == 11
    latest = LogStream({"url": system.url(*LOGS)}, LOG_SCHEMA)
    now = latest.initialOffset()
    assert latest.latestOffset(now, ReadAllAvailable()) == now


def test_a_cursor_between_two_records_of_a_log(tmp_path: Path) -> None:
    """What it has taken already is not read again, and not waited for."""
    with running("nats", tmp_path) as system:

        async def fill() -> None:
            await system.create(*LOGS)
            for number in range(4):
                await system.append_plain("orders/x", b"%d" % number)
            async with connect(system.url(*LOGS)) as bus, bus.subscribe("#", since="0") as feed:
                for _ in range(4):
                    await anext(feed)
                await bus.publish("shipping/x", b"answer")

        asyncio.run(fill())
        orders, shipping = log_number("orders"), log_number("shipping")
        cursor = write_cursor(LogsCursor({orders: LogCursor(1, (3, 4)), shipping: LogCursor(0)}))
        url = system.url(*LOGS)
        rows = rows_of(reader := LogReader({"url": url, "since": cursor}, LOG_SCHEMA), reader.partitions())
        assert [(row["log"], row["offset"]) for row in rows] == [("orders", 2), ("shipping", 1)]
        assert rows[1]["past"] == [{"log": "orders", "offset": 2}]
        rows = rows_of(reader := LogReader({"url": url, "until": cursor}, LOG_SCHEMA), reader.partitions())
        assert [(row["log"], row["offset"]) for row in rows] == [("orders", 1), ("orders", 3), ("orders", 4)]


def test_mistakes_are_named(tmp_path: Path) -> None:
    assert set(LOG_SCHEMES) == set(SCHEMES)
    url = "nats://127.0.0.1?streams=orders"
    for options, problem in (
        ({"url": "nats://127.0.0.1"}, "names no streams"),
        ({"url": url, "topics": "orders/#"}, "would leave out rows that others wait for"),
        ({"url": url, "since": "yesterday"}, "is not a cursor of logs"),
        ({"url": url, "journal": "x"}, "is not one for reading logs"),
        ({"url": "redis://127.0.0.1?streams=orders", "maxRowsPerBatch": "5"}, "offsets of Redis are times"),
    ):
        with pytest.raises(UsageError, match=problem):
            LogReader(options, LOG_SCHEMA)
    with pytest.raises(UsageError, match="is only read"):
        sink_options({"url": url, "topic": "t"})


def test_what_retention_removed_is_told(tmp_path: Path) -> None:
    with running("nats", tmp_path) as system:

        async def fill() -> None:
            await system.create(*LOGS)
            for number in range(6):
                await system.append_plain("orders/x", b"%d" % number)

        asyncio.run(fill())
        options = {"url": system.url(*LOGS), "since": "earliest"}
        stream = LogStream(options, LOG_SCHEMA)
        start = stream.initialOffset()
        end = stream.latestOffset(start, ReadAllAvailable())
        asyncio.run(system.remove_until("orders", 2))
        with pytest.raises(UsageError, match="offsets 1 to 4 of orders were removed by retention"):
            stream.partitions(start, end)
        going_on = LogStream({**options, "failOnDataLoss": "false"}, LOG_SCHEMA)
        assert [row["payload"] for row in rows_of(going_on, going_on.partitions(start, end))] == [b"4", b"5"]


def test_the_example_writes_both_streams_in_causal_order(session: SparkSession, tmp_path: Path) -> None:
    """Also after a driver was killed before its batch was committed."""
    path = Path(__file__).parents[2] / "examples" / "tables_over_nats.py"
    spec = importlib.util.spec_from_file_location("tables_over_nats", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    with running("nats", tmp_path / "server") as system:
        target = tmp_path / "table"
        asyncio.run(example.talk(system.url("x").partition("?")[0], 30))
        example.copy(session, system.url(*LOGS), target)
        asyncio.run(example.talk(system.url("x").partition("?")[0], 2))
        example.copy(session, system.url(*LOGS), target)
        # What a killed driver leaves behind: the last batch is in the log of offsets, and not among the commits.
        commits = target / "_checkpoint" / "commits"
        last = max((one for one in commits.iterdir() if one.name.isdecimal()), key=lambda one: int(one.name))
        last.unlink()
        shutil.rmtree(target / f"batch={last.name}")
        (commits / f".{last.name}.crc").unlink(missing_ok=True)
        example.copy(session, system.url(*LOGS), target)
    rows = session.read.parquet(str(target)).orderBy("batch", "place").collect()
    turns = [*range(30), *range(2)]
    assert [row.payload for row in rows] == [f"{what} {turn}" for turn in turns for what in ("order", "shipped")], (
        "each answer names the order before it, each order the answer before it"
    )
