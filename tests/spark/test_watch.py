"""Watching nodes: what is wrong is told as it happens, who is behind is told in time, and the exit code says so."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from typer.testing import CliRunner

import antecede
from antecede.cli.commands import make_app
from antecede.core import AntecedeError, Message, UsageError
from antecede.journal import Journal
from antecede.spark.watching.job import COLUMNS, live_audit
from antecede.spark.watching.view import View
from antecede.spark.watching.watch import name_nodes
from antecede.wire.envelope import seal

from .journals import BEGIN_US, append
from .nodes import Cluster

Said = tuple[int, int, tuple[tuple[int, int], ...]]


def write(directory: Path, node: int, said: list[Said], *, held_us: int = 0, words: bytes = b"x") -> None:
    """A journal in which `node` has delivered what was `said`, on two topics by turns, each 2 ms after publication."""

    async def deliver() -> None:
        directory.mkdir(parents=True, exist_ok=True)
        journal = await Journal.open(directory / "journal.db", cluster="antecede")
        await journal.set_node(node)
        messages = [
            Message("main", source, seq, deps, seal(f"t/{at % 2}", words, time_us=BEGIN_US))
            for at, (source, seq, deps) in enumerate(said)
        ]
        await append(journal, messages, BEGIN_US + 2000, {0: held_us} if held_us else None)
        await journal.close()

    asyncio.run(deliver())


GOOD: list[Said] = [(1, 1, ()), (2, 1, ((1, 1),)), (1, 2, ()), (2, 2, ((1, 2),))]
BAD: list[Said] = [(2, 1, ((1, 1),)), (1, 1, ()), (1, 3, ()), (1, 3, ())]


def watch(*arguments: object) -> tuple[int, list[dict[str, Any]]]:
    result = CliRunner().invoke(
        make_app("watch"), ["watch", "--json", "--once", "--since", "earliest", *map(str, arguments)]
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]


def test_what_is_wrong_is_told_and_in_the_exit_code(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "n0", 0, GOOD, held_us=3000)
    write(tmp_path / "n1", 1, BAD)
    code, rows = watch("--journal", tmp_path / "n0", "--journal", tmp_path / "n1")
    assert code == 1
    violations = [(row["node"], row["rule"], row["words"]) for row in rows if row["kind"] == "violation"]
    assert violations == [
        (
            "node 1",
            "causal",
            "node 1 delivered 2.1 (position 1) before 1.1 (position 2), which it names as its predecessor",
        ),
        ("node 1", "exactly-once", "node 1 delivered 1.3 (position 4) a second time"),
        ("node 1", "complete", "node 1 delivered 1.3 (position 3) without 1.2"),  # known when the batch is over
    ]
    topics = {(row["node"], row["topic"]): row for row in rows if row["kind"] == "topic"}
    assert {name: row["messages"] for name, row in topics.items()} == {
        (f"node {node}", f"t/{topic}"): 2 for node in (0, 1) for topic in (0, 1)
    }
    first = topics["node 0", "t/0"]
    assert (first["lag_ms_median"], first["held"], first["hold_ms_max"]) == (2.0, 1, 3.0)
    assert rows[-1] == {
        "kind": "end",
        "delivered": {"node 0": 4, "node 1": 4},
        "violations": {"causal": 1, "complete": 1, "exactly-once": 1},
    }


def test_one_number_with_two_contents_is_told(spark: SparkSession, tmp_path: Path) -> None:
    """Both nodes are in order by themselves; they deliver different words under the same numbers."""
    write(tmp_path / "n0", 0, GOOD, words=b"old")
    write(tmp_path / "n1", 1, GOOD, words=b"new")
    code, rows = watch("--journal", tmp_path / "n0", "--journal", tmp_path / "n1")
    assert code == 1
    violations = [row for row in rows if row["kind"] == "violation"]
    assert {(row["rule"], row["source"], row["seq"]) for row in violations} == {
        ("same-content", 1, 2),
        ("same-content", 2, 2),
    }
    assert "delivered other contents than" in violations[0]["words"]
    assert rows[-1]["violations"] == {"same-content": 2}


def test_where_nothing_is_wrong_the_exit_code_is_zero_and_state_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "n0", 0, GOOD[:2])
    again = ("--journal", tmp_path / "n0", "--checkpoint", tmp_path / "checkpoint")
    assert watch(*again)[0] == 0
    write(tmp_path / "n0", 0, [(1, 3, ())])  # 1.2 is not there, which only who has seen 1.1 can know
    code, rows = watch(*again)
    assert code == 1
    assert [row["words"] for row in rows if row["kind"] == "violation"] == [
        "node 0 delivered 1.3 (position 3) without 1.2"
    ]


def test_for_people_and_under_a_filter(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "n1", 1, BAD)
    arguments = ["watch", "--once", "--since", "earliest", "--topics", "t/#", "--journal", str(tmp_path / "n1")]
    result = CliRunner().invoke(make_app("watch"), arguments)
    assert result.exit_code == 1
    assert "causal violated: node 1 delivered 2.1 (position 1) before 1.1" in result.stdout
    assert "without 1.2" not in result.stdout  # a hole says nothing when not everything is read
    assert "violations: causal 1, exactly-once 1" in result.stdout


def test_mistakes_are_told_before_spark_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="names nothing to watch"):
        name_nodes([])
    with pytest.raises(AntecedeError, match="there is no such file"):
        name_nodes([{"journal": str(tmp_path), "topics": "#"}])
    with pytest.raises(AntecedeError, match=r"127\.0\.0\.1:1"):
        name_nodes([{"url": "antecede://127.0.0.1:1", "topics": "#"}])
    write(tmp_path, 3, GOOD)
    place = {"journal": str(tmp_path), "topics": "#"}
    assert list(name_nodes([place])) == ["node 3"]
    with pytest.raises(UsageError, match=r"is node 3, like .*; name every node once"):
        name_nodes([place, place])
    with pytest.raises(UsageError, match="is not a length of time"):
        watch("--patience", "0")


def test_a_stream_without_the_columns_is_told(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"'node': is not among the columns \(timestamp, value\)"):
        live_audit(spark.readStream.format("rate").load(), whole=True)


# -- who is behind ----------------------------------------------------------------------------------------------------


def at(node: str, source: int, seq: int) -> dict[str, Any]:
    return {"kind": "source", "node": node, "source": source, "seq": seq}


def test_a_node_that_stays_behind_is_told_once_and_again_when_it_falls_behind_again() -> None:
    view = View(["a", "b"], patience_s=10)
    assert view.take([at("a", 7, 1), at("b", 7, 1)], 0) == []
    assert view.take([at("a", 7, 5)], 1) == []
    assert view.behind("b") == 4
    assert view.look(10) == []
    (told,) = view.look(11)
    assert told["words"] == ("b has delivered nothing of source 7 after 7.1, a delivered 7.5 more than 10 s ago")
    assert view.look(12) == []
    assert view.take([at("b", 7, 5)], 13) == []
    assert view.behind("b") == 0
    assert view.take([at("a", 7, 6)], 20) == []
    assert len(view.look(30)) == 1
    assert view.violations == {"agreement": 2}


def test_fast_sources_do_not_hide_who_is_behind() -> None:
    view = View(["a", "b"], patience_s=10)
    view.take([at("b", 7, 1)], 0)
    told = [view.take([at("a", 7, 1 + tick)], tick / 10) for tick in range(1, 200)]
    (tick,) = [tick for tick, each in enumerate(told, 1) if each]
    assert 101 <= tick <= 108  # ten seconds behind the first, and what lies between two notes


def test_what_a_node_may_have_delivered_before_we_looked_is_not_held_against_it() -> None:
    view = View(["a", "b"], patience_s=10)
    view.take([at("a", 7, 5)], 0)
    assert view.look(100) == []
    view.take([at("a", 7, 6)], 101)  # published while we looked: b must have it
    assert len(view.look(111)) == 1


@pytest.mark.slow
def test_ctrl_c_ends_it_cleanly(tmp_path: Path) -> None:
    write(tmp_path / "n1", 1, BAD)
    command = [sys.executable, "-m", "antecede", "watch", "--json", "--since", "earliest", "-j", str(tmp_path / "n1")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while '"violation"' not in process.stdout.readline():
        assert process.poll() is None
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert json.loads(out.splitlines()[-1])["violations"]["causal"] == 1
    assert "Traceback" not in err


@pytest.mark.slow
def test_running_nodes_are_asked(spark: SparkSession, tmp_path: Path) -> None:
    with Cluster(tmp_path, nodes=2) as cluster:
        cluster.publish([(f"rooms/{number % 3}", b"x") for number in range(60)])
        cluster.publish([("rooms/0", b"y")] * 20, node=1)
        for node in (0, 1):
            with antecede.connect_sync(cluster.url(node)) as bus, bus.subscribe("#", since="0") as feed:
                for _ in range(80):  # until both have everything
                    assert feed.next(timeout_s=30) is not None
        code, rows = watch("--url", cluster.url(0), "--url", cluster.url(1))
    assert code == 0
    assert rows[-1] == {"kind": "end", "delivered": {"node 0": 80, "node 1": 80}, "violations": {}}
    assert {row["topic"] for row in rows if row["kind"] == "topic"} == {"rooms/0", "rooms/1", "rooms/2"}


def test_a_column_with_a_dot_in_its_name(spark: SparkSession) -> None:
    columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in StructType.fromDDL(COLUMNS)]
    stream = spark.readStream.format("rate").load().select(*columns, F.lit("n0").alias("the.node"))
    assert live_audit(stream, whole=True, node="the.node").columns[:2] == ["kind", "node"]
