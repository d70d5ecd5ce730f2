"""`antecede watch` on real log systems: it only reads, and counts answers that a plain reader is shown too early."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from antecede.cli.commands import make_app
from antecede.core import UsageError
from antecede.logs import LogRecord, connect
from antecede.logs.dependencies import Dependencies, DependencyReader, HeaderNames
from tests.logs.systems import System

TURNS = 300
TRACE = "0af7651916cd43dd8448eb211c80319c"


def watch(*arguments: object) -> tuple[int, list[dict[str, Any]]]:
    result = CliRunner().invoke(make_app("watch"), ["watch", "--json", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]


async def talk(url: str, logs: tuple[str, str]) -> None:
    """A conversation in which each record answers the one before, on the other log. A reader takes more than one record
    of a log at a time, so it is shown answers first, whichever log it begins with."""
    async with connect(url) as bus:
        for turn in range(TURNS):
            await bus.publish(f"{logs[turn % 2]}/talk", b"%d" % turn)


def test_early_answers_are_counted_by_pair_with_an_example_and_a_diagram(
    system: System, logs: tuple[str, str], tmp_path: Path
) -> None:
    asyncio.run(system.create(*logs))
    url = system.url(*logs)
    asyncio.run(talk(url, logs))
    before = asyncio.run(ends(url))
    code, rows = watch(url, "--once", "--diagram", tmp_path / "early.svg")
    assert code == 1
    end = rows[-1]
    assert (end["kind"], end["answers"], end["forgotten"]) == ("end", TURNS - 1, 0)
    assert end["records"] >= TURNS, "a log may have copies"
    early = [row for row in rows if row["kind"] == "early"]
    assert end["early"] == len({(row["answer"]["log"], row["answer"]["offset"]) for row in early}) > 0
    assert {(pair["question"], pair["answer"]) for pair in end["pairs"]} == {logs, logs[::-1]}
    assert sum(pair["early"] for pair in end["pairs"]) == len(early)
    assert early[0]["lead_ms"] >= 0
    assert "An answer before its question" in (tmp_path / "early.svg").read_text()
    assert asyncio.run(ends(url)) == before, "it only reads"

    name, _, query = url.partition("?")
    streams = query.partition("=")[2]
    result = CliRunner().invoke(make_app("watch"), ["watch", name, "--streams", streams, "--once", "--levels", "0"])
    assert result.exit_code == 1
    assert f"{logs[0]}/talk" in result.stdout
    assert "were shown before a record they depend on" in result.stdout


async def ends(url: str) -> dict[str, Any]:
    async with connect(url) as bus:
        return dict((await bus.status())["logs"])


def test_headers_of_other_producers(system: System, logs: tuple[str, str]) -> None:
    questions, answers = logs

    async def produce() -> None:
        await system.create(*logs)
        for number in range(3):
            headers = {"Message-Id": f"q{number}", "traceparent": f"00-{TRACE[:-1]}{number}-b7ad6b7169203331-01"}
            await system.append_plain(f"{questions}/{number}", b"?", headers)
            headers = {"In-Reply-To": f"q{number}", "traceparent": f"00-{TRACE[:-1]}{number}-00f067aa0ba902b7-01"}
            await system.append_plain(f"{answers}/{number}", b"!", headers)

    asyncio.run(produce())
    url = system.url(*logs)
    for options in (
        ("--id", "message-id", "--cause", "in-reply-to"),
        ("--correlation", "traceparent", "--flow", f"{questions}/#,{answers}/#"),
    ):
        code, rows = watch(url, "--once", *options)
        end = rows[-1]
        assert (end["records"], end["answers"]) == (6, 3)
        (pair,) = end["pairs"]
        assert (pair["question"], pair["answer"], pair["dependencies"]) == (questions, answers, 3)
        assert code == (end["early"] > 0)
    code, rows = watch(url, "--once")
    assert (code, rows[-1]["answers"], rows[-1]["pairs"]) == (0, 0, [])


def test_ctrl_c_ends_it_with_the_summary(lasting: System, logs: tuple[str, str]) -> None:
    asyncio.run(lasting.create(*logs))
    url = lasting.url(*logs)
    command = [sys.executable, "-m", "antecede", "watch", url, "--json", "--interval", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["kind"] == "start"
        asyncio.run(talk(url, logs))
        rows = [{}]
        while rows[-1].get("answers") != TURNS - 1:
            rows.append(json.loads(process.stdout.readline()))
        process.send_signal(signal.SIGINT)
        end = json.loads(process.stdout.read().splitlines()[-1])
        code = process.wait(30)
    assert (end["kind"], end["answers"]) == ("end", TURNS - 1)
    assert code == (end["early"] > 0)


def test_mistakes_are_named() -> None:
    for arguments, problem in (
        (("nats://127.0.0.1:4222",), "names no streams"),
        (("nats://127.0.0.1?streams=a", "--streams", "b"), "stands beside streams= in the url"),
        (("nats://127.0.0.1?streams=a", "redis://127.0.0.1?streams=a"), "watch one broker at a time"),
        (("nats://127.0.0.1?streams=a", "--id", "x"), "name only one end of a dependency"),
        (("nats://127.0.0.1?streams=a", "--correlation", "x"), "does not say which topic comes first"),
        (("nats://127.0.0.1?streams=a", "--correlation", "x", "--flow", "a/#"), "does not say which topic comes first"),
    ):
        result = CliRunner().invoke(make_app("watch"), ["watch", *arguments])
        assert isinstance(result.exception, UsageError)
        assert problem in str(result.exception)


def record(topic: str, **headers: str) -> LogRecord:
    return LogRecord(1, None, topic, b"", {name.replace("_", "-"): value for name, value in headers.items()}, 0)


@pytest.mark.parametrize(
    ("names", "headers", "found"),
    [
        (HeaderNames(("ID",), ("cause",)), {"id": "a", "Cause": "b, c"}, Dependencies(("a",), (), ("b", "c"))),
        (
            HeaderNames(("traceparent",), ("links",)),
            {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "links": f"00-{TRACE}-00f067aa0ba902b7-00"},
            Dependencies((f"{TRACE}-b7ad6b7169203331",), (), (f"{TRACE}-00f067aa0ba902b7",)),
        ),
        (
            HeaderNames(shared=("correlation-id",), flow=("a/#", "b/#", "c/#")),
            {"Correlation_Id": "7"},
            Dependencies(("1:correlation-id=7",), (), ("0:correlation-id=7",)),
        ),
        (HeaderNames(shared=("correlation-id",), flow=("x/#", "y/#")), {"correlation_id": "7"}, Dependencies()),
        (HeaderNames(("id",), ("cause",)), {"other": "a"}, Dependencies()),
    ],
)
def test_dependencies_from_headers(names: HeaderNames, headers: dict[str, str], found: Dependencies) -> None:
    assert DependencyReader(names).read(1, record("b/1", **headers), {}) == found
